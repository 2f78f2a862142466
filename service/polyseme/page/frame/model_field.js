/** The choice of a model, where there is more than one. */

import { choice, labelled, offer } from "./elements.js";
import { listed } from "./models.js";

/** `element`, hidden while there is nothing to choose, and `show(name)`. */
export function modelField(page) {
  const select = choice([["", "default"]], "", (model) => page.go({ model }));
  const element = labelled("Model", select);
  element.hidden = true;
  let wanted = "";
  const offered = async () => {
    const models = (await listed()).filter((model) => model?.status === "ok");
    const options = models.map(({ id, default: first }) => (first ? ["", `${id} (default)`] : [id, id]));
    if (!options.some(([id]) => id === "")) options.unshift(["", "default"]);
    // A name of the address that is not there stays to be seen: the service says what is wrong.
    if (wanted && !options.some(([id]) => id === wanted)) options.push([wanted, wanted]);
    offer(select, options, wanted);
    element.hidden = options.length < 2;
  };
  return {
    element,
    show(name) {
      wanted = name;
      offered();
    },
  };
}

/** A refusal as sentences, with what the reader can do about it. */

import { curl } from "./command.js";
import { freshId, h } from "./elements.js";
import { key, sendable } from "./service.js";

const SHOWN = 8;

/** What to show of a Refusal; `question` is the path and the body that were refused. */
export function refusal({ message, hint, errors, status }, { path, body }) {
  return [
    h("p", {}, h("strong", {}, coded(message)), " ", coded(hint)),
    errors.length
      ? h("ul", {}, errors.slice(0, SHOWN).map(({ pointer, message: said }) =>
        h("li", {}, pointer ? h("code", {}, pointer) : "", " ", coded(said))))
      : null,
    status === 401 ? keyForm() : null,
    passing(status)
      ? h("button", { type: "button", class: "quiet", onclick: () => again() }, "Try again")
      : null,
    h("details", {}, h("summary", {}, "The request as a command"), h("pre", {}, h("code", {}, curl(path, body)))),
  ].filter(Boolean);
}

/** Whether the same question may be answered another time. */
const passing = (status) => status === 0 || status === 429 || status >= 500;

const again = () => document.dispatchEvent(new CustomEvent("polyseme-again"));

/** Names that a sentence has between backticks. */
const coded = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

function keyForm() {
  const id = freshId("key");
  const field = h("input", {
    type: "password", autocomplete: "off", id, required: true,
    oninput: () => field.setCustomValidity(
      !field.value || sendable(field.value) ? "" : "A key has no spaces, and no letters beyond ASCII.",
    ),
  });
  const use = (event) => {
    event.preventDefault();
    key.set(field.value);
    document.dispatchEvent(new CustomEvent("polyseme-key"));
  };
  return h(
    "form",
    { class: "key", onsubmit: use },
    h("label", { for: id }, "API key (kept until you close this tab)"),
    field,
    h("button", {}, "Use it"),
  );
}

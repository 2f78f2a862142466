/** The marks of the map, the same in the picture and in its legend. */

import { inkOn, thingColour } from "../frame/colours.js";
import { s } from "../frame/elements.js";
import { letter } from "./letters.js";

/** How far a mark reaches from its middle. */
export const REACH = { static: 8, contextual: 10, before: 4, after: 3.5, both: 4.5 };

/** The mark of a kind at 0, 0; one of several occurrences has no one's colour. */
export function markOf(kind, owners) {
  const alone = owners.length === 1;
  const r = REACH[kind];
  const square = (width) => s("rect", {
    class: alone ? "hollow" : "hollow shared", x: -r, y: -r, width: 2 * r, height: 2 * r,
    "stroke-width": width, stroke: alone ? thingColour(owners[0]) : null,
  });
  if (kind === "static") return [square(2.5)];
  if (kind === "before") return [square(1.5)];
  const paint = { class: alone ? null : "shared-fill", fill: alone ? thingColour(owners[0]) : null };
  if (kind === "both") {
    return [s("polygon", { ...paint, points: `0,${-r} ${r},0 0,${r} ${-r},0` })];
  }
  const disc = s("circle", { ...paint, r });
  return kind === "contextual" && alone ? [disc, initial(owners[0])] : [disc];
}

function initial(i) {
  const text = s(
    "text",
    { class: "letter", x: 0, y: 0, "text-anchor": "middle", "dominant-baseline": "central" },
    letter(i),
  );
  text.style.fill = inkOn(thingColour(i));
  return text;
}

/** A bar chart of words and numbers from −1 to 1. */

import { categoryColor } from "./colors.js";
import { pressable, rovingTabindex, s, svgDrawing } from "./elements.js";
import { fitTexts, maxTextWidth, short } from "./text.js";

const { scaleLinear } = globalThis.d3;
const ROW = 24, FONT = 12;
/** The maximum width of the labels, as a fraction of the width of the chart. */
const MAX_LABEL = 0.6;

/** Return a bar chart of `[{word, value}]`, `width` pixels wide, with the accessible name `name`. With `onpick(word)`, the rows are buttons. */
export function bars(rows, { width, name, onpick }) {
  const labels = fitTexts(rows.map(({ word }) => word), FONT, width * MAX_LABEL - 12);
  const left = Math.ceil(maxTextWidth(labels, FONT)) + 12;
  const lowest = Math.min(...rows.map(({ value }) => value), 0);
  const x = scaleLinear([lowest, 1], [left + (lowest && 44), width - 48]);
  const element = svgDrawing(
    "bars",
    width,
    rows.length * ROW,
    {
      role: onpick ? "group" : "img",
      "aria-label": onpick ? `${name}; the arrow keys move between words` : name,
    },
    rows.map(({ word, value }, i) => {
      const text = short(value), start = x(Math.min(value, 0)), end = x(Math.max(value, 0));
      return s(
        "g",
        {
          class: "row", transform: `translate(0 ${i * ROW})`,
          ...(onpick && { "aria-label": `${word}, ${text}: show its neighbors`, ...pressable(() => onpick(word)) }),
        },
        s("rect", { class: "ring unsaved", x: 1, y: 1, width: width - 2, height: ROW - 2, rx: 3 }),
        s("text", { x: left - 8, y: ROW / 2, "text-anchor": "end", "dominant-baseline": "central" }, labels[i]),
        s("rect", {
          class: "bar", x: start, y: 4, width: end - start, height: ROW - 8, rx: 2, fill: categoryColor(value < 0 ? 1 : 0),
        }),
        s("text", { class: "number", x: end + 6, y: ROW / 2, "dominant-baseline": "central" }, text),
      );
    }),
  );
  if (onpick) rovingTabindex(element)(element.children[0]);
  return element;
}

/** Words with a bar each, as long as a number from 0 to 1. */

import { thingColour } from "../frame/colours.js";
import { s } from "../frame/elements.js";
import { short } from "../frame/numbers.js";
import { fitted, widest } from "./lettering.js";
import { roving } from "./roving.js";

const { scaleLinear } = globalThis.d3;
const ROW = 24;
const LETTERS = 12;
/** The most of the width that the words may take. */
const NAMES = 0.6;

/**
 * Bars of `[{word, value, text}]`, `width` wide; `text` is what is written for the value, which is
 * given with two decimals where it is left out. `onpick(word)` makes each row a button: Tab comes to
 * the one at `stop`, the arrows go on from there. `name` says what the picture shows to who does not
 * see it; `colour` is the number of a thing.
 */
export function bars(rows, { width, name, onpick, stop = 0, colour = 0 }) {
  const labels = fitted(rows.map(({ word }) => word), LETTERS, width * NAMES - 12);
  const left = Math.ceil(widest(labels, LETTERS)) + 12;
  const x = scaleLinear([0, 1], [left, width - 48]);
  const element = s(
    "svg",
    {
      class: "bars", viewBox: `0 0 ${width} ${rows.length * ROW}`, width,
      height: rows.length * ROW, role: onpick ? "group" : "img",
      "aria-label": onpick ? `${name}; the arrow keys go from word to word` : name,
    },
    rows.map(({ word, value, text }, i) =>
      row(word, value, text ?? short(value), i * ROW, { label: labels[i], x, left, width, onpick, colour })),
  );
  if (onpick) roving(element)(element.children[stop]);
  return element;
}

function row(word, value, text, y, { label, x, left, width, onpick, colour }) {
  const end = x(Math.max(value, 0));
  const pick = onpick && (() => onpick(word));
  return s(
    "g",
    {
      class: "row", transform: `translate(0 ${y})`,
      ...(pick && {
        role: "button", "aria-label": `${word}, ${text}: show its neighbours`,
        onclick: pick,
        onkeydown: (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          pick();
        },
      }),
    },
    s("rect", { class: "ring unsaved", x: 1, y: 1, width: width - 2, height: ROW - 2, rx: 3 }),
    s("text", { x: left - 8, y: ROW / 2, "text-anchor": "end", "dominant-baseline": "central" }, label),
    s("rect", { class: "bar", x: left, y: 4, width: end - left, height: ROW - 8, rx: 2, fill: thingColour(colour) }),
    s("text", { class: "number", x: end + 6, y: ROW / 2, "dominant-baseline": "central" }, text),
  );
}

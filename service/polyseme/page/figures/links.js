/** Who looks at whom, as lines from a column of words to another: BertViz's head view. */

import { thingColour } from "../frame/colours.js";
import { s } from "../frame/elements.js";
import { short } from "../frame/numbers.js";
import { fitted, widest } from "./lettering.js";

const { max } = globalThis.d3;
const ROW = 20;
const TOP = 26;
const SIZE = 12;
const SQUARE = 9;
const FAINTEST = 0.01;
const MANY = 150;
const LOOKED_AT = "is looked at";

/**
 * Lines for `heads`: `[{head, rows}]`, where `head` is `mean` or a number and so a colour.
 * `drawing`, and `light(row)`, which shows the lines of one word alone, or with null all of them.
 */
export function links(words, heads, width) {
  const place = placed(words, heads, width);
  const most = max(heads, ({ rows }) => max(rows, (row) => max(row))) ?? 0;
  const all = words.length <= MANY;
  const left = words.map((_, i) => word(place.labels[i], place.left - 8, i, "end"));
  const right = words.map((_, i) => word(place.labels[i], place.beside, i, "start"));
  const shown = s("g", { class: "links" });
  const groups = words.map((_, i) => (all ? s("g", { "data-row": i }, lines(heads, i, place, most)) : null));
  if (all) shown.append(...groups);
  const marks = s("g", {});
  const height = TOP + words.length * ROW;
  const drawing = s(
    "svg",
    { class: "lines", viewBox: `0 0 ${place.width} ${height}`, width: place.width, height, "aria-hidden": "true" },
    s("text", { class: "muted", x: place.left - 8, y: 10, "text-anchor": "end" }, "looks"),
    s("text", { class: "muted", x: place.beside, y: 10 }, LOOKED_AT),
    shown, marks, left, right,
  );
  const light = (row) => {
    shown.setAttribute("opacity", row === null ? 0.5 : 1);
    if (all) groups.forEach((group, i) => hide(group, row !== null && i !== row));
    else shown.replaceChildren(...(row === null ? [] : lines(heads, row, place, most)));
    marks.replaceChildren(...(row === null ? [] : marked(heads, row, place, most)));
    left.forEach((text, i) => text.classList.toggle("lit", i === row));
  };
  light(null);
  return { drawing, light, row: ROW, top: TOP, left: place.left };
}

function placed(words, heads, width) {
  const labels = fitted(words, SIZE, Math.min(width * 0.3, 150));
  const wide = Math.ceil(widest([...labels, LOOKED_AT], SIZE));
  const beside = heads.length > 1 ? heads.length * SQUARE + 10 : 40;
  const between = Math.min(width - 2 * wide - beside - 8, 420);
  const left = wide + 8;
  const right = left + Math.max(between, 40);
  return { labels, left, right, beside: right + beside, width: Math.min(right + beside + wide, width) };
}

const middle = (i) => TOP + (i + 0.5) * ROW;

function word(text, x, i, anchor) {
  return s("text", { class: "label", x, y: middle(i), "text-anchor": anchor, "dominant-baseline": "central" }, text);
}

function lines(heads, row, { left, right }, most) {
  return heads.flatMap(({ head, rows }, k) => Array.from(rows[row], (weight, j) => {
    if (weight < FAINTEST) return null;
    const share = weight / most, apart = (k - (heads.length - 1) / 2) * 1.5;
    return s("line", {
      x1: left, x2: right, y1: middle(row) + apart, y2: middle(j) + apart,
      stroke: colourOf(head), "stroke-opacity": (0.06 + 0.94 * share).toFixed(4),
      "stroke-width": (0.6 + 3 * share).toFixed(3), "data-row": row, "data-column": j, "data-head": head,
    });
  })).filter(Boolean);
}

/** Beside the words that are looked at: the weight, or a square for each head. */
function marked(heads, row, { right }, most) {
  if (heads.length > 1) return heads.flatMap(({ head, rows }, k) => squares(head, rows[row], right + 4 + k * SQUARE, most));
  return Array.from(heads[0].rows[row], (weight, j) => (weight < FAINTEST ? null : s(
    "text",
    { class: "muted", x: right + 4, y: middle(j), "dominant-baseline": "central" },
    short(weight),
  ))).filter(Boolean);
}

function squares(head, weights, x, most) {
  return Array.from(weights, (weight, j) => s("rect", {
    x, y: middle(j) - 6, width: SQUARE - 1, height: 12, fill: colourOf(head),
    "fill-opacity": (weight / most).toFixed(4), "data-column": j, "data-head": head,
  }));
}

/** The colour of a head's lines. */
export function colourOf(head) {
  return thingColour(head === "mean" ? 0 : head);
}

const hide = (element, hidden) =>
  (hidden ? element.setAttribute("display", "none") : element.removeAttribute("display"));

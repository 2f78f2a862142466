/** Where the parts of a heatmap are: the same for the drawn one and for the painted one. */

import { weightColour } from "../frame/colours.js";
import { decimals } from "../frame/numbers.js";
import { fitted, widest } from "./lettering.js";

const { max } = globalThis.d3;
const LARGEST_CELL = 34;
const SMALLEST_LETTER = 8;
const LARGEST_LETTER = 12;
const GAP = 6;
const STEPS = 24;

/**
 * The measures of a heatmap of words, at most `width` wide, in CSS pixels: `left` and `top` of the
 * cells, `cell` from one to the next, the size of the letters, and `every` so-manieth label shown.
 */
export function layoutOf(words, width) {
  let size = LARGEST_LETTER, measures;
  // The labels' size depends on the room that the labels leave, so it is found by trying.
  for (let round = 0; round < 2; round += 1) {
    const labels = fitted(words, size, Math.min(width * 0.3, 130));
    const wide = Math.ceil(widest(labels, size));
    const cell = cellSize((width - wide - GAP) / words.length);
    const every = Math.ceil((SMALLEST_LETTER + 2) / cell);
    size = Math.min(Math.max(cell * every * 0.75, SMALLEST_LETTER), LARGEST_LETTER);
    measures = { labels, cell, every, size, left: wide + GAP, top: wide + GAP };
  }
  return framed(measures, words.length, width);
}

/** Whole pixels, so that edges are sharp; halves where cells are so small that it would tell. */
function cellSize(room) {
  const fine = room < 8 ? 2 : 1;
  const whole = Math.floor(Math.min(room, LARGEST_CELL) * fine) / fine;
  return whole || room;
}

function framed(measures, count, width) {
  const side = measures.cell * count;
  return {
    ...measures,
    count,
    side,
    width: Math.min(Math.max(measures.left + side, measures.left + 170), width),
    height: measures.top + side + 34,
  };
}

/** The largest weight of a picture. */
export const largest = (rows) => max(rows, (row) => max(row)) ?? 0;

/** The labels: `{text, x, y, turned, row or column}`; only those that there is room for. */
export function labelsOf({ labels, left, top, cell, every }) {
  const shown = labels.map((text, i) => ({ text, i })).filter(({ i }) => i % every === 0);
  return [
    ...shown.map(({ text, i }) => ({ text, row: i, x: left - GAP, y: top + (i + 0.5) * cell })),
    ...shown.map(({ text, i }) => (
      { text, column: i, x: left + (i + 0.5) * cell, y: top - GAP, turned: true }
    )),
  ];
}

/** The legend: boxes `{x, y, width, height, fill}` and texts `{text, x, y}`. */
export function legendOf({ left, top, side, width }, most) {
  const wide = Math.min(120, width - left - 50), y = top + side + 12;
  const box = wide / STEPS;
  const boxes = Array.from({ length: STEPS }, (_, i) => ({
    x: left + 12 + i * box, y, width: box, height: 10, fill: weightColour(i / (STEPS - 1)),
  }));
  const texts = [
    { text: "0", x: left, y: y + 5 },
    { text: decimals(most, most < 0.1 ? 3 : 2), x: left + wide + 17, y: y + 5 },
  ];
  return { boxes, texts };
}

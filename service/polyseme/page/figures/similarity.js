/** Cosines of every pair, before and after context, as two small matrices. */

import { inkOn, signedColour, thingColour } from "../frame/colours.js";
import { s } from "../frame/elements.js";
import { short } from "../frame/numbers.js";
import { letter } from "./letters.js";
import { fitted } from "./lettering.js";

const TITLE = 24, HEAD = 22, GAP = 40, ROOMY = 38, TALL = 40, LETTER = 26;

/** `panels`: `[title, rows of cosines]`; `words` of the occurrences; in `width` pixels. */
export function similarity(panels, words, width) {
  const many = words.length;
  // Beside each other where the numbers fit, else one under the other.
  const half = (width - GAP) / 2;
  const beside = half >= labelRoom(half, many) + many * ROOMY;
  const room = Math.min(beside ? half : width, 560);
  const left = labelRoom(room, many);
  const cell = Math.min((room - left) / many, 84);
  const row = Math.min(cell, TALL);
  const height = TITLE + HEAD + many * row;
  const places = beside ? [[0, 0], [left + many * cell + GAP, 0]] : [[0, 0], [0, height + 20]];
  const size = { left, cell, row };
  const whole = beside ? height : 2 * height + 20;
  return s(
    "svg",
    {
      class: "similarity", viewBox: `0 0 ${width} ${whole}`, width, height: whole,
      role: "img", "aria-label": "Cosines of every pair of occurrences, static and in context; as a table below",
    },
    panels.map(([title, cosines], i) =>
      s("g", { transform: `translate(${places[i].join(" ")})` }, panel(title, cosines, words, size))),
  );
}

/** Of many occurrences in little room, the letters alone: the words are in the map's legend. */
function labelRoom(room, many) {
  if (room >= 340) return 120;
  return many > 4 ? LETTER : 76;
}

function panel(title, cosines, words, { left, cell, row }) {
  const top = TITLE + HEAD;
  const middle = { "text-anchor": "middle", "dominant-baseline": "central" };
  return [
    s("text", { class: "title", x: 0, y: 12, "dominant-baseline": "central" }, title),
    words.map((word, i) => [
      s("text", { class: "letter", x: left + (i + 0.5) * cell, y: TITLE + HEAD / 2, ...middle }, letter(i)),
      s("rect", {
        x: 0, y: top + i * row + row / 2 - 8, width: 4, height: 16, fill: thingColour(i),
      }),
      s("text", { class: "letter", x: 10, y: top + (i + 0.5) * row, "dominant-baseline": "central" }, letter(i)),
      left > LETTER
        ? s("text", { x: 26, y: top + (i + 0.5) * row, "dominant-baseline": "central" }, fitted([word], 12, left - 34))
        : [],
    ]),
    cosines.map((line, i) => line.map((cosine, j) => {
      const fill = signedColour(cosine);
      const number = s("text", {
        class: cell < ROOMY ? "number small" : "number", x: left + (j + 0.5) * cell, y: top + (i + 0.5) * row, ...middle,
      }, said(cosine, cell));
      number.style.fill = inkOn(fill);
      const [x, y] = [left + j * cell + 1, top + i * row + 1];
      return [s("rect", { x, y, width: cell - 2, height: row - 2, rx: 3, fill }), number];
    })),
  ].flat(4);
}

/** 0.16, or .16 where there is little room. */
function said(cosine, cell) {
  return cell < ROOMY ? short(cosine).replace("0.", ".").replace(/^(.?1)\.00$/, "$1") : short(cosine);
}

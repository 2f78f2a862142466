/** The cosines between occurrences, as matrices, tables and sentences. */

import { categoryColor, signedColor, textColorOn } from "../colors.js";
import { h, s, svgDrawing } from "../elements.js";
import { numberTable } from "../table.js";
import { decimals, fitTexts, joinNames, letter, short } from "../text.js";

const TITLE = 24, HEAD = 22, GAP = 40;
/** The minimum width of a cell for a number with its leading 0. */
const MIN_FULL_NUMBER = 38;
const MAX_CELL = 84, MAX_ROW = 40;
/** The width of a row label that has no word. */
const LETTER = 26;

/** Draw the matrices of cosines `panels`, `[title, rows]`, `width` pixels wide; `words` are the compared words. */
export function similarityMatrices(panels, words, width) {
  const count = words.length;
  // The matrices are side by side if the numbers fit.
  const half = (width - GAP) / 2;
  const beside = half >= labelWidth(half, count) + count * MIN_FULL_NUMBER;
  const panelWidth = Math.min(beside ? half : width, 560);
  const left = labelWidth(panelWidth, count);
  const cell = Math.min((panelWidth - left) / count, MAX_CELL);
  const row = Math.min(cell, MAX_ROW);
  const height = TITLE + HEAD + count * row;
  const offsets = beside ? [[0, 0], [left + count * cell + GAP, 0]] : [[0, 0], [0, height + 20]];
  const total = beside ? height : 2 * height + 20;
  return svgDrawing(
    "similarity",
    width,
    total,
    {
      role: "img", "aria-label": "Cosines of every pair of occurrences, static and in context; tables are below",
    },
    panels.map(([title, cosines], i) =>
      s("g", { transform: `translate(${offsets[i].join(" ")})` }, panel(title, cosines, words, { left, cell, row }))),
  );
}

/** Return the width of the row labels. A narrow matrix of many occurrences has no words; the map's legend has them. */
function labelWidth(width, count) {
  if (width >= 340) return 120;
  return count > 4 ? LETTER : 76;
}

function panel(title, cosines, words, { left, cell, row }) {
  const top = TITLE + HEAD;
  const middle = { "text-anchor": "middle", "dominant-baseline": "central" };
  return [
    s("text", { class: "title", x: 0, y: 12, "dominant-baseline": "central" }, title),
    words.map((word, i) => {
      const y = top + (i + 0.5) * row;
      return [
        s("text", { class: "letter", x: left + (i + 0.5) * cell, y: TITLE + HEAD / 2, ...middle }, letter(i)),
        s("rect", { x: 0, y: y - 8, width: 4, height: 16, fill: categoryColor(i) }),
        s("text", { class: "letter", x: 10, y, "dominant-baseline": "central" }, letter(i)),
        left > LETTER ? s("text", { x: 26, y, "dominant-baseline": "central" }, fitTexts([word], 12, left - 34)) : null,
      ];
    }),
    cosines.map((line, i) => line.map((cosine, j) => {
      const fill = signedColor(cosine);
      const small = cell < MIN_FULL_NUMBER;
      // In a small cell, omit the leading 0: .16
      const text = small ? short(cosine).replace("0.", ".").replace(/^(.?1)\.00$/, "$1") : short(cosine);
      const number = s("text", {
        class: small ? "number small" : "number", x: left + (j + 0.5) * cell, y: top + (i + 0.5) * row, ...middle,
      }, text);
      number.style.fill = textColorOn(fill);
      const [x, y] = [left + j * cell + 1, top + i * row + 1];
      return [s("rect", { x, y, width: cell - 2, height: row - 2, rx: 3, fill }), number];
    })),
  ];
}

/** Return the matrices as tables, which the reader can copy. */
export function similarityTables(panels, words, open) {
  const table = (title, rows) => numberTable({
    class: "cosines", caption: title,
    columns: words.map((_, i) => letter(i)),
    rows: words.map((word, i) => [`${letter(i)} `, h("bdi", {}, word)]),
    cells: rows.map((row) => row.map((cosine) => h("td", { class: "number" }, decimals(cosine, 4)))),
  });
  return h(
    "details",
    { open },
    h("summary", {}, "The cosines as tables"),
    h("div", { class: "sides" }, panels.map(([title, rows]) =>
      h("div", { class: "wide", tabindex: "0", role: "group", "aria-label": title }, table(title, rows)))),
  );
}

/** Return the caption: the pair that context separates most, or another effect of context. */
export function similaritySentence({ static_similarity: before, contextual_similarity: after }) {
  const pairs = before.flatMap((_, j) => before.slice(0, j).map((__, i) => ({
    name: `${letter(i)} and ${letter(j)}`,
    numbers: `${short(before[i][j])} static, ${short(after[i][j])} in context.`,
    drop: before[i][j].toFixed(2) - after[i][j].toFixed(2),
    // The cosine with a zero vector is 0 by definition and does not measure similarity.
    known: before[i][i] > 0 && before[j][j] > 0,
  })));
  const known = pairs.filter((pair) => pair.known).toSorted((a, b) => b.drop - a.drop);
  if (pairs.length === 1) {
    const same = known.length && !known[0].drop ? " Context changes nothing." : "";
    return `Cosine of A and B: ${pairs[0].numbers}${same}`;
  }
  return `Cosines of every pair.${changeSentence(known, known.length === pairs.length)}`;
}

/** Describe the change of `pairs` that have static vectors, largest drop first; `all` if these are all pairs. */
function changeSentence(pairs, all) {
  if (!pairs.length) return "";
  const first = pairs[0], last = pairs.at(-1);
  if (first.drop > 0) return ` Context separates ${first.name} most: ${first.numbers}`;
  if (pairs.length === 1) {
    return first.drop
      ? ` Context brings the only pair with static vectors closer, ${first.name}: ${first.numbers}`
      : ` Context does not change the only pair with static vectors, ${first.name}.`;
  }
  const which = all ? "" : " with static vectors";
  if (!last.drop) return ` Context does not change any pair${which}.`;
  return first.drop < 0
    ? ` Context brings all pairs${which} closer, ${last.name} most: ${last.numbers}`
    : ` Context separates no pair${which}. It brings ${last.name} closer than any other: ${last.numbers}`;
}

const SHARED = /^Occurrences ([\d, ]+) and (\d+) (.*)$/s;
/** The end of the note of the service on equal static vectors, and its replacement for equal contextual vectors. */
const DIFFERENT = "and only context tells them apart", EQUAL = "and context does not tell them apart either";

/** Return the notes with letters for numbers. */
export function notesWithLetters({ notes, contextual_similarity: after }) {
  return notes.map((note) => {
    const [, others, last, text] = note.match(SHARED) ?? [];
    if (text === undefined) return note.replace(/^Occurrence (\d+)/, (_, i) => letter(Number(i)));
    const members = [...others.split(", "), last].map(Number);
    const isSame = members.every((i) => after[members[0]][i].toFixed(2) === "1.00");
    return `${joinNames(members.map(letter))} ${isSame ? text.replace(DIFFERENT, EQUAL) : text}`;
  });
}

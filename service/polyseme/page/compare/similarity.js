/** The cosines between occurrences, as matrices, tables and sentences. */

import { differ } from "./occurrences.js";
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

/** Return the headline: the cosines of the pair that context changes most. */
export function headline({ occurrences, static_similarity: before, contextual_similarity: after }) {
  const words = occurrences.map(({ token }) => token.text);
  const pairs = before.flatMap((_, j) => before.slice(0, j).map((__, i) => ({
    i, j, change: Math.abs(before[i][j].toFixed(2) - after[i][j].toFixed(2)),
    // The cosine with a zero vector is 0 by definition and does not measure similarity.
    isKnown: before[i][i] > 0 && before[j][j] > 0,
  })));
  const [largest] = pairs.filter(({ isKnown }) => isKnown).toSorted((a, b) => b.change - a.change);
  if (!largest) return "No two of these words have static vectors.";
  const { i, j, change } = largest;
  const names = differ([words[i], words[j]]) ? `${words[i]} and ${words[j]}` : words[i];
  const cosines = `${names}: ${short(before[i][j])} static, ${short(after[i][j])} in context`;
  if (pairs.length === 1) return change ? cosines : `${cosines}: context changes nothing`;
  return change ? `${cosines} (${letter(i)} and ${letter(j)}, which context changes most)` : `${cosines}: context changes no pair`;
}

/** Return sentences about occurrences of one word, about words that differ in case only, and about unknown words. */
export function notesOf({ occurrences, contextual_similarity: after }) {
  const known = occurrences.map(({ token }, i) => ({ i, key: token.key })).filter(({ key }) => key !== null);
  const groups = [...Map.groupBy(known, ({ key }) => key).values()].filter((group) => group.length > 1);
  const byCase = [...Map.groupBy(known, ({ key }) => key.toLowerCase()).values()]
    .filter((group) => new Set(group.map(({ key }) => key)).size > 1);
  const unknown = occurrences.flatMap(({ token }, i) => (token.resolution === "oov" ? [i] : []));
  return [
    ...groups.map((group) => {
      const isSame = group.every(({ i }) => after[group[0].i][i].toFixed(2) === "1.00");
      return `${joinNames(group.map(({ i }) => letter(i)))} are one word, “${group[0].key}”, with one static vector: `
        + `${isSame ? "here, context does not tell them apart either" : "only context tells them apart"}.`;
    }),
    ...byCase.map((group) => `${joinNames(group.map(({ i }) => letter(i)))} are different words of the vocabulary, ${
      joinNames([...new Set(group.map(({ key }) => `“${key}”`))])}: with the case “lower”, they are one.`),
    ...unknown.map((i) => `${letter(i)} is unknown: its static vector is zero.`),
  ];
}

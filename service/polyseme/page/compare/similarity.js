/** The cosines between occurrences, as matrices, tables and sentences. */

import { differ } from "./occurrences.js";
import { heatmapDrawing } from "../attention/heatmap.js";
import { s, svgDrawing } from "../elements.js";
import { joinNames, letter, short } from "../text.js";
import { areOneInLower, missingMeaning } from "../words.js";

const TITLE = 24, GAP = 40;
/** The minimum width of a matrix beside another one: of its labels, and of each column. */
const MIN_LABELS = 120, MIN_COLUMN = 38;

/** Draw the matrices of cosines `panels`, `[title, rows]`, `width` pixels wide; `names` are those of the occurrences. */
export function similarityMatrices(panels, names, width) {
  const half = (width - GAP) / 2, isBeside = half >= MIN_LABELS + names.length * MIN_COLUMN;
  const drawings = panels.map(([, rows]) => heatmapDrawing(names, rows, isBeside ? half : width, 1).drawing);
  const { width: panelWidth, height } = drawings[0].viewBox.baseVal;
  const [dx, dy] = isBeside ? [panelWidth + GAP, 0] : [0, TITLE + height];
  return svgDrawing(
    "similarity",
    width,
    TITLE + height + dy,
    {
      role: "img", "aria-label": "Cosines of every pair of occurrences, static and in context; tables are below",
    },
    panels.map(([title], i) => {
      drawings[i].setAttribute("y", TITLE);
      return s("g", { transform: `translate(${i * dx} ${i * dy})` },
        s("text", { class: "title", x: 0, y: 12, "dominant-baseline": "central" }, title), drawings[i]);
    }),
  );
}

/** Return the headline: the cosines of the pair that context changes most. */
export function headline({ occurrences, static_similarity: before, contextual_similarity: after }) {
  const words = occurrences.map(({ token }) => token.text);
  const pairs = before.flatMap((_, j) => before.slice(0, j).map((__, i) => ({
    i, j, change: Math.abs(before[i][j] - after[i][j]),
    // The cosine with a zero vector is 0 by definition and does not measure similarity.
    isKnown: before[i][i] > 0 && before[j][j] > 0,
  })));
  const [largest] = pairs.filter(({ isKnown }) => isKnown).toSorted((a, b) => b.change - a.change);
  if (!largest) return "No two of these words have static vectors.";
  const { i, j } = largest, change = before[i][j].toFixed(2) !== after[i][j].toFixed(2);
  const names = differ([words[i], words[j]]) ? `${words[i]} and ${words[j]}` : words[i];
  const cosines = `${names}: ${short(before[i][j])} static, ${short(after[i][j])} in context`;
  if (pairs.length === 1) return cosines;
  return change ? `${cosines} (the pair ${letter(i)} and ${letter(j)}, which context changes most)` : `${cosines}; no pair changes`;
}

/** Return sentences about occurrences of one word, about words that differ in case only, and about words without an entry. */
export function notesOf({ occurrences, contextual_similarity: after }) {
  const known = occurrences.map(({ token }, i) => ({ i, key: token.key })).filter(({ key }) => key !== null);
  const groups = [...Map.groupBy(known, ({ key }) => key).values()].filter((group) => group.length > 1);
  const byCase = [...Map.groupBy(known, ({ key }) => key.toLowerCase()).values()]
    .filter((group) => new Set(group.map(({ key }) => key)).size > 1);
  const missing = occurrences.flatMap(({ token }, i) => (missingMeaning(token) ? `${letter(i)} is ${missingMeaning(token)}.` : []));
  return [
    ...groups.map((group) => {
      const isSame = group.every(({ i }) => after[group[0].i][i].toFixed(2) === "1.00");
      return `${joinNames(group.map(({ i }) => letter(i)))} are one word, “${group[0].key}”, with one static vector: `
        + `${isSame ? "here, context does not tell them apart either" : "only context tells them apart"}.`;
    }),
    ...byCase.map((group) => `${joinNames([...Map.groupBy(group, ({ key }) => key)].map(([key, members]) =>
      `${joinNames(members.map(({ i }) => letter(i)))} (“${key}”)`))} are different words of the vocabulary${
      areOneInLower(group.map(({ key }) => key)) ? ": with the case “lower”, they are one" : ""}.`),
    ...missing,
  ];
}

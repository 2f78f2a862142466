/** The cosines between occurrences: as matrices, as tables, and in sentences. */

import { categoryColor, signedColor, textColorOn } from "../colors.js";
import { h, s } from "../elements.js";
import { decimals, fitTexts, joinNames, letter, short } from "../text.js";

const TITLE = 24, HEAD = 22, GAP = 40;
/** The least width of a cell in which a number fits in full. */
const ROOMY = 38;
const MOST_CELL = 84, MOST_ROW = 40;
/** The width of a row's label without its word. */
const LETTER = 26;

/** Matrices of cosines, `panels` as `[title, rows]`, in `width` pixels; `words` are the occurrences'. */
export function similarityMatrices(panels, words, width) {
  const count = words.length;
  // The matrices stand side by side where the numbers fit.
  const half = (width - GAP) / 2;
  const beside = half >= labelWidth(half, count) + count * ROOMY;
  const room = Math.min(beside ? half : width, 560);
  const left = labelWidth(room, count);
  const cell = Math.min((room - left) / count, MOST_CELL);
  const row = Math.min(cell, MOST_ROW);
  const height = TITLE + HEAD + count * row;
  const places = beside ? [[0, 0], [left + count * cell + GAP, 0]] : [[0, 0], [0, height + 20]];
  const whole = beside ? height : 2 * height + 20;
  return s(
    "svg",
    {
      class: "similarity", viewBox: `0 0 ${width} ${whole}`, width, height: whole,
      role: "img", "aria-label": "Cosines of every pair of occurrences, static and in context; as a table below",
    },
    panels.map(([title, cosines], i) =>
      s("g", { transform: `translate(${places[i].join(" ")})` }, panel(title, cosines, words, { left, cell, row }))),
  );
}

/** Many occurrences in a narrow matrix have no room for words; the map's legend has them. */
function labelWidth(room, count) {
  if (room >= 340) return 120;
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
        left > LETTER
          ? s("text", { x: 26, y, "dominant-baseline": "central" }, fitTexts([word], 12, left - 34))
          : [],
      ];
    }),
    cosines.map((line, i) => line.map((cosine, j) => {
      const fill = signedColor(cosine);
      const small = cell < ROOMY;
      // Without the leading 0 where there is little room: .16
      const text = small ? short(cosine).replace("0.", ".").replace(/^(.?1)\.00$/, "$1") : short(cosine);
      const number = s("text", {
        class: small ? "number small" : "number", x: left + (j + 0.5) * cell, y: top + (i + 0.5) * row, ...middle,
      }, text);
      number.style.fill = textColorOn(fill);
      const [x, y] = [left + j * cell + 1, top + i * row + 1];
      return [s("rect", { x, y, width: cell - 2, height: row - 2, rx: 3, fill }), number];
    })),
  ].flat(4);
}

/** The same matrices as tables to read and to copy. */
export function similarityTables(panels, words, open) {
  const table = (title, rows) => h(
    "table",
    { class: "cosines" },
    h("caption", {}, title),
    h("thead", {}, h("tr", {}, h("td", {}), words.map((_, i) => h("th", { scope: "col" }, letter(i))))),
    h("tbody", {}, rows.map((row, i) => h(
      "tr",
      {},
      h("th", { scope: "row" }, `${letter(i)} `, h("bdi", {}, words[i])),
      row.map((cosine) => h("td", { class: "number" }, decimals(cosine, 4))),
    ))),
  );
  return h(
    "details",
    { open },
    h("summary", {}, "The cosines as tables"),
    h("div", { class: "sides" }, panels.map(([title, rows]) =>
      h("div", { class: "wide", tabindex: "0", role: "group", "aria-label": title }, table(title, rows)))),
  );
}

/** The sentence below the title: which pair the context separates most, or what else it does. */
export function similaritySentence({ static_similarity: before, contextual_similarity: after }) {
  const pairs = before.flatMap((_, j) => before.slice(0, j).map((__, i) => ({
    name: `${letter(i)} and ${letter(j)}`,
    numbers: `${short(before[i][j])} static, ${short(after[i][j])} in context.`,
    drop: before[i][j].toFixed(2) - after[i][j].toFixed(2),
    // The cosine with a zero vector is 0 by definition, and no measure of similarity.
    known: before[i][i] > 0 && before[j][j] > 0,
  })));
  const known = pairs.filter((pair) => pair.known).toSorted((a, b) => b.drop - a.drop);
  if (pairs.length === 1) {
    const same = known.length && !known[0].drop ? " Context changes nothing." : "";
    return `Cosine of A and B: ${pairs[0].numbers}${same}`;
  }
  return `Cosines of every pair.${changeSentence(known, known.length === pairs.length)}`;
}

/** What context does to pairs that have static vectors, the largest drop first; `all` when no pair is left out. */
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
    : ` Context separates no pair${which} and brings ${last.name} closer most: ${last.numbers}`;
}

const PAIR = /^Occurrences (\d+) and (\d+) (.*)$/s;
/** What the service says of a pair with equal static vectors, and what holds for equal contextual ones. */
const DIFFERENT = "and only context tells them apart", EQUAL = "and context does not tell them apart either";

/** The service's notes with letters in place of numbers; equal notes of connected pairs are one. */
export function notesWithLetters({ notes, contextual_similarity: after }) {
  const groups = [];
  const others = [];
  for (const note of notes) {
    const [, a, b, text] = note.match(PAIR) ?? [];
    if (text === undefined) {
      others.push(note.replace(/^Occurrence (\d+)/, (_, i) => letter(Number(i))));
      continue;
    }
    const said = after[a][b].toFixed(2) === "1.00" ? text.replace(DIFFERENT, EQUAL) : text;
    const pair = [Number(a), Number(b)];
    const group = groups.find((one) => one.said === said && pair.some((i) => one.members.has(i)));
    if (group) pair.forEach((i) => group.members.add(i));
    else groups.push({ said, members: new Set(pair) });
  }
  const sentence = ({ members, said }) => `${joinNames([...members].toSorted((a, b) => a - b).map(letter))} ${said}`;
  return [...groups.map(sentence), ...others];
}

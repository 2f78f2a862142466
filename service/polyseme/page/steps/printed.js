/** What teaching notes print for an example, value by value, and the wrong ideas in it, each beside what is right. */

import { total } from "./derivation.js";
import { decimalsIn } from "./editor.js";
import { about } from "./trace.js";
import { h } from "../elements.js";
import { counted, decimals } from "../text.js";

/** Values that are no step of a trace: the title, and the step with the right values if the example has none. */
const OTHERS = {
  exponentials: ["Powers e^S"],
  sum: ["Sum of the powers"],
  sum_of_weights: ["Sum of the weights"],
  weights_of_sum: ["Weights in the sum", "weights"],
  terms_of_sum: ["Terms of the sum", "weighted_values"],
  five_scores: ["Five scores"],
  softmax_of_five_scores: ["Softmax of the five scores"],
};

/** Return `{name, printed, right}` for each printed value; `right` is undefined if the notes do not print what it is computed from. */
function rowsOf(label, values, right, trace, printed) {
  // The terms are those of the printed weights.
  const byWord = label === "terms_of_sum" ? printed.weights_of_sum : values;
  const words = Array.isArray(byWord) || typeof byWord === "number" ? null : Object.keys(byWord);
  const list = typeof values === "number" ? [values] : Object.values(values);
  return list.map((value, i) => ({
    name: words?.[i] ?? (list.length === trace.words.length ? trace.words[i] : `${i + 1}.`),
    printed: [value].flat(), right: [right[words ? trace.words.indexOf(words[i]) : i]].flat(),
  }));
}

/** Return a label such as `weights_row_0` or `scores_row_0_1` as the name of a step, a row and a column. */
function parseLabel(label) {
  const [name, indices] = label.split("_row_");
  const [row, column] = indices ? indices.split("_").map(Number) : [];
  return { name, row, column };
}

/** Return the cells of a trace that a label names, in rows, with the printed `values`. */
function cellsOf({ name, row, column }, values, trace) {
  if (!Array.isArray(values) && typeof values === "object") {
    return Object.entries(values).map(([word, printed]) => ({ name, query: null, row, column: trace.words.indexOf(word), printed }));
  }
  if (name === "weighted_values") {
    return values.flatMap((numbers, i) => numbers.map((printed, j) => ({ name, query: row, row: i, column: j, printed })));
  }
  const rows = row === undefined ? values : [[values].flat()];
  return rows.flatMap((numbers, i) => numbers.map((printed, j) =>
    ({ name, query: null, row: row ?? i, column: column ?? j, printed })));
}

/** Return the cell that an example opens at: the first that the notes compute. */
export function openingCell({ right }, trace) {
  const labels = Object.keys(right).map(parseLabel);
  const first = labels.find(({ name, row }) => row !== undefined && trace.steps.has(name));
  return first && trace.firstCell(first.name, first.row);
}

/**
 * Return the checks of an example: the printed values of `cells` of steps, `{name, query, row, column, printed, digits,
 * wrong}`, and `tables` of other values.
 */
function checksOf(example, trace) {
  const printed = example?.printed ?? {}, labels = [printed, example?.right ?? {}].flatMap(Object.keys);
  // The row that the notes compute.
  const { row } = labels.map(parseLabel).find((label) => label.row !== undefined) ?? {};
  const cells = [], tables = [];
  for (const [label, values] of Object.entries(printed)) {
    const target = parseLabel(label), other = OTHERS[target.name];
    const numbers = typeof values === "number" ? [values] : Object.values(values);
    const digits = Math.max(...numbers.flat().map((number) => decimalsIn(String(number))));
    // A right value differs by slightly more than half a unit in the last place, because numbers round either way.
    const check = (number, right) =>
      ({ printed: number.toFixed(digits), right, digits, wrong: Math.abs(right - number) > 0.51 * 10 ** -digits });
    if (!other) {
      cells.push(...cellsOf(target, values, trace).map((cell) => ({ ...cell, ...check(cell.printed, trace.number(cell, 0)) })));
      continue;
    }
    const [title, step] = other, right = [example.right[label] ?? (step ? trace.array(step)[row] : [])].flat();
    const rows = rowsOf(label, values, right, trace, printed);
    tables.push({ title, rows: rows.map((each) => ({ ...each, values: each.printed.map((number, i) => check(number, each.right[i])) })) });
  }
  return { cells, tables };
}

/** Return the right values that a label names, in words. */
function rightText(label, example, trace) {
  const { name, row } = parseLabel(label);
  const values = OTHERS[name] ? example.right[label] : trace.array(name)[row];
  const text = (numbers) => numbers.map((number) => decimals(number, 4)).join(", ");
  const all = Array.isArray(values[0]) ? values.map((numbers) => `(${text(numbers)})`).join(", ") : text(values);
  const isShare = name === "weights" || name === "softmax_of_five_scores";
  const title = OTHERS[name]?.[0] ?? `${about(name).title} of ${trace.words[row]}`;
  return `${title}: ${all}${isShare ? `; their sum is ${decimals(total(values), 2)}` : ""}.`;
}

/** The checks of the notes: a summary, the printed values that are no cell of a step, and the wrong ideas. */
export class PrintedChecks {
  constructor() {
    this.summary = h("p", { class: "printed-sum" });
    this.element = h("section", { class: "card printed", "aria-label": "What the notes print" });
  }

  /** Show the checks of an example, null for none; return those of cells. If results are hidden, only a summary is shown, which does not give them away. */
  show(example, trace, isHidden) {
    const { cells, tables } = checksOf(example, trace);
    const ideas = example?.notes ?? [];
    this.summary.textContent = example ? summaryOf(cells, tables, ideas, isHidden) : "";
    this.element.hidden = isHidden || (!tables.length && !ideas.length);
    this.element.replaceChildren(
      h("h3", {}, "What the notes print"),
      h("ul", { class: "ideas" }, ideas.map((idea, i) => h("li", {}, idea,
        h("p", {}, h("strong", {}, "Right: "), rightText(example.notes_right[i], example, trace))))),
      h("div", { class: "sides" }, tables.map(({ title, rows }) => h("table", { class: "checks" }, h("caption", {}, title),
        rows.map(({ name, values }) => h("tr", {}, h("th", { scope: "row" }, name), values.map(checkCell)))))),
    );
    return cells;
  }
}

/** Return a cell with a right value and the printed one. */
function checkCell({ printed, right, digits, wrong }) {
  const isUnknown = right === undefined;
  return h("td", { class: isUnknown ? null : wrong ? "misprinted" : "correctly-printed" },
    h("span", { class: "number" }, isUnknown ? "none" : decimals(right, Math.max(digits, 4))), printedNote(printed, wrong, isUnknown));
}

/** Return the note on a printed value. It does not say whether the value is right if this `isUnknown`. */
export function printedNote(printed, wrong, isUnknown = false) {
  const how = wrong || isUnknown ? "" : "correctly ";
  return h("span", { class: "note" },
    h("span", { class: "visually-hidden" }, ` printed ${how}in the notes: `),
    wrong && !isUnknown ? h("s", {}, printed) : [isUnknown ? "" : h("span", { "aria-hidden": "true" }, "✓"), printed]);
}

/** Return a sentence that counts the checks. */
function summaryOf(cells, tables, ideas, isHidden) {
  const all = [...cells, ...tables.flatMap(({ rows }) => rows.flatMap(({ values }) => values))];
  if (!all.length) return "The notes print no values for this example.";
  if (isHidden) return `The notes print ${counted(cells.length, "value")} below. Which of them are wrong?`;
  const wrong = all.filter((value) => value.wrong).length, unknown = all.filter(({ right }) => right === undefined).length;
  return `Checked here: ${counted(all.length, "printed value")}, ${wrong || "none"} of them wrong (struck through beside the right one)${
    unknown ? `, ${unknown} that cannot be computed` : ""}; ${ideas.length ? counted(ideas.length, "wrong idea") : "no wrong idea"}.`;
}

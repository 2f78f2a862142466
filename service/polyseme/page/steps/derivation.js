/**
 * The derivation of one number of a trace: the cells that it is computed from, and the arithmetic in symbols and in numbers.
 * The service names the operation and the operands of a step.
 */

import { about } from "./trace.js";
import { decimals } from "../text.js";

/** A sum of more than MAX_TERMS terms shows the first FIRST_TERMS. */
const MAX_TERMS = 8, FIRST_TERMS = 4;
/** Numbers of HUGE or more, and those below TINY that would be rounded to 0, are written with an exponent. e^MAX_POWER is finite. */
const TINY = 1e-4, HUGE = 1e12, MAX_POWER = 600;

/**
 * Return the derivation `{symbols, lines, note, parts}` of a cell. `parts` are the cells that it is computed from; they are in
 * the shown head unless they have a `head`. `lines` is the arithmetic in numbers, empty if there is none.
 */
export function derive(trace, cell, head, digits) {
  const format = (number) => formatNumber(number, digits), step = trace.steps.get(cell.name);
  const text = (part) => format(trace.number(part, part.head ?? head));
  const { symbols, note = "", terms = [], parts = terms.flat(), before, sum = sumText(terms.map((term) => term.map(text))), after } = (
    (cell.name === "values" && trace.isUnknown(cell.row) ? unknown : RULES[step.operation])({ ...cell, ...step, trace, head, format }));
  const lines = [before, sum && `${text(cell)} = ${sum}`, after].filter(Boolean);
  return { symbols, lines, note, parts };
}

/**
 * Format a number with `digits` decimals, or more for two significant digits, without trailing zeros. A tiny or
 * huge number is written with an exponent.
 */
function formatNumber(number, digits) {
  const size = Math.abs(number);
  if (size >= HUGE || (number !== 0 && size < TINY && size < 0.5 * 10 ** -digits)) {
    return number.toExponential(2).replaceAll("-", "−").replace("+", "");
  }
  const significant = number === 0 ? 0 : 1 - Math.floor(Math.log10(size));
  const text = decimals(number, Math.max(digits, significant));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Return the text of a number in brackets if it has a sign or an exponent. */
const bracketed = (text) => (text.startsWith("−") || text.includes("e") ? `(${text})` : text);

/** Return texts as a sum; of a long sum, the first ones and the number of the others. */
function joined(texts, what) {
  if (texts.length <= MAX_TERMS) return texts.join(" + ");
  return `${texts.slice(0, FIRST_TERMS).join(" + ")} + … and ${texts.length - FIRST_TERMS} more ${what}`;
}

export const total = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** Return a sum of products of numbers, which are texts. */
const sumText = (terms) => joined(
  terms.map((factors, i) => factors.map((text, j) => (i || j ? bracketed(text) : text)).join("·")),
  terms[0]?.length > 1 ? "products" : "numbers",
);

const symbolOf = (name) => about(name).symbol ?? about(name).title;

const UNKNOWN = "This word is not in the vocabulary, so it has no static vector, and its value is zero.";

const NOTES = {
  embeddings: ({ trace, row }) => (trace.request.text === undefined ? "Given."
    : trace.request.layer ? "The result of the previous layer." : trace.isUnknown(row) ? UNKNOWN : "The static vector of the word."),
  position_bias: ({ trace: { words }, row, column }) =>
    `Stored in the model for the distance ${column - row} from ${words[row]} to ${words[column]}.`,
  word_bias: ({ trace, row }) => (trace.isUnknown(row) ? UNKNOWN : "Stored in the model."),
  position: () => "Computed from the word's position in the sentence.",
  visible: ({ trace: { words }, values, row, column }) =>
    `${words[row]} ${values[row][column] ? "attends" : "does not attend"} to ${words[column]}.`,
};

function given(cell) {
  return { symbols: cell.formula, note: NOTES[cell.name]?.(cell) ?? "Given." };
}

/** Return the column of an array without heads that column `column` of a head is. */
const wholeColumn = ({ trace, name, column, head }) => (trace.headed(name) ? column + head * trace.width(name, head) : column);
const rowOf = ({ trace, head }, name, row) => trace.matrix(name, head).rows[row].map((_, column) => ({ name, row, column }));

function copy(cell) {
  const { name, row, column, operands: [source] } = cell, j = wholeColumn(cell);
  return {
    symbols: `${symbolOf(name)}[${row},${column}] = ${symbolOf(source)}[${row},${j}]`,
    terms: [[{ name: source, row, column: j }]],
  };
}

const unknown = ({ row, column }) => ({ symbols: `V[${row},${column}] = 0`, note: UNKNOWN, sum: "" });

/** Derive a number of the product of a row and a weight, which a trace of a stored model does not contain. */
function product(cell) {
  const { trace, name, row, column, formula, operands: [source, weight] } = cell, start = rowOf(cell, source, row);
  const j = wholeColumn(cell), isTurned = trace.columns, left = `${symbolOf(name)}[${row},${column}]`;
  if (!weight && formula.includes("W")) return { symbols: formula, note: "The weights of a model are not shown, so this step has only its formula.", parts: start };
  if (!weight) return { symbols: `${left} = ${symbolOf(source)}[${row},${j}] + its bias`, note: "The bias of a model is not shown.", parts: [{ name: source, row, column: j }] };
  return {
    symbols: `${left} = Σi ${symbolOf(source)}[${row},i]·${symbolOf(weight)}${isTurned ? `[${j},i]` : `[i,${j}]`}`,
    terms: start.map((each, i) => [each, { name: weight, row: isTurned ? j : i, column: isTurned ? i : j }]),
  };
}

function dotProduct(cell) {
  const { row, column, operands: [left, right] } = cell, keys = rowOf(cell, right, column);
  return {
    symbols: `S[${row},${column}] = Σc Q[${row},c]·K[${column},c]`,
    terms: rowOf(cell, left, row).map((query, c) => [query, keys[c]]),
  };
}

function scaling({ trace, row, column, head, format, operands: [source] }) {
  const score = format(trace.array(source, head)[row][column]), k = trace.width("queries", head);
  return {
    symbols: `S[${row},${column}]/√k, k = ${k}`,
    sum: `${score} / √${k} = ${score} / ${format(Math.sqrt(k))}`,
    parts: [{ name: source, row, column }],
  };
}

/** Return the softmax of numbers; that of −∞ is 0. */
export function softmaxOf(numbers) {
  const largest = Math.max(...numbers), powers = numbers.map((number) => Math.exp(number - largest));
  return powers.map((power) => power / total(powers));
}

/**
 * Return the sums of scores and biases of a row, whose softmax its weights are, the operands that it adds, with their cells, and
 * its `mask`, 1 for a token that it attends to.
 */
export function logitsOf(trace, row, head) {
  const names = trace.steps.get("weights").operands.filter((name) => name !== "visible");
  const terms = names.map((name) => {
    const isForKey = !trace.array(name, head)[0].length;
    return { name, cells: trace.words.map((_, j) => (isForKey ? { name, row: j, column: 0 } : { name, row, column: j })) };
  });
  const mask = trace.steps.has("visible") ? trace.array("visible")[row] : trace.words.map(() => 1);
  return { terms, mask, logits: trace.words.map((_, j) => total(terms.map(({ cells }) => trace.number(cells[j], head)))) };
}

/** Return a quotient of powers as numbers; if they are too large or too small, with the largest score subtracted from all. */
function quotient(score, visible, format) {
  const largest = Math.max(...visible), shift = Math.abs(largest) > MAX_POWER ? largest : 0, power = (number) => Math.exp(number - shift);
  return `= ${format(power(score))} / ${format(total(visible.map(power)))}${shift ? `, with ${format(shift)} subtracted from each exponent` : ""}`;
}

/** Derive a weight: the softmax of its row of logits, without masked tokens. */
function softmax({ trace, row, column, head, format }) {
  const { terms, mask, logits } = logitsOf(trace, row, head), isSum = terms.length > 1;
  const visible = logits.filter((_, j) => mask[j]), s = isSum ? "s" : symbolOf(terms[0].name);
  const power = (logit) => `e^${bracketed(format(logit))}`, score = (j) => (s === "S/√k" ? `(S[${row},${j}]/√k)` : `${s}[${row},${j}]`);
  return {
    symbols: `A[${row},${column}] = e^${score(column)} / Σj e^${score("j")}`
      + (isSum ? `, s = ${terms.map(({ name }) => symbolOf(name)).join(" + ")}` : ""),
    before: isSum && `${terms.map(({ name }) => about(name).term).join(" + ")}: ${
      sumText(terms.map(({ cells }) => [format(trace.number(cells[column], head))]))} = ${format(logits[column])}`,
    ...(mask[column] ? {
      sum: `${power(logits[column])} / (${joined(visible.map(power), "powers")})`,
      after: quotient(logits[column], visible, format),
    } : { sum: "", note: `${trace.words[row]} does not attend to ${trace.words[column]}: this weight is masked.` }),
    parts: [
      ...terms.flatMap(({ cells }) => cells),
      ...(trace.steps.has("visible") ? mask.map((_, j) => ({ name: "visible", row, column: j })) : []),
    ],
  };
}

const weighting = ({ query, row, column, operands: [weights, values] }) => ({
  symbols: `A[${query},${row}]·V[${row},${column}]`,
  terms: [[{ name: weights, row: query, column: row }, { name: values, row, column }]],
});

const addValues = ({ trace, row, column, operands: [source] }) => ({
  symbols: `C[${row},${column}] = Σj A[${row},j]·V[j,${column}]`,
  terms: trace.words.map((_, j) => [{ name: source, query: row, row: j, column }]),
});

function concatenation({ trace, row, column, operands: [source] }) {
  const width = trace.width(source), head = Math.floor(column / width), j = column - head * width;
  return { symbols: `C[${row},${j}] of head ${head}`, terms: [[{ name: source, row, column: j, head }]] };
}

const addition = ({ name, row, column, operands }) => ({
  symbols: `${symbolOf(name)}[${row},${column}] = ${operands.map((each) => `${symbolOf(each)}[${row},${column}]`).join(" + ")}`,
  terms: operands.map((each) => [{ name: each, row, column }]),
});

/** Derive a sum of factors times unit vectors; a zero vector stays zero, and no position is added to zeros. */
function combination(cell) {
  const { trace, row, column, format, formula, operands, factors } = cell;
  const terms = operands.map((name, i) => {
    const vector = trace.array(name)[row];
    return { factor: factors[i], number: vector[column], norm: Math.hypot(...vector), isPosition: name === "position" };
  });
  const isZero = terms.every(({ norm, isPosition }) => isPosition || !norm);
  const termText = ({ factor, number, norm, isPosition }) => {
    if (!norm) return "0";
    const times = factor === 1 ? format(number) : `${format(factor)}·${bracketed(format(number))}`;
    return isPosition ? times : `${times}/${format(norm)}`;
  };
  return {
    symbols: formula.replace("R =", `R[${row},${column}] =`),
    sum: terms.filter(({ isPosition }) => !(isZero && isPosition)).map(termText).join(" + "),
    parts: operands.flatMap((name) => (name === "position" ? [{ name, row, column }] : rowOf(cell, name, row))),
  };
}

/** Describe a function without arithmetic: a norm, the feed-forward network, or a whitening. */
const otherFunction = (cell) => ({
  symbols: cell.formula,
  note: "For this step only the formula is shown.",
  parts: cell.operands.flatMap((name) => rowOf(cell, name, cell.row)),
});

/** The operations of the service, and how one number of each is computed: `terms` are products of cells, which are added. */
const RULES = {
  given, copy, product, dot_products: dotProduct, scaling, softmax, weighting, sum: addValues, concatenation, addition, combination,
  function: otherFunction,
};

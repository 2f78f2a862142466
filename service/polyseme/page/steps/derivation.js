/**
 * The derivation of one number of a trace: the cells that it is computed from, the arithmetic in symbols and
 * in numbers, and whether the result agrees with the service's. The service names the operation and the operands of a step.
 */

import { about } from "./trace.js";
import { decimals } from "../text.js";

/** The tolerance for rounding, relative to 1 + the sum of the magnitudes of the terms. */
const TOLERANCE = 1e-9;
/** A sum of more than MAX_TERMS terms shows the first FIRST_TERMS. */
const MAX_TERMS = 8, FIRST_TERMS = 4;
/** Numbers of HUGE or more, and those below TINY that would be rounded to 0, are written with an exponent. */
const TINY = 1e-4, HUGE = 1e12;

/**
 * Return the derivation `{symbols, lines, note, parts, differs}` of a cell. A part is `{name, row, column}`, where null
 * means all; some parts also have `query` or `head`. `lines` is the arithmetic in numbers, empty if there is none.
 */
export function derive(trace, cell, head, digits) {
  const format = (number) => formatNumber(number, digits);
  const result = trace.number(cell, head), step = trace.steps.get(cell.name);
  const { symbols, note = "", parts = [], before, sum, after } = RULES[step.operation](trace, cell, head, step);
  const lines = [before && before(format), sum && `${format(result)} = ${sum.text(format)}`, after && after(format)].filter(Boolean);
  const agrees = !sum || Math.abs(sum.computed - result) <= TOLERANCE * (1 + sum.size);
  const differs = agrees ? "" : `The service returned ${result}, but this arithmetic gives ${sum.computed}.`;
  return { symbols, lines, note, parts, differs };
}

/** Whether a cell is one of the parts of a derivation, in the shown head. */
export function isPart(parts, { name, query, row, column }, head) {
  return parts.some((part) =>
    part.name === name
    && (part.row === null || part.row === row)
    && (part.column === null || part.column === column)
    && (part.query === undefined || part.query === query)
    && (part.head === undefined || part.head === head));
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

/** Return a number as text, in brackets if it has a sign or an exponent. */
const bracketed = (number, format) => {
  const text = format(number);
  return text.startsWith("−") || text.includes("e") ? `(${text})` : text;
};

/** Return texts as a sum; of a long sum, the first ones and the number of the others. */
function joined(texts, what) {
  if (texts.length <= MAX_TERMS) return texts.join(" + ");
  return `${texts.slice(0, FIRST_TERMS).join(" + ")} + … and ${texts.length - FIRST_TERMS} more ${what}`;
}

export const total = (numbers) => numbers.reduce((a, b) => a + b, 0);

// A sum is `{computed, size, text(format)}`; `size` is the sum of the magnitudes of its terms.

const same = (number) => ({ computed: number, size: Math.abs(number), text: (format) => format(number) });

function sumOf(numbers) {
  const text = (number, i, format) => (i ? bracketed(number, format) : format(number));
  return {
    computed: total(numbers),
    size: total(numbers.map(Math.abs)),
    text: (format) => joined(numbers.map((number, i) => text(number, i, format)), "numbers"),
  };
}

function productsOf(pairs) {
  const product = ([a, b], i, format) => `${i ? bracketed(a, format) : format(a)}·${bracketed(b, format)}`;
  return {
    ...sumOf(pairs.map(([a, b]) => a * b)),
    text: (format) => joined(pairs.map((pair, i) => product(pair, i, format)), "products"),
  };
}

/** The operations of the service, and how one number of each is computed. */
const RULES = {
  given, copy, product: projection, dot_products: dotProduct, scaling, softmax, weighting, sum: addValues, concatenation, addition, combination,
  function: otherFunction,
};

const symbolOf = (name) => about(name).symbol ?? about(name).title;

const NOTES = {
  embeddings: (trace) => (trace.request.text === undefined ? "Given in the request."
    : trace.request.layer ? "The result of the previous layer." : "The static vector of the word."),
  position_bias: ({ words }, { row, column }) =>
    `Stored in the model for the distance ${column - row} from ${words[row]} to ${words[column]}.`,
  word_bias: () => "Stored in the model.",
  position: () => "Computed from the word's position in the sentence.",
  visible: (trace, { row, column }) => {
    const attends = trace.array("visible")[row][column] ? "attends" : "does not attend";
    return `${trace.words[row]} ${attends} to ${trace.words[column]}.`;
  },
};

function given(trace, cell) {
  return { symbols: trace.formula(cell.name), note: NOTES[cell.name]?.(trace, cell) ?? "Given in the request." };
}

/** Return the column of an array without heads that column `column` of a head is. */
const wholeColumn = (trace, name, column, head) => (trace.headed(name) ? column + head * trace.width(name, head) : column);

function copy(trace, { name, row, column }, head, { operands: [source] }) {
  const j = wholeColumn(trace, name, column, head), number = trace.array(source)[row][j];
  const symbols = `${symbolOf(name)}[${row},${column}] = ${symbolOf(source)}[${row},${j}]`;
  const parts = [{ name: source, row, column: j }];
  // With a stored model, the value of an unknown word is zero.
  if (number !== 0 && trace.array(name, head)[row].every((each) => each === 0)) {
    return { symbols, parts, note: "This word is not in the vocabulary, so its value is zero." };
  }
  return { symbols, parts, sum: same(number) };
}

/** Derive a number of the product of a row and a weight, which a trace of a stored model does not contain. */
function projection(trace, { name, row, column }, head, { formula, operands: [source, weight] }) {
  const start = { name: source, row, column: null };
  if (!weight) {
    return { symbols: formula, note: "A trace does not contain the weights of a model, so only the formula is shown.", parts: [start] };
  }
  const matrix = trace.array(weight), j = wholeColumn(trace, name, column, head);
  return {
    symbols: `${symbolOf(name)}[${row},${column}] = Σi ${symbolOf(source)}[${row},i]·${symbolOf(weight)}${
      trace.columns ? `[${j},i]` : `[i,${j}]`}`,
    sum: productsOf(trace.array(source)[row].map((number, i) => [number, trace.columns ? matrix[j][i] : matrix[i][j]])),
    parts: [start, trace.columns ? { name: weight, row: j, column: null } : { name: weight, row: null, column: j }],
  };
}

function dotProduct(trace, { row, column }, head, { operands: [left, right] }) {
  const query = trace.array(left, head)[row], key = trace.array(right, head)[column];
  return {
    symbols: `S[${row},${column}] = Σc Q[${row},c]·K[${column},c]`,
    sum: productsOf(query.map((number, c) => [number, key[c]])),
    parts: [{ name: left, row, column: null }, { name: right, row: column, column: null }],
  };
}

function scaling(trace, { row, column }, head, { operands: [source] }) {
  const score = trace.array(source, head)[row][column], k = trace.width("queries", head);
  return {
    symbols: `S[${row},${column}]/√k, k = ${k}`,
    sum: {
      computed: score / Math.sqrt(k),
      size: Math.abs(score),
      text: (format) => `${format(score)} / √${k} = ${format(score)} / ${format(Math.sqrt(k))}`,
    },
    parts: [{ name: source, row, column }],
  };
}

/** Return the sums of scores and biases of a row, whose softmax its weights are, and the operands that it adds. */
export function logitsOf(trace, row, head) {
  const names = trace.steps.get("weights").operands.filter((name) => name !== "visible");
  const terms = names.map((name) => {
    const isForKey = !trace.array(name, head)[0].length;
    return { name, isForKey, numbers: isForKey ? trace.array(name, head) : trace.array(name, head)[row] };
  });
  return { terms, logits: trace.words.map((_, j) => total(terms.map(({ numbers }) => numbers[j]))) };
}

/** Derive a weight: the softmax of its row of logits, without masked tokens. */
function softmax(trace, { row, column }, head) {
  const { terms, logits } = logitsOf(trace, row, head), several = terms.length > 1;
  const mask = trace.steps.has("visible") ? trace.array("visible")[row] : logits.map(() => 1);
  const visible = logits.filter((_, j) => mask[j]), largest = Math.max(...visible);
  const power = (logit) => Math.exp(logit - largest);
  const raised = (logit, format) => `e^${bracketed(logit, format)}`;
  const s = several ? "s" : symbolOf(terms[0].name);
  return {
    symbols: `A[${row},${column}] = e^${s}[${row},${column}] / Σj e^${s}[${row},j]`
      + (several ? `, s = ${terms.map(({ name }) => symbolOf(name)).join(" + ")}` : ""),
    before: several && ((format) => `${terms.map(({ name }) => about(name).term).join(" + ")}: `
      + `${sumOf(terms.map(({ numbers }) => numbers[column])).text(format)} = ${format(logits[column])}`),
    sum: mask[column] && {
      computed: power(logits[column]) / total(visible.map(power)),
      size: Math.max(...logits.map(Math.abs)),
      text: (format) => `${raised(logits[column], format)} / `
        + `(${joined(visible.map((logit) => raised(logit, format)), "powers")})`,
    },
    after: mask[column] && ((format) => `= ${format(Math.exp(logits[column]))} / ${format(total(visible.map(Math.exp)))}`),
    note: mask[column] ? "" : `${trace.words[row]} does not attend to ${trace.words[column]}: this weight is masked.`,
    parts: [
      ...terms.map(({ name, isForKey }) => (isForKey ? { name, row: null, column: 0 } : { name, row, column: null })),
      ...(trace.steps.has("visible") ? [{ name: "visible", row, column: null }] : []),
    ],
  };
}

function weighting(trace, { query, row, column }, head, { operands: [weights, values] }) {
  return {
    symbols: `A[${query},${row}]·V[${row},${column}]`,
    sum: productsOf([[trace.array(weights, head)[query][row], trace.array(values, head)[row][column]]]),
    parts: [{ name: weights, row: query, column: row }, { name: values, row, column }],
  };
}

function addValues(trace, { row, column }, head, { operands: [source] }) {
  return {
    symbols: `C[${row},${column}] = Σj A[${row},j]·V[j,${column}]`,
    sum: sumOf(trace.array(source, head)[row].map((value) => value[column])),
    parts: [{ name: source, query: row, row: null, column }],
  };
}

function concatenation(trace, { row, column }, _, { operands: [source] }) {
  const width = trace.width(source), head = Math.floor(column / width), j = column - head * width;
  return {
    symbols: `C[${row},${j}] of head ${head}`,
    sum: same(trace.array(source, head)[row][j]),
    parts: [{ name: source, row, column: j, head }],
  };
}

function addition(trace, { name, row, column }, _, { operands }) {
  return {
    symbols: `${symbolOf(name)}[${row},${column}] = ${operands.map((each) => `${symbolOf(each)}[${row},${column}]`).join(" + ")}`,
    sum: sumOf(operands.map((each) => trace.array(each)[row][column])),
    parts: operands.map((each) => ({ name: each, row, column })),
  };
}

/** Derive a sum of factors times unit vectors; a zero vector stays zero, and no position is added to zeros. */
function combination(trace, { row, column }, _, { formula, operands, factors }) {
  const terms = operands.map((name, i) => {
    const vector = trace.array(name)[row];
    return { factor: factors[i], number: vector[column], norm: Math.hypot(...vector), isPosition: name === "position" };
  });
  const isZero = terms.every(({ norm, isPosition }) => isPosition || !norm);
  const used = terms.filter(({ isPosition }) => !(isZero && isPosition));
  const text = ({ factor, number, norm, isPosition }, format) => {
    if (!norm) return "0";
    const times = factor === 1 ? format(number) : `${format(factor)}·${bracketed(number, format)}`;
    return isPosition ? times : `${times}/${format(norm)}`;
  };
  return {
    symbols: formula.replace("R =", `R[${row},${column}] =`),
    sum: {
      ...sumOf(used.map(({ factor, number, norm }) => norm && (factor * number) / norm)),
      text: (format) => used.map((term) => text(term, format)).join(" + "),
    },
    parts: operands.map((name) => ({ name, row, column: name === "position" ? column : null })),
  };
}

/** Describe a function without arithmetic: a norm, the feed-forward network, or a whitening. */
function otherFunction(_, { row }, __, { formula, operands }) {
  return {
    symbols: formula,
    note: "For this step only the formula is shown.",
    parts: operands.map((name) => ({ name, row, column: name === "word_bias" ? 0 : null })),
  };
}

/**
 * The derivation of one number of a trace: the cells that it is computed from, the arithmetic in symbols and
 * in numbers, and whether the result agrees with the service's.
 */

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
  const given = trace.number(cell, head);
  const { symbols, note = "", parts = [], logits, sum } = (RULES[cell.name] ?? otherStep)(trace, cell, head);
  const lines = logits ? [logits(format)] : [];
  if (sum) lines.push(`${format(given)} = ${sum.text(format)}`);
  const agrees = !sum || Math.abs(sum.computed - given) <= TOLERANCE * (1 + sum.size);
  const differs = agrees ? "" : `The service returned ${given}, but this arithmetic gives ${sum.computed}.`;
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

const total = (numbers) => numbers.reduce((a, b) => a + b, 0);

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

const RULES = {
  queries: projection, keys: projection, values: projection, scores, scaled_scores: scaled, weights: softmax,
  weighted_values: weighted, context, output, residual, layer_output: layerOutput,
  contextual,
};

/** Return a derivation without arithmetic: a trace does not contain a stored model's weights. */
const unknownWeights = (symbols, name, row) => ({
  symbols,
  note: "A trace does not contain the weights of a stored model, so only the formula is shown.",
  parts: [{ name, row, column: null }],
});

/** Return the number of column j of the product of a vector and a weight, with the index and the part of the column. */
function productWith(trace, vector, name, j) {
  const weight = trace.array(name);
  return {
    sum: productsOf(vector.map((number, i) => [number, trace.columns ? weight[j][i] : weight[i][j]])),
    index: trace.columns ? `[${j},i]` : `[i,${j}]`,
    part: trace.columns ? { name, row: j, column: null } : { name, row: null, column: j },
  };
}

const PROJECTIONS = { queries: "query_weight", keys: "key_weight", values: "value_weight" };

function projection(trace, { name, row, column }, head) {
  const formula = trace.formula(name), letter = name[0], x = formula.includes("X̂") ? "X̂" : "X";
  const source = x === "X" ? "embeddings" : "attention_norm";
  if (!trace.has(source)) return { symbols: formula, note: "Given in the request." };
  const start = trace.array(source)[row], j = column + head * trace.width(name, head);
  const left = `${letter.toUpperCase()}[${row},${column}] =`;
  if (trace.has(PROJECTIONS[name])) {
    const { sum, index, part } = productWith(trace, start, PROJECTIONS[name], j);
    const symbols = `${left} Σi ${x}[${row},i]·W${letter}${index}`;
    return { symbols, sum, parts: [{ name: source, row, column: null }, part] };
  }
  if (!formula.endsWith(`= ${x}`)) return unknownWeights(formula, source, row);
  const symbols = `${left} ${x}[${row},${j}]`, parts = [{ name: source, row, column: j }];
  // With a stored model, the value of an unknown word is zero.
  if (start[j] !== 0 && trace.array(name, head)[row].every((number) => number === 0)) {
    return { symbols, parts, note: "This word is not in the vocabulary, so its value is zero." };
  }
  return { symbols, parts, sum: same(start[j]) };
}

function scores(trace, { row, column }, head) {
  const query = trace.array("queries", head)[row], key = trace.array("keys", head)[column];
  return {
    symbols: `S[${row},${column}] = Σc Q[${row},c]·K[${column},c]`,
    sum: productsOf(query.map((number, c) => [number, key[c]])),
    parts: [{ name: "queries", row, column: null }, { name: "keys", row: column, column: null }],
  };
}

function scaled(trace, { row, column }, head) {
  const score = trace.array("scores", head)[row][column], k = trace.width("queries", head);
  return {
    symbols: `S[${row},${column}]/√k, k = ${k}`,
    sum: {
      computed: score / Math.sqrt(k),
      size: Math.abs(score),
      text: (format) => `${format(score)} / √${k} = ${format(score)} / ${format(Math.sqrt(k))}`,
    },
    parts: [{ name: "scores", row, column }],
  };
}

/** Derive a weight: the softmax of its row of logits, without masked tokens. */
function softmax(trace, { row, column }, head) {
  const terms = logitTerms(trace, row, head), several = terms.length > 1;
  const logits = trace.words.map((_, j) => total(terms.map(({ numbers }) => numbers[j])));
  const mask = trace.has("visible") ? trace.array("visible")[row] : logits.map(() => 1);
  const visible = logits.filter((_, j) => mask[j]), largest = Math.max(...visible);
  const power = (logit) => Math.exp(logit - largest);
  const raised = (logit, format) => `e^${bracketed(logit, format)}`;
  const s = several ? "s" : terms[0].symbol;
  return {
    symbols: `A[${row},${column}] = e^${s}[${row},${column}] / Σj e^${s}[${row},j]`
      + (several ? `, s = ${terms.map(({ symbol }) => symbol).join(" + ")}` : ""),
    logits: several && ((format) => `${terms.map(({ word }) => word).join(" + ")}: `
      + `${sumOf(terms.map(({ numbers }) => numbers[column])).text(format)} = ${format(logits[column])}`),
    sum: mask[column] && {
      computed: power(logits[column]) / total(visible.map(power)),
      size: Math.max(...logits.map(Math.abs)),
      text: (format) => `${raised(logits[column], format)} / `
        + `(${joined(visible.map((logit) => raised(logit, format)), "powers")})`,
    },
    note: mask[column] ? "" : `${trace.words[row]} does not attend to ${trace.words[column]}: this weight is masked.`,
    parts: [
      ...terms.map(({ part }) => part),
      ...(trace.has("visible") ? [{ name: "visible", row, column: null }] : []),
    ],
  };
}

/** Return the terms of a row's logits: of each, the numbers for all keys, their symbol and their name. */
function logitTerms(trace, row, head) {
  const score = trace.has("scaled_scores") ? "scaled_scores" : "scores";
  const bias = trace.has("scaled_word_bias") ? "scaled_word_bias" : "word_bias";
  const ofRow = (name) => ({ numbers: trace.array(name, head)[row], part: { name, row, column: null } });
  const terms = [{ ...ofRow(score), symbol: score === "scores" ? "S" : "S/√k", word: "score" }];
  if (trace.has("position_bias")) {
    terms.push({ ...ofRow("position_bias"), symbol: "position bias", word: "position bias" });
  }
  if (trace.has(bias)) {
    const part = { name: bias, row: null, column: 0 };
    terms.push({ numbers: trace.array(bias, head), part, symbol: "word bias", word: "word bias" });
  }
  return terms;
}

function weighted(trace, { query, row, column }, head) {
  const weight = trace.array("weights", head)[query][row], value = trace.array("values", head)[row][column];
  return {
    symbols: `A[${query},${row}]·V[${row},${column}]`,
    sum: productsOf([[weight, value]]),
    parts: [{ name: "weights", row: query, column: row }, { name: "values", row, column }],
  };
}

function context(trace, { row, column }, head) {
  return {
    symbols: `C[${row},${column}] = Σj A[${row},j]·V[j,${column}]`,
    sum: sumOf(trace.array("weighted_values", head)[row].map((value) => value[column])),
    parts: [{ name: "weighted_values", query: row, row: null, column }],
  };
}

/** Derive a number of the output: the concatenated heads, times Wo if the request has it. */
function output(trace, { row, column }) {
  const formula = trace.formula("output"), left = `O[${row},${column}] =`;
  if (trace.has("output_weight")) {
    const heads = Array.from({ length: trace.heads }, (_, head) => trace.array("context", head)[row]).flat();
    const { sum, index, part } = productWith(trace, heads, "output_weight", column);
    const symbols = `${left} Σi C[${row},i]·Wo${index}${trace.heads > 1 ? ", heads concatenated" : ""}`;
    return { symbols, sum, parts: [{ name: "context", row, column: null }, part] };
  }
  if (/Wo|bo/.test(formula)) return unknownWeights(formula, "context", row);
  const width = trace.width("context"), head = Math.floor(column / width), j = column - head * width;
  return {
    symbols: `${left} C[${row},${j}]${trace.heads > 1 ? ` of head ${head}` : ""}`,
    sum: same(trace.array("context", head)[row][j]),
    parts: [{ name: "context", row, column: j, ...(trace.heads > 1 && { head }) }],
  };
}

/** Derive a number of the residual: R = O, R = X + O, or R = O/|O| + s·X/|X| + t·p. */
function residual(trace, { row, column }) {
  const formula = trace.formula("residual");
  const o = trace.array("output")[row], x = trace.array("embeddings")[row];
  const part = (name, at = column) => ({ name, row, column: at });
  const indexed = formula.replaceAll(/[ROX]/g, (letter) => `${letter}[${row},${column}]`);
  if (formula === "R = O") return { symbols: indexed, sum: same(o[column]), parts: [part("output")] };
  if (formula === "R = X + O") {
    return { symbols: indexed, sum: sumOf([x[column], o[column]]), parts: [part("embeddings"), part("output")] };
  }
  const parts = [part("output", null), part("embeddings", null)];
  const shares = /^R = O\/\|O\| \+ ([\d.e+-]+)·X\/\|X\|(?: \+ ([\d.e+-]+)·p)?$/.exec(formula);
  if (!shares) return { symbols: formula, parts };
  const [share, positionShare] = shares.slice(1).map((text) => Number(text ?? 0));
  const oNorm = Math.hypot(...o), xNorm = Math.hypot(...x);
  const numbers = [oNorm && o[column] / oNorm, xNorm && (share * x[column]) / xNorm];
  const texts = [
    (format) => (oNorm ? `${format(o[column])}/${format(oNorm)}` : "0"),
    (format) => (xNorm ? `${format(share)}·${bracketed(x[column], format)}/${format(xNorm)}` : "0"),
  ];
  // If both rows are zero, so is the residual: no position is added.
  if (positionShare && (oNorm || xNorm)) {
    const position = trace.array("position")[row][column];
    numbers.push(positionShare * position);
    texts.push((format) => `${format(positionShare)}·${bracketed(position, format)}`);
    parts.push(part("position"));
  }
  return {
    symbols: formula.replace("R =", `R[${row},${column}] =`),
    sum: { ...sumOf(numbers), text: (format) => texts.map((text) => text(format)).join(" + ") },
    parts,
  };
}

/** Derive a number of a contextual vector: that of the layer's output, or a product with all of its row. */
function contextual(trace, cell) {
  if (!trace.steps.has("layer_output")) return layerOutput(trace, cell);
  return { symbols: trace.formula("contextual"), parts: [{ name: "layer_output", row: cell.row, column: null }] };
}

/** Derive a number of the layer's output: the previous step, or input plus output of the feed-forward network. */
function layerOutput(trace, { name, row, column }) {
  const previous = stepBefore(trace, name), index = `[${row},${column}]`;
  const part = (step) => ({ name: step, row, column }), number = (step) => trace.array(step)[row][column];
  if (previous !== "feed_forward") {
    const symbols = `Y${index} = the same number of the previous step`;
    return { symbols, sum: same(number(previous)), parts: [part(previous)] };
  }
  const start = inputOfNetwork(trace);
  return {
    symbols: `Y${index} = ${start === "residual" ? "R" : "X̂"}${index} + F${index}`,
    sum: sumOf([number(start), number(previous)]),
    parts: [part(start), part(previous)],
  };
}

/** Return the step before another one. */
function stepBefore(trace, name) {
  const names = [...trace.steps.keys()];
  return names[names.indexOf(name) - 1];
}

/** Return the step that the output of the feed-forward network is added to. */
function inputOfNetwork(trace) {
  const names = [...trace.steps.keys()];
  return names.indexOf("attention_norm") > names.indexOf("residual") ? "attention_norm" : "residual";
}

const NOTES = {
  embeddings: (trace) => (trace.request.text === undefined ? "Given in the request."
    : trace.request.layer ? "The result of the previous layer." : "The static vector of the word."),
  position_bias: ({ words }, { row, column }) =>
    `Stored in the model for the distance ${column - row} from ${words[row]} to ${words[column]}.`,
  word_bias: () => "Stored in the model.",
  position: () => "Computed from the word's position in the sentence.",
  visible: ({ words, steps }, { row, column }) => {
    const attends = steps.get("visible").values[row][column] ? "attends" : "does not attend";
    return `${words[row]} ${attends} to ${words[column]}.`;
  },
};

/** Derive a number of a step without arithmetic: a norm, the feed-forward network, or what is given or stored. */
function otherStep(trace, cell) {
  const { name, row } = cell, symbols = trace.formula(name);
  if (name.endsWith("_weight")) return { symbols, note: "Given in the request." };
  if (name in NOTES) return { symbols, note: NOTES[name](trace, cell) };
  if (name === "scaled_word_bias") return { symbols, parts: [{ name: "word_bias", row, column: 0 }] };
  const previous = stepBefore(trace, name);
  const sources = previous === "feed_forward" ? [inputOfNetwork(trace), previous] : [previous];
  return { symbols, parts: sources.map((source) => ({ name: source, row, column: null })) };
}

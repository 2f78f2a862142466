/**
 * The derivation of one number of a trace: the cells that it is computed from, the arithmetic in symbols and
 * in numbers, and whether the result agrees with the service's.
 */

/** The tolerance for rounding, relative to 1 + `size` (see `products`). */
const TOLERANCE = 1e-9;

/**
 * Return the derivation `{parts, symbols, sum, note, computed, given, differs}` of a cell. A part is
 * `{name, row, column}`, where null means all; some parts also have `query` or `head`. `sum` is `{kind, …}` for
 * `derivation_text.js`, or null without arithmetic.
 */
export function derive(trace, cell, head) {
  const found = (RULES[cell.name] ?? otherStep)(trace, cell, head);
  const given = trace.number(cell, head);
  const { computed = null, size = 0 } = found;
  const differs = computed !== null && !(Math.abs(computed - given) <= TOLERANCE * (1 + size));
  return { parts: [], note: "", sum: null, ...found, computed, given, differs };
}

/** The name of the weights of each projection. */
const PROJECTIONS = { queries: "query_weight", keys: "key_weight", values: "value_weight" };
const LETTERS = { queries: "q", keys: "k", values: "v" };

const RULES = {
  ...Object.fromEntries(Object.keys(PROJECTIONS).map((name) => [name, projectionOf])),
  scores, scaled_scores: scaled, weights: softmaxed, weighted_values: weighted, context,
  output: outputOf, residual: combined,
};

function scores(trace, { row, column }, head) {
  const query = trace.array("queries", head)[row], key = trace.array("keys", head)[column];
  return {
    ...products(query.map((number, c) => [number, key[c]])),
    symbols: `S[${row},${column}] = Σc Q[${row},c]·K[${column},c]`,
    parts: [{ name: "queries", row, column: null }, { name: "keys", row: column, column: null }],
  };
}

function scaled(trace, { row, column }, head) {
  const score = trace.array("scores", head)[row][column], k = trace.width("queries", head);
  return {
    symbols: `S[${row},${column}]/√k, k = ${k}`,
    sum: { kind: "scaled", score, k },
    computed: score / Math.sqrt(k),
    size: Math.abs(score),
    parts: [{ name: "scores", row, column }],
  };
}

function weighted(trace, { query, row, column }, head) {
  const weight = trace.array("weights", head)[query][row];
  const value = trace.array("values", head)[row][column];
  return {
    ...products([[weight, value]]),
    symbols: `A[${query},${row}]·V[${row},${column}]`,
    parts: [{ name: "weights", row: query, column: row }, { name: "values", row, column }],
  };
}

function context(trace, { row, column }, head) {
  const terms = trace.array("weighted_values", head)[row].map((value) => value[column]);
  return {
    sum: { kind: "terms", terms },
    computed: terms.reduce((a, b) => a + b, 0),
    size: terms.reduce((a, b) => a + Math.abs(b), 0),
    symbols: `C[${row},${column}] = Σj A[${row},j]·V[j,${column}]`,
    parts: [{ name: "weighted_values", query: row, row: null, column }],
  };
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

/** Return a sum of products; `size`, the sum of their magnitudes, scales the tolerance. */
function products(pairs) {
  let computed = 0, size = 0;
  for (const [a, b] of pairs) {
    computed += a * b;
    size += Math.abs(a * b);
  }
  return { sum: { kind: "products", terms: pairs }, computed, size };
}

/** Derive a number of the queries, keys or values. */
function projectionOf(trace, { name, row, column }, head) {
  const formula = trace.formula(name);
  const names = [...trace.steps.keys()], norm = names.indexOf("attention_norm");
  const source = norm >= 0 && norm < names.indexOf(name) ? "attention_norm" : "embeddings";
  const at = column + head * trace.width(name, head);
  const letter = LETTERS[name].toUpperCase(), x = source === "embeddings" ? "X" : "X̂";
  if (!trace.has(source)) return { symbols: formula, note: "Given in the request." };
  if (!trace.has(PROJECTIONS[name])) {
    if (!formula.endsWith(`= ${x}`)) return unknownWeights(formula, source, row);
    return copied(trace, { source, row, at, symbols: `${letter}[${row},${column}] = ${x}[${row},${at}]` }, name, head);
  }
  const start = trace.array(source)[row];
  return {
    ...products(start.map((number, i) => [number, entry(trace, PROJECTIONS[name], i, at)])),
    symbols: `${letter}[${row},${column}] = Σi ${x}[${row},i]·W${LETTERS[name]}`
      + (trace.columns ? `[${at},i]` : `[i,${at}]`),
    parts: [{ name: source, row, column: null }, line(trace, PROJECTIONS[name], at)],
  };
}

/** Return a derivation without arithmetic: a trace does not contain a stored model's weights. */
function unknownWeights(formula, source, row) {
  return {
    symbols: formula,
    note: "A trace does not contain the weights of a stored model, so only the formula is shown.",
    parts: [{ name: source, row, column: null }],
  };
}

function copied(trace, { source, row, at, symbols }, name, head) {
  const parts = [{ name: source, row, column: at }];
  const number = trace.array(source)[row][at];
  // With a stored model, the value of an unknown word is zero.
  if (number !== 0 && trace.array(name, head)[row].every((one) => one === 0)) {
    return { symbols, parts, note: "This word is not in the vocabulary, so its value is zero." };
  }
  return { symbols, parts, sum: { kind: "same", number }, computed: number, size: Math.abs(number) };
}

/** Return entry [i, j] of a weight in the row convention, x·W. */
function entry(trace, name, i, j) {
  const values = trace.array(name);
  return trace.columns ? values[j][i] : values[i][j];
}

/** Return the part for column j of a weight in the row convention; it is a row in the column convention, W·x. */
function line(trace, name, j) {
  return trace.columns ? { name, row: j, column: null } : { name, row: null, column: j };
}

/** Derive a number of the output: the concatenated heads, times Wo if the request has it. */
function outputOf(trace, { row, column }) {
  const v = trace.width("context");
  const all = Array.from({ length: trace.heads }, (_, head) => trace.array("context", head)[row]).flat();
  if (trace.has("output_weight")) {
    return {
      ...products(all.map((number, i) => [number, entry(trace, "output_weight", i, column)])),
      symbols: `O[${row},${column}] = Σi C[${row},i]·Wo${trace.columns ? `[${column},i]` : `[i,${column}]`}`
        + (trace.heads > 1 ? ", heads concatenated" : ""),
      parts: [{ name: "context", row, column: null }, line(trace, "output_weight", column)],
    };
  }
  if (/Wo|bo/.test(trace.formula("output"))) {
    return unknownWeights(trace.formula("output"), "context", row);
  }
  const head = Math.floor(column / v);
  return {
    symbols: trace.heads > 1
      ? `O[${row},${column}] = C[${row},${column - head * v}] of head ${head}`
      : `O[${row},${column}] = C[${row},${column}]`,
    sum: { kind: "same", number: all[column] },
    computed: all[column],
    size: Math.abs(all[column]),
    parts: [{ name: "context", row, column: column - head * v, ...(trace.heads > 1 && { head }) }],
  };
}

/** Derive a number of the weights: the softmax of its row of logits, without masked tokens. */
function softmaxed(trace, { row, column }, head) {
  const terms = addends(trace, row, head);
  const visible = trace.tokens.map((_, j) => !trace.has("visible") || trace.array("visible")[row][j] === 1);
  const logits = trace.tokens.map((_, j) => terms.reduce((sum, { numbers }) => sum + numbers[j], 0));
  const largest = Math.max(...logits.filter((_, j) => visible[j]));
  const powers = logits.map((logit, j) => (visible[j] ? Math.exp(logit - largest) : 0));
  return {
    symbols: softmaxSymbols(terms, row, column),
    sum: {
      kind: "softmax", column, visible, logits,
      addends: terms.map(({ numbers, symbol }) => [symbol, numbers[column]]),
    },
    computed: powers[column] / powers.reduce((a, b) => a + b, 0),
    size: Math.max(...logits.map(Math.abs)),
    note: visible[column] ? "" : `${trace.words[row]} does not attend to ${trace.words[column]}: this weight is masked.`,
    parts: [
      ...terms.map(({ part }) => part),
      ...(trace.has("visible") ? [{ name: "visible", row, column: null }] : []),
    ],
  };
}

/** Return the terms of a row's logits: for each step, its numbers for all keys. */
function addends(trace, row, head) {
  const scored = trace.has("scaled_scores") ? "scaled_scores" : "scores";
  const found = [{
    numbers: trace.array(scored, head)[row], symbol: "score", part: { name: scored, row, column: null },
  }];
  if (trace.has("position_bias")) {
    found.push({
      numbers: trace.array("position_bias", head)[row], symbol: "position bias",
      part: { name: "position_bias", row, column: null },
    });
  }
  const words = trace.has("scaled_word_bias") ? "scaled_word_bias" : "word_bias";
  if (trace.has(words)) {
    found.push({
      numbers: trace.array(words, head), symbol: "word bias", part: { name: words, row: null, column: 0 },
    });
  }
  return found;
}

function softmaxSymbols(terms, row, column) {
  const scored = terms[0].part.name === "scores" ? "S" : "S/√k";
  const inner = terms.length > 1 ? "s" : scored;
  const where = terms.length > 1
    ? `, s = ${[scored, ...terms.slice(1).map(({ symbol }) => symbol)].join(" + ")}` : "";
  return `A[${row},${column}] = e^${inner}[${row},${column}] / Σj e^${inner}[${row},j]${where}`;
}

/** Derive a number of the residual: R = O, R = X + O, or R = O/|O| + s·X/|X| + t·p. */
function combined(trace, { row, column }) {
  const formula = trace.formula("residual");
  const output = trace.array("output")[row], start = trace.array("embeddings")[row];
  const one = (name, all = false) => ({ name, row, column: all ? null : column });
  if (formula === "R = O") {
    return same(output[column], `R[${row},${column}] = O[${row},${column}]`, [one("output")]);
  }
  if (formula === "R = X + O") {
    return sumOf([start[column], output[column]], `R[${row},${column}] = X[${row},${column}] + O[${row},${column}]`,
      [one("embeddings"), one("output")]);
  }
  const shares = /^R = O\/\|O\| \+ ([\d.e+-]+)·X\/\|X\|(?: \+ ([\d.e+-]+)·p)?$/.exec(formula);
  if (!shares) return { symbols: formula, parts: [one("output", true), one("embeddings", true)] };
  const [share, positionShare] = shares.slice(1).map((text) => Number(text ?? 0));
  const norms = [output, start].map((numbers) => Math.hypot(...numbers));
  const terms = [
    norms[0] && output[column] / norms[0],
    norms[1] && (share * start[column]) / norms[1],
  ];
  const parts = [one("output", true), one("embeddings", true)];
  // If both rows are zero, so is the residual: no position is added.
  if (positionShare && norms.some((norm) => norm > 0)) {
    terms.push(positionShare * trace.array("position")[row][column]);
    parts.push(one("position"));
  }
  return {
    ...sumOf(terms, formula.replace("R =", `R[${row},${column}] =`), parts),
    sum: {
      kind: "combined", share, positionShare,
      numbers: [output[column], norms[0], start[column], norms[1],
        terms.length > 2 ? trace.array("position")[row][column] : null],
    },
  };
}

function same(number, symbols, parts) {
  return { symbols, parts, sum: { kind: "same", number }, computed: number, size: Math.abs(number) };
}

function sumOf(terms, symbols, parts) {
  return {
    symbols, parts,
    sum: { kind: "terms", terms },
    computed: terms.reduce((a, b) => a + b, 0),
    size: terms.reduce((a, b) => a + Math.abs(b), 0),
  };
}

const NOTES = {
  embeddings: (trace) => (trace.request.text === undefined ? "Given in the request."
    : trace.request.layer ? "The result of the previous layer." : "The static vector of the word."),
  position_bias: (trace, { row, column }) =>
    `Stored in the model for the distance ${column - row} from ${trace.words[row]} to ${trace.words[column]}.`,
  word_bias: () => "Stored in the model.",
  position: () => "Computed from the word's position in the sentence.",
};

/** Derive a number of a step that is not in RULES; of these, only `contextual` has arithmetic. */
function otherStep(trace, cell) {
  const { name, row, column } = cell;
  const symbols = trace.formula(name);
  if (name.endsWith("_weight")) return { symbols, note: "Given in the request." };
  if (name in NOTES) return { symbols, note: NOTES[name](trace, cell) };
  if (name === "visible") return { symbols, note: maskNote(trace, cell) };
  if (name === "scaled_word_bias") return { symbols, parts: [{ name: "word_bias", row, column: 0 }] };
  if (name === "contextual") return contextual(trace, row, column);
  return { symbols, parts: sourcesOf(trace, name).map((source) => ({ name: source, row, column: null })) };
}

function maskNote(trace, { row, column }) {
  const attends = trace.array("visible")[row][column] === 1 ? "attends" : "does not attend";
  return `${trace.words[row]} ${attends} to ${trace.words[column]}.`;
}

/** Return the inputs of a norm or of the feed-forward network, usually the previous step. */
function sourcesOf(trace, name) {
  const names = [...trace.steps.keys()];
  const before = names[names.indexOf(name) - 1];
  return before === "feed_forward" ? [startOf(names), before] : [before].filter(Boolean);
}

/** Return the step that the output of the feed-forward network is added to. */
function startOf(names) {
  return names.indexOf("attention_norm") > names.indexOf("residual") ? "attention_norm" : "residual";
}

/** Derive a number of a contextual vector: the previous step, or input plus output of the feed-forward network. */
function contextual(trace, row, column) {
  const names = [...trace.steps.keys()];
  const final = names[names.indexOf("contextual") - 1];
  const index = `[${row},${column}]`;
  if (final !== "feed_forward") {
    return same(trace.array(final)[row][column], `Y${index} = the same number of the previous step`,
      [{ name: final, row, column }]);
  }
  const start = startOf(names);
  return sumOf([trace.array(start)[row][column], trace.array(final)[row][column]],
    `Y${index} = ${start === "residual" ? "R" : "X̂"}${index} + F${index}`,
    [{ name: start, row, column }, { name: final, row, column }]);
}

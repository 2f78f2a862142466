/** How queries, keys, values and the output come out of a product with weights. */

/** The weights of each projection, as the request brings them. */
export const PROJECTIONS = { queries: "query_weight", keys: "key_weight", values: "value_weight" };
const LETTERS = { queries: "q", keys: "k", values: "v" };

/** A sum of products, with the size that its rounding is measured by. */
export function products(pairs) {
  let computed = 0, size = 0;
  for (const [a, b] of pairs) {
    computed += a * b;
    size += Math.abs(a * b);
  }
  return { sum: { kind: "products", terms: pairs }, computed, size };
}

/** A number of the queries, keys or values. */
export function projectionOf(trace, { name, row, column }, head) {
  const formula = trace.formula(name);
  const source = trace.has("attention_norm") && before(trace, "attention_norm", name)
    ? "attention_norm" : "embeddings";
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

function before(trace, first, second) {
  const names = [...trace.steps.keys()];
  return names.indexOf(first) < names.indexOf(second);
}

function unknownWeights(formula, source, row) {
  return {
    symbols: formula,
    note: "The service does not give a stored model's own weights here, so that only the formula can be shown.",
    parts: [{ name: source, row, column: null }],
  };
}

function copied(trace, { source, row, at, symbols }, name, head) {
  const parts = [{ name: source, row, column: at }];
  const number = trace.array(source)[row][at];
  // A stored model gives an unknown word the value zero, whatever its row has become by then.
  if (number !== 0 && trace.array(name, head)[row].every((entry_) => entry_ === 0)) {
    return { symbols, parts, note: "The model does not know this word, so that its value is zero." };
  }
  return { symbols, parts, sum: { kind: "same", number }, computed: number, size: Math.abs(number) };
}

/** Entry [i, j] of a weight as x·W has it. */
function entry(trace, name, i, j) {
  const values = trace.array(name);
  return trace.columns ? values[j][i] : values[i][j];
}

/** Column j of a weight as x·W has it: a row of one that was brought as W·x. */
function line(trace, name, j) {
  return trace.columns ? { name, row: j, column: null } : { name, row: null, column: j };
}

/** A number of the output: of the heads side by side, times Wo where the request brings it. */
export function outputOf(trace, { row, column }) {
  const v = trace.width("context");
  const all = Array.from({ length: trace.heads }, (_, head) => trace.array("context", head)[row]).flat();
  if (trace.has("output_weight")) {
    return {
      ...products(all.map((number, i) => [number, entry(trace, "output_weight", i, column)])),
      symbols: `O[${row},${column}] = Σi C[${row},i]·Wo${trace.columns ? `[${column},i]` : `[i,${column}]`}`
        + (trace.heads > 1 ? ", the heads side by side" : ""),
      parts: [{ name: "context", row, column: null }, line(trace, "output_weight", column)],
    };
  }
  if (/Wo|bo/.test(trace.formula("output"))) {
    return { ...unknownWeights(trace.formula("output"), "context", row) };
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

/**
 * How one number of a trace comes out of others, computed here from the service's numbers: which
 * cells it is made of, the sum in symbols and in numbers, and whether its result is the service's.
 */

import { softmaxed } from "./derivation_softmax.js";
import { PROJECTIONS, outputOf, products, projectionOf } from "./derivation_projection.js";
import { combined, restOf } from "./derivation_layer.js";

const ROUNDING = 1e-9;

/**
 * `{parts, symbols, sum, note, computed, given, differs}` of a cell. A part is `{name, row, column}`
 * (and `looking`, `head`, `from`, `to`), where `null` means all of them. `sum` is
 * `{kind, terms, …}` for `derivation_text.js`; without one only the formula can be said.
 */
export function derive(trace, cell, head) {
  const found = (RULES[cell.name] ?? restOf)(trace, cell, head);
  const given = trace.number(cell, head);
  const { computed = null, size = 0 } = found;
  const differs = computed !== null && !(Math.abs(computed - given) <= ROUNDING * (1 + size));
  return { parts: [], note: "", sum: null, ...found, computed, given, differs };
}

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

function weighted(trace, { looking, row, column }, head) {
  const weight = trace.array("weights", head)[looking][row];
  const value = trace.array("values", head)[row][column];
  return {
    ...products([[weight, value]]),
    symbols: `A[${looking},${row}]·V[${row},${column}]`,
    parts: [{ name: "weights", row: looking, column: row }, { name: "values", row, column }],
  };
}

function context(trace, { row, column }, head) {
  const terms = trace.array("weighted_values", head)[row].map((value) => value[column]);
  return {
    sum: { kind: "terms", terms },
    computed: terms.reduce((a, b) => a + b, 0),
    size: terms.reduce((a, b) => a + Math.abs(b), 0),
    symbols: `C[${row},${column}] = Σj A[${row},j]·V[j,${column}]`,
    parts: [{ name: "weighted_values", looking: row, row: null, column }],
  };
}

/** Whether a cell is one of those that another is made of, in the head that is shown. */
export function isPart(parts, { name, looking, row, column }, head) {
  return parts.some((part) =>
    part.name === name
    && (part.row === null || part.row === row)
    && (part.column === null || part.column === column)
    && (part.looking === undefined || part.looking === looking)
    && (part.head === undefined || part.head === head));
}

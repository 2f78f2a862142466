/** Matrices of a request that grow and shrink together, so that they still fit each other. */

import { MOST } from "./matrix_paste.js";

const PROJECTED = ["queries", "keys", "values"];

/** The matrices that have a row for each word. */
export function rowMatrices(request) {
  return request.embeddings ? ["embeddings"] : PROJECTED;
}

/** The request with so many words; new ones are called "word 3", their numbers are 0. */
export function withWords(request, count) {
  if (count < 1 || count > MOST) return request;
  const tokens = upTo(count).map((i) => request.tokens[i] ?? `word ${i}`);
  const matrices = rowMatrices(request).map((name) => [name, sized(request[name], count, request[name][0].length)]);
  return { ...request, tokens, ...Object.fromEntries(matrices) };
}

/**
 * The request with `by` columns more (or fewer) in a matrix, and in those that have to be as wide:
 * `embeddings`, `query` (with `key`), `value` (with the rows of `output`), `queries` (with `keys`),
 * `values`.
 */
export function withWidth(request, name, by) {
  const wanted = width(request, name) + by;
  if (wanted < 1 || wanted > MOST) return request;
  if (name === "values") return { ...request, values: columns(request.values, by) };
  if (name === "queries" || name === "keys") {
    return { ...request, queries: columns(request.queries, by), keys: columns(request.keys, by) };
  }
  const turn = request.convention === "column" ? turned : (rows) => rows;
  const weights = Object.fromEntries(Object.entries(request.weights ?? {}).map(([field, rows]) => {
    const own = turn(rows), [down, across] = CHANGES[name][field] ?? [0, 0];
    return [field, turn(sized(own, own.length + down * by, own[0].length + across * by))];
  }));
  const embeddings = name === "embeddings" ? columns(request.embeddings, by) : request.embeddings;
  return { ...request, embeddings, ...(request.weights && { weights }) };
}

/** How wide a matrix is, as x·W has it. */
export function width(request, name) {
  const rows = request[name] ?? request.weights[name];
  return request.convention === "column" && !request[name] ? rows.length : rows[0].length;
}

const CHANGES = {
  embeddings: { query: [1, 0], key: [1, 0], value: [1, 0], output: [0, 1] },
  query: { query: [0, 1], key: [0, 1] },
  key: { query: [0, 1], key: [0, 1] },
  value: { value: [0, 1], output: [1, 0] },
};

const columns = (rows, by) => sized(rows, rows.length, rows[0].length + by);
const upTo = (count) => Array.from({ length: count }, (_, i) => i);

function sized(rows, height, across) {
  return upTo(Math.max(height, 1)).map((i) => upTo(Math.max(across, 1)).map((j) => rows[i]?.[j] ?? 0));
}

/** A matrix with its rows as columns. */
export function turned(rows) {
  return rows[0].map((_, j) => rows.map((row) => row[j]));
}

/** A weight to begin with: 1 on the diagonal, so that turning it on changes nothing. */
export function identity(size) {
  return upTo(size).map((i) => upTo(size).map((j) => (i === j ? 1 : 0)));
}

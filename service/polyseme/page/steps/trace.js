/** A trace as matrices, with the title, shape and description of each step. */

import { shorten } from "../text.js";

const SQUARE = new Set(["scores", "scaled_scores", "position_bias", "visible", "weights"]);
const BY_HEAD = new Set([
  "queries", "keys", "values", "scores", "scaled_scores", "position_bias", "scaled_word_bias",
  "weights", "weighted_values", "context",
]);
const VECTORS = new Set(["word_bias", "scaled_word_bias"]);

export class Trace {
  /** `request` is the body, `response` the parsed response of `POST v1/trace`. */
  constructor(request, response) {
    this.request = request;
    this.tokens = response.tokens;
    this.words = distinctWords(response.tokens);
    this.columns = request.convention === "column";
    const { shape } = response.steps.find(({ name }) => name === "scores");
    this.heads = shape.length === 3 ? shape[0] : 1;
    this.steps = new Map();
    for (const step of response.steps) {
      if (step.name === "queries") this.#addWeights(["query_weight", "key_weight", "value_weight"]);
      if (step.name === "output") this.#addWeights(["output_weight"]);
      this.steps.set(step.name, step);
    }
  }

  /** Add the weights of the request as steps. */
  #addWeights(names) {
    for (const name of names) {
      const values = this.request.weights?.[WEIGHTS[name].field];
      if (!values) continue;
      const { row, symbol } = WEIGHTS[name];
      const shape = [values.length, values[0].length];
      const letters = this.columns ? row.toReversed() : row;
      this.steps.set(name, {
        name, shape, values, formula: symbol, letters: `[${letters.join(", ")}] = [${shape.join(", ")}]`,
      });
    }
  }

  has(name) {
    return this.steps.has(name);
  }

  formula(name) {
    return this.steps.get(name)?.formula ?? "";
  }

  /** Whether a step has an array for each head. */
  headed(name) {
    return this.heads > 1 && BY_HEAD.has(name);
  }

  /** Return the array of a step, or of one head if the step has heads. */
  array(name, head) {
    const { values } = this.steps.get(name);
    return this.headed(name) ? values[head] : values;
  }

  /** Return the number of columns of a step in one head. */
  width(name, head = 0) {
    return this.array(name, head)[0].length;
  }

  /**
   * Return a step as a matrix: `rows` of numbers, the names of rows and columns, and `words`, which of these names
   * are words: `rows`, `both` or `none`. `query` is the index of the query token for weighted values. A step with
   * one number for each token has one column.
   */
  matrix(name, head, query) {
    const array = this.array(name, head);
    const words = this.words;
    if (VECTORS.has(name)) {
      return { rows: array.map((number) => [number]), rowNames: words, columnNames: ["bias"], words: "rows" };
    }
    const rows = name === "weighted_values" ? array[query] : array;
    const columnNames = SQUARE.has(name) ? words : rows[0].map((_, c) => `c${c}`);
    const rowNames = name in WEIGHTS ? rows.map((_, r) => `c${r}`) : words;
    return { rows, rowNames, columnNames, words: SQUARE.has(name) ? "both" : name in WEIGHTS ? "none" : "rows" };
  }

  /** Parse a cell such as `scores:1:2`, or return null; `weighted_values:1:2:0` starts with the query token. */
  cell(text) {
    const [name, ...parts] = text.split(":");
    if (!this.has(name) || !parts.every((part) => /^\d{1,6}$/.test(part))) return null;
    const indices = parts.map(Number);
    const query = name === "weighted_values" ? indices.shift() : null;
    if (indices.length !== 2 || query >= this.tokens.length) return null;
    const [row, column] = indices;
    const { rows } = this.matrix(name, 0, query ?? 0);
    if (row >= rows.length || column >= rows[0].length) return null;
    return { name, query, row, column };
  }

  /** Return the number in a cell. */
  number(cell, head) {
    return this.matrix(cell.name, head, cell.query ?? 0).rows[cell.row][cell.column];
  }
}

/** Return a cell as text, which `Trace.cell` parses. */
export function cellText({ name, query, row, column }) {
  return [name, ...(name === "weighted_values" ? [query] : []), row, column].join(":");
}

/** Return the name of a cell: "Scores, row love, column I". */
export function cellName(trace, cell) {
  const { rowNames, columnNames } = trace.matrix(cell.name, 0, cell.query ?? 0);
  const query = cell.query === null ? "" : `, query ${trace.words[cell.query]}`;
  return `${about(cell.name).title}${query}, row ${rowNames[cell.row]}, column ${columnNames[cell.column]}`;
}

const n = "n", d = "d", k = "k", v = "v", h = "h", m = "m";

/** The letters in shapes. */
export const LETTERS = [
  ["n", "tokens"], ["d", "width of a vector"], ["k", "width of a query or key in one head"],
  ["v", "width of a value in one head"], ["m", "width of the hidden layer"], ["h", "heads"],
];

/** The `title`, `shape`, `symbol` and description (`does`) of each step. */
const STEPS = {
  embeddings: {
    title: "Embeddings", symbol: "X", shape: [n, d],
    does: "One vector for each word: the input of attention.",
  },
  output: {
    title: "Output", symbol: "O", shape: [n, d],
    does: "The contexts of all heads concatenated, times the output weights if there are any.",
  },
  attention_norm: {
    title: "Attention norm", symbol: "X̂", shape: [n, d],
    does: "Each row normalized to mean 0 and variance 1, then scaled and shifted.",
  },
  queries: {
    title: "Queries", symbol: "Q", shape: [n, k],
    does: "A projection of each word, to compare with the keys.",
  },
  keys: {
    title: "Keys", symbol: "K", shape: [n, k],
    does: "A projection of each word, to compare with the queries.",
  },
  values: {
    title: "Values", symbol: "V", shape: [n, v],
    does: "A projection of each word. The context is a weighted sum of these values.",
  },
  scores: {
    title: "Scores", symbol: "S", shape: [n, n],
    does: "The dot product of the row's query and the column's key.",
  },
  scaled_scores: {
    title: "Scaled scores", symbol: "S/√k", shape: [n, n],
    does: "The scores divided by √k, so that they do not grow with the width of the keys.",
  },
  position_bias: {
    title: "Position bias", symbol: "b", shape: [n, n],
    does: "A term of each score that depends on the distance between the two words.",
  },
  word_bias: {
    title: "Word bias", symbol: "log s", shape: [n],
    does: "The logarithm of each word's informativeness, stored in the model.",
  },
  scaled_word_bias: {
    title: "Scaled word bias", symbol: "f·log s", shape: [n],
    does: "The word bias times the head's factor. It is added to each score that has the word as its key.",
  },
  visible: {
    title: "Visible", symbol: "visible", shape: [n, n],
    does: "The attention mask: 1 where the row's word attends to the column's word, else 0.",
  },
  weights: {
    title: "Weights", symbol: "A", shape: [n, n],
    does: "The softmax of each row of scores: non-negative numbers that sum to 1.",
  },
  weighted_values: {
    title: "Weighted values", symbol: "A·V", shape: [n, n, v],
    does: "The value of each word times the weight that the query token gives it.",
  },
  context: {
    title: "Context", symbol: "C", shape: [n, v],
    does: "The sum of each query token's weighted values.",
  },
  position: {
    title: "Position", symbol: "p", shape: [n, d],
    does: "A unit vector that depends only on the word's position.",
  },
  residual: {
    title: "Residual", symbol: "R", shape: [n, d],
    does: "The output of attention combined with its input.",
  },
  feed_forward_norm: {
    title: "Feed-forward norm", symbol: "LayerNorm", shape: [n, d],
    does: "Each row normalized to mean 0 and variance 1, then scaled and shifted.",
  },
  feed_forward_inner: {
    title: "Feed-forward, hidden layer", symbol: "inner", shape: [n, m],
    does: "The hidden layer of a network that is applied to each word separately.",
  },
  feed_forward: {
    title: "Feed-forward", symbol: "F", shape: [n, d],
    does: "The network's output, which is added to each word's vector.",
  },
  contextual: {
    title: "Contextual vectors", symbol: "Y", shape: [n, d],
    does: "The output of the layer: one vector for each word in this sentence.",
  },
};

/** The weight matrices of a request, by name; `row` is the shape in the row convention, x·W. */
const WEIGHTS = {
  query_weight: {
    title: "Query weights", symbol: "Wq", field: "query", row: [d, "h·k"],
    does: "Projects embeddings to queries.",
  },
  key_weight: {
    title: "Key weights", symbol: "Wk", field: "key", row: [d, "h·k"],
    does: "Projects embeddings to keys.",
  },
  value_weight: {
    title: "Value weights", symbol: "Wv", field: "value", row: [d, "h·v"],
    does: "Projects embeddings to values.",
  },
  output_weight: {
    title: "Output weights", symbol: "Wo", field: "output", row: ["h·v", d],
    does: "Projects the contexts of all heads to the output.",
  },
};

/** Return the description of a step; an unknown step has its name as title. */
export function about(name) {
  return STEPS[name] ?? WEIGHTS[name] ?? { title: name.replaceAll("_", " "), symbol: name, does: "" };
}

/** Return a shape as `[n, k] = [3, 2]`, with `h` in front for an array with heads. */
export function shapeText(name, shape) {
  const letters = about(name).shape;
  if (!letters) return `[${shape.join(", ")}]`;
  const named = shape.length > letters.length ? [h, ...letters] : letters;
  return `[${named.join(", ")}] = [${shape.join(", ")}]`;
}

/** The maximum number of graphemes of a word. */
const MAX_WORD = 48;

/** Return a word as this view shows it. */
export const shortWord = (word) => shorten(word, MAX_WORD);

/** Return the names of rows: the words, numbered if they occur more than once. */
function distinctWords(tokens) {
  const words = tokens.map(shortWord);
  const occurrences = Map.groupBy(words, (word) => word);
  const seen = new Map();
  return words.map((word) => {
    if (occurrences.get(word).length === 1) return word;
    seen.set(word, (seen.get(word) ?? 0) + 1);
    return `${word}${subscript(seen.get(word))}`;
  });
}

const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";
const subscript = (number) => [...String(number)].map((digit) => SUBSCRIPTS[digit]).join("");

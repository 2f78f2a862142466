/** A trace as matrices, with the title, the shape and a description of each step. */

import { shorten } from "../text.js";

/** The letters in shapes. */
export const LETTERS = [
  ["n", "tokens"], ["d", "width of a vector"], ["k", "width of a query or key in one head"],
  ["v", "width of a value in one head"], ["m", "width of the hidden layer"], ["h", "heads"],
];

/** The title of each step, the letters of its shape without the axis of the heads, and a description. */
const STEPS = {
  embeddings: ["Embeddings", "n, d", "One vector for each word: the input of attention."],
  attention_norm: ["Attention norm", "n, d", "Each row normalized to mean 0 and variance 1, then scaled and shifted."],
  query_weight: ["Query weights", "d, h·k", "Projects embeddings to queries."],
  key_weight: ["Key weights", "d, h·k", "Projects embeddings to keys."],
  value_weight: ["Value weights", "d, h·v", "Projects embeddings to values."],
  queries: ["Queries", "n, k", "A projection of each word, to compare with the keys."],
  keys: ["Keys", "n, k", "A projection of each word, to compare with the queries."],
  values: ["Values", "n, v", "A projection of each word. The context is a weighted sum of these values."],
  scores: ["Scores", "n, n", "The dot product of the row's query and the column's key."],
  scaled_scores: ["Scaled scores", "n, n", "The scores divided by √k, so that they do not grow with the width of the keys."],
  position_bias: ["Position bias", "n, n", "A term of each score that depends on the distance between the two words."],
  word_bias: ["Word bias", "n", "The logarithm of each word's informativeness, stored in the model."],
  scaled_word_bias: ["Scaled word bias", "n",
    "The word bias times the head's factor. It is added to each score that has the word as its key."],
  visible: ["Visible", "n, n", "The attention mask: 1 where the row's word attends to the column's word, else 0."],
  weights: ["Weights", "n, n", "The softmax of each row of scores: non-negative numbers that sum to 1."],
  weighted_values: ["Weighted values", "n, n, v",
    "The value of each word times the weight that the query token gives it."],
  context: ["Context", "n, v", "The sum of each query token's weighted values."],
  output_weight: ["Output weights", "h·v, d", "Projects the contexts of all heads to the output."],
  concatenation: ["Concatenation", "n, h·v", "The contexts of all heads, side by side."],
  output: ["Output", "n, d", "The concatenated contexts times the output weights, if there are any."],
  position: ["Position", "n, d", "A unit vector that depends only on the word's position."],
  residual: ["Residual", "n, d", "The output of attention combined with its input."],
  feed_forward_norm: ["Feed-forward norm", "n, d",
    "Each row normalized to mean 0 and variance 1, then scaled and shifted."],
  feed_forward_inner: ["Feed-forward, hidden layer", "n, m",
    "The hidden layer of a network that is applied to each word separately."],
  feed_forward: ["Feed-forward", "n, d", "The network's output, which is added to each word's vector."],
  layer_output: ["Output of the layer", "n, d", "One vector for each word, before it is whitened."],
  contextual: ["Contextual vectors", "n, d", "The output of the layer: one vector for each word in this sentence."],
};

/** The symbols of steps in formulas. */
const SYMBOLS = {
  embeddings: "X", attention_norm: "X̂", query_weight: "Wq", key_weight: "Wk", value_weight: "Wv", output_weight: "Wo",
  queries: "Q", keys: "K", values: "V", scores: "S", scaled_scores: "S/√k", position_bias: "position bias",
  word_bias: "word bias", scaled_word_bias: "word bias", context: "C", concatenation: "concat(C)", output: "O", residual: "R",
  feed_forward: "F", layer_output: "Y", contextual: "Y",
};

/** Return the description of a step; an unknown step has its name as title. `term` is its name in a sum of logits. */
export function about(name) {
  const [title, shape, does] = STEPS[name] ?? [name.replaceAll("_", " "), "n, d", ""];
  const symbol = SYMBOLS[name];
  return { title, shape, does, symbol, term: symbol?.startsWith("S") ? "score" : symbol };
}

/** The weights of a request, which are steps before the step that they compute. */
const WEIGHTS = { queries: ["query", "key", "value"], output: ["output"] };

export class Trace {
  /** `request` is the body, `response` the parsed response of `POST v1/trace`. */
  constructor(request, response) {
    this.request = request;
    this.words = distinctWords(response.tokens);
    this.columns = request.convention === "column";
    this.steps = new Map();
    for (const step of response.steps) {
      for (const field of WEIGHTS[step.name] ?? []) this.#addWeight(field);
      this.steps.set(step.name, step);
    }
    const { shape } = this.steps.get("scores");
    this.heads = shape.length === 3 ? shape[0] : 1;
  }

  /** Add a weight of the request as a step. */
  #addWeight(field) {
    const values = this.request.weights?.[field];
    if (!values) return;
    const name = `${field}_weight`;
    this.steps.set(name, { name, values, shape: [values.length, values[0].length], formula: `W${field[0]}`, operation: "given" });
  }

  formula(name) {
    return this.steps.get(name)?.formula ?? "";
  }

  /** Return the letters of a step's shape without the axis of the heads: `["n", "k"]`. */
  #letters(name) {
    const letters = about(name).shape.split(", ");
    return name.endsWith("_weight") && this.columns ? letters.toReversed() : letters;
  }

  /** Return a shape as `[n, k] = [3, 2]`, with `h` in front for an array with heads. */
  shapeText(name) {
    const letters = this.#letters(name);
    return `[${this.headed(name) ? "h, " : ""}${letters.join(", ")}] = [${this.steps.get(name).shape.join(", ")}]`;
  }

  /** Whether a step has an array for each head. */
  headed(name) {
    return this.steps.get(name).shape.length > this.#letters(name).length;
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
   * Return a step as a matrix, `{rows, rowNames, columnNames}`. `query` is the index of the query token for weighted
   * values. A step with one number for each token has one column.
   */
  matrix(name, head, query) {
    const [down, across] = this.#letters(name).slice(-2);
    let rows = this.array(name, head);
    if (name === "weighted_values") rows = rows[query];
    if (!across) rows = rows.map((number) => [number]);
    const names = (letter, numbers) => (letter === "n" ? this.words : numbers.map((_, i) => `c${i}`));
    return { rows, rowNames: names(down, rows), columnNames: across ? names(across, rows[0]) : ["bias"] };
  }

  /** Parse a cell such as `scores:1:2`, or return null; `weighted_values:1:2:0` starts with the query token. */
  cell(text) {
    const [name, ...parts] = text.split(":");
    if (!this.steps.has(name) || !parts.every((part) => /^\d{1,6}$/.test(part))) return null;
    const indices = parts.map(Number);
    const query = name === "weighted_values" ? indices.shift() : null;
    if (indices.length !== 2 || query >= this.words.length) return null;
    const [row, column] = indices;
    const { rows } = this.matrix(name, 0, query);
    return row < rows.length && column < rows[0].length ? { name, query, row, column } : null;
  }

  /** Return a cell of a step in a row, if the step has the row; `row` is the query token of weighted values. */
  firstCell(name, row) {
    const query = name === "weighted_values" ? row : null;
    const { rows } = this.matrix(name, 0, query);
    return { name, query, row: query === null && row < rows.length ? row : 0, column: 0 };
  }

  /** Return the number in a cell. */
  number({ name, query, row, column }, head) {
    return this.matrix(name, head, query).rows[row][column];
  }

  /** Return the name of a cell: "Scores, row love, column I". */
  cellName({ name, query, row, column }, head) {
    const { rowNames, columnNames } = this.matrix(name, head, query);
    const where = query === null ? "" : `, query ${this.words[query]}`;
    return `${about(name).title}${where}, row ${rowNames[row]}, column ${columnNames[column]}`
      + (this.headed(name) ? `, head ${head}` : "");
  }
}

/** Return a cell as text, which `Trace.cell` parses. */
export function cellText({ name, query, row, column }) {
  return [name, ...(name === "weighted_values" ? [query] : []), row, column].join(":");
}

/** The maximum number of graphemes of a word. */
const MAX_WORD = 48;

/** Return the names of rows: the words, numbered if they occur more than once. */
function distinctWords(tokens) {
  const words = tokens.map((token) => shorten(token, MAX_WORD));
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

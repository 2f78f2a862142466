/** What each step of attention is called in plain English, its shape in letters, and what it does. */

const n = "n", d = "d", k = "k", v = "v", h = "h";

/** The letters of shapes. */
export const LETTERS = [
  ["n", "tokens"], ["d", "width of a vector"], ["k", "width of a query or key in one head"],
  ["v", "width of a value in one head"], ["h", "heads"], ["L", "layers"], ["V", "vocabulary"],
];

/** `title`, `shape` and `does` of each step; `symbol` is its letter in a derivation. */
export const STEPS = {
  embeddings: {
    title: "Embeddings", symbol: "X", shape: [n, d],
    does: "One row of numbers for each word: what attention starts from.",
  },
  output: {
    title: "Output", symbol: "O", shape: [n, d],
    does: "The contexts of all heads side by side, and times the output weights where there are any.",
  },
  attention_norm: {
    title: "Attention norm", symbol: "X̂", shape: [n, d],
    does: "Each row moved and stretched to an even spread before it goes on.",
  },
  queries: {
    title: "Queries", symbol: "Q", shape: [n, k],
    does: "What each word looks for in the others.",
  },
  keys: {
    title: "Keys", symbol: "K", shape: [n, k],
    does: "What each word offers to be found by.",
  },
  values: {
    title: "Values", symbol: "V", shape: [n, v],
    does: "What each word hands over to those that look at it.",
  },
  scores: {
    title: "Scores", symbol: "S", shape: [n, n],
    does: "How well the query of the row's word fits the key of the column's word.",
  },
  scaled_scores: {
    title: "Scaled scores", symbol: "S/√k", shape: [n, n],
    does: "The scores divided by the square root of a key's width, so that wide keys do not make large scores.",
  },
  position_bias: {
    title: "Position bias", symbol: "b", shape: [n, n],
    does: "Added to a score by how far apart the two words are.",
  },
  word_bias: {
    title: "Word bias", symbol: "log s", shape: [n],
    does: "How informative each word is, learned with the model.",
  },
  scaled_word_bias: {
    title: "Scaled word bias", symbol: "m·log s", shape: [n],
    does: "The word bias times the head's own factor; added to every score of that word as a key.",
  },
  visible: {
    title: "Visible", symbol: "visible", shape: [n, n],
    does: "1 where the row's word may look at the column's word, else 0.",
  },
  weights: {
    title: "Weights", symbol: "A", shape: [n, n],
    does: "The scores of each row made into shares that add up to 1: how much the row's word looks at each word.",
  },
  weighted_values: {
    title: "Weighted values", symbol: "A·V", shape: [n, n, v],
    does: "The value of each word times the weight that the looking word gives it.",
  },
  context: {
    title: "Context", symbol: "C", shape: [n, v],
    does: "The weighted values of each looking word added up: the word in its sentence.",
  },
  position: {
    title: "Position", symbol: "p", shape: [n, d],
    does: "A row of unit length that depends on the word's place alone.",
  },
  residual: {
    title: "Residual", symbol: "R", shape: [n, d],
    does: "The output of attention together with what it started from.",
  },
  feed_forward_norm: {
    title: "Feed-forward norm", symbol: "LayerNorm", shape: [n, d],
    does: "Each row moved and stretched to an even spread.",
  },
  feed_forward_inner: {
    title: "Feed-forward, inside", symbol: "inner", shape: [n, "m"],
    does: "The wide inside of a small network that works on each word alone.",
  },
  feed_forward: {
    title: "Feed-forward", symbol: "F", shape: [n, d],
    does: "What the small network adds to each word.",
  },
  contextual: {
    title: "Contextual vectors", symbol: "Y", shape: [n, d],
    does: "The result of the layer: one vector for each word as it is in this sentence.",
  },
};

/** The weight matrices of a request, by the step that needs them. */
export const WEIGHTS = {
  query_weight: {
    title: "Query weights", symbol: "Wq", of: "queries", field: "query", row: [d, "h·k"],
    does: "Turns an embedding into a query.",
  },
  key_weight: {
    title: "Key weights", symbol: "Wk", of: "keys", field: "key", row: [d, "h·k"],
    does: "Turns an embedding into a key.",
  },
  value_weight: {
    title: "Value weights", symbol: "Wv", of: "values", field: "value", row: [d, "h·v"],
    does: "Turns an embedding into a value.",
  },
  output_weight: {
    title: "Output weights", symbol: "Wo", of: "output", field: "output", row: ["h·v", d],
    does: "Turns the contexts of all heads into the output.",
  },
};

/** What is said of a step; a step that this page does not know has its own name. */
export function about(name) {
  return STEPS[name] ?? WEIGHTS[name] ?? { title: name.replaceAll("_", " "), symbol: name, does: "" };
}

/** `[n, k] = [3, 2]`, with `h` in front where there are heads. */
export function shapeText(name, shape) {
  const letters = about(name).shape;
  if (!letters) return `[${shape.join(", ")}]`;
  const named = shape.length > letters.length ? [h, ...letters] : letters;
  return `[${named.join(", ")}] = [${shape.join(", ")}]`;
}

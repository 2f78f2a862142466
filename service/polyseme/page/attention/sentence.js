/** A sentence as `/v1/encode` returns it: tokens, vectors, attention weights and contributions. */

import { folded, isContentWord } from "../words.js";

const { mean } = globalThis.d3;

/** The names of the terms of contributions. */
const TERMS = { residual: "the word itself", position: "its position", bias: "a fixed vector" };

export class EncodedSentence {
  /** `response` is the response of `POST v1/encode` for one sentence, and `text` is the sentence. */
  constructor(response, text) {
    const { results, model, layers, heads, terms } = response;
    const [{ tokens, static: statics, contextual, attention, contributions }] = results;
    Object.assign(this, { tokens, statics, contextual, attention, contributions, text, model, layers, heads });
    this.words = tokens.map((token) => token.text);
    /** The names of the columns of contributions: the words, and what else a vector is a sum of. */
    this.parts = [...this.words, ...terms.map((term) => TERMS[term])];
    /** Whether a word occurs twice. */
    this.forms = this.words.map(folded);
    this.hasRepeated = new Set(this.forms).size < this.words.length;
    this.means = new Map();
  }

  /** Return the weights of a head, the `mean` of the layer's heads, or `[n, n + terms]` the `contributions` to each vector. */
  weights(layer, head) {
    if (head === "contributions") return this.contributions[layer];
    if (head !== "mean") return this.attention[layer][head];
    if (!this.means.has(layer)) this.means.set(layer, meanOf(this.attention[layer]));
    return this.means.get(layer);
  }

  /** Return the index of the layer in an address, a number or `last`; 0 if the model does not have it. */
  layer(value) {
    return value === "last" ? this.layers - 1 : parseIndex(value, this.layers) ?? 0;
  }

  /** Return the head in an address: a number, `mean` or `contributions`, also if the model does not have the head. */
  head(value) {
    return parseIndex(value, this.heads) ?? (value === "mean" ? "mean" : "contributions");
  }

  /**
   * Return the index of the token in an address, a number or `@` and the position where the token starts; by default of the
   * longest content word that occurs twice, else of the first content word.
   */
  token(value) {
    const at = this.tokens.findIndex(({ start }) => `@${start}` === value);
    if (at >= 0) return at;
    const repeated = this.words.map((word, i) => (this.otherOccurrence(i) === null || !isContentWord(word) ? 0 : word.length));
    const first = this.words.findIndex(isContentWord), longest = Math.max(...repeated);
    return parseIndex(value, this.words.length) ?? (longest ? repeated.indexOf(longest) : Math.max(first, 0));
  }

  /** Return the cell in an address; by default that of the largest weight of the chosen token. */
  cell({ row, column }, token, weights) {
    const query = parseIndex(row, this.words.length), key = parseIndex(column, weights[0].length);
    if (query !== null && key !== null) return { row: query, column: key };
    return { row: token, column: ranked(weights[token])[0] };
  }

  /** Return a token as an occurrence for Compare: text, word, and index among the occurrences of the word. */
  occurrence(token) {
    const word = this.words[token];
    return [this.text, word, this.words.slice(0, token).filter((other) => other === word).length];
  }

  /** Whether no word attends to an occurrence of itself in a layer. */
  isOthersOnly(layer) {
    const { forms } = this;
    return forms.length > 1 && this.attention[layer].every((rows) =>
      rows.every((row, i) => row.every((weight, j) => weight === 0 || forms[i] !== forms[j])));
  }

  /** Return the cosines of two tokens, static and in context. */
  cosines(i, j) {
    return [cosine(this.statics[i], this.statics[j]), cosine(this.contextual[i], this.contextual[j])];
  }

  /** Return 1 − cosine of the static and the contextual vector of a token; null if it has no static vector. */
  shift(i) {
    return isZero(this.statics[i]) ? null : 1 - cosine(this.statics[i], this.contextual[i]);
  }

  /** Return the index of the first other token with the same word, ignoring case; null if there is none. */
  otherOccurrence(token) {
    const at = this.forms.findIndex((form, i) => i !== token && form === this.forms[token]);
    return at < 0 ? null : at;
  }
}

/** Return the indices of a row of weights, largest weight first. */
export function ranked(row) {
  return Array.from(row, (_, i) => i).toSorted((a, b) => row[b] - row[a]);
}

/** Whether the numbers of a row are all zero. */
export const isZero = (row) => row.every((number) => number === 0);

/** Parse an index; return null if it is not a number below `count`. */
function parseIndex(value, count) {
  return /^\d{1,6}$/.test(value) && Number(value) < count ? Number(value) : null;
}

/** Return the mean of the weights of heads. */
const meanOf = (heads) => heads[0].map((row, i) => row.map((_, j) => mean(heads, (head) => head[i][j])));

/** Return the cosine of two vectors; 0 if one is zero. */
function cosine(a, b) {
  const product = a.reduce((sum, number, i) => sum + number * b[i], 0);
  return product && product / Math.hypot(...a) / Math.hypot(...b);
}

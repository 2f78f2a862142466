/** A sentence as `/v1/encode` returns it: tokens, vectors, attention weights and contributions. */

const LETTER = /[\p{L}\p{N}]/u;
const RIGHT_TO_LEFT = /^\P{L}*[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}]/u;

export class EncodedSentence {
  /** `response` is the response of `POST v1/encode` for one sentence, and `text` is the sentence. */
  constructor(response, text) {
    const [{ tokens, static: statics, contextual, attention, contributions }] = response.results;
    Object.assign(this, { tokens, statics, contextual, attention, text, usage: response.usage });
    // The columns after the words are the residual and other terms, which no word contributes.
    this.contributions = contributions.map((rows) => rows.map((row) => row.slice(0, tokens.length)));
    this.words = tokens.map((token) => token.text);
    this.direction = RIGHT_TO_LEFT.test(text) ? "rtl" : "ltr";
    this.layers = response.layers;
    this.heads = response.heads;
    this.means = new Map();
  }

  /** Return the weights of a head, the `mean` of the layer's heads, or the `contributions` of the words. `[n, n]` */
  weights(layer, head) {
    if (head === "contributions") return this.contributions[layer];
    if (head !== "mean") return this.attention[layer][head];
    if (!this.means.has(layer)) this.means.set(layer, mean(this.attention[layer]));
    return this.means.get(layer);
  }

  /** Return the index of the layer in an address; 0 if the model does not have it. */
  layer(value) {
    return parseIndex(value, this.layers) ?? 0;
  }

  /** Return the head in an address: a number, `mean` or `contributions`. */
  head(value) {
    return parseIndex(value, this.heads) ?? (["mean", "each"].includes(value) ? "mean" : "contributions");
  }

  /** Return a message if the model does not have the layer or head in the address, else "". */
  missingMessage({ layer, head }) {
    const range = (name, count) => (count === 1 ? `one ${name}` : `${name}s 0 to ${count - 1}`);
    const sentences = [];
    if (parseIndex(layer, this.layers) === null) {
      sentences.push(`This model has ${range("layer", this.layers)}: layer 0 is shown.`);
    }
    if (!["contributions", "mean", "each"].includes(head) && parseIndex(head, this.heads) === null) {
      sentences.push(`This model has ${range("head", this.heads)}: contributions are shown.`);
    }
    return sentences.join(" ");
  }

  /** Return the index of the token in an address; by default of the first with a letter or a digit, else 0. */
  token(value) {
    const first = this.words.findIndex((word) => LETTER.test(word));
    return parseIndex(value, this.words.length) ?? Math.max(first, 0);
  }

  /** Return the cell in an address; by default that of the largest weight of the chosen token. */
  cell({ row, column }, token, weights) {
    const query = parseIndex(row, this.words.length), key = parseIndex(column, this.words.length);
    if (query !== null && key !== null) return { row: query, column: key };
    return { row: token, column: ranked(weights[token])[0] };
  }

  /** Return a token as an occurrence for Compare: text, word, and index among the occurrences of the word. */
  occurrence(token) {
    const word = this.words[token];
    return [this.text, word, this.words.slice(0, token).filter((other) => other === word).length];
  }

  /** Return the index of the first other token with the same word, ignoring case; null if there is none. */
  otherOccurrence(token) {
    const same = (other) => other.toLowerCase() === this.words[token].toLowerCase();
    const at = this.words.findIndex((word, i) => i !== token && same(word));
    return at < 0 ? null : at;
  }
}

/** Return the indices of a row of weights, largest weight first. */
export function ranked(row) {
  return Array.from(row, (_, i) => i).toSorted((a, b) => row[b] - row[a]);
}

/** Parse an index; return null if it is not a number below `count`. */
function parseIndex(value, count) {
  return /^\d{1,6}$/.test(value) && Number(value) < count ? Number(value) : null;
}

function mean(heads) {
  return heads[0].map((first, i) => {
    const row = Float64Array.from(first);
    for (const head of heads.slice(1)) head[i].forEach((weight, j) => { row[j] += weight; });
    return row.map((sum) => sum / heads.length);
  });
}

/** What the service read in a sentence: its tokens, their vectors, and who looks at whom. */

const SPOKEN = /[\p{L}\p{N}]/u;
const RIGHT_TO_LEFT = /^\P{L}*[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}]/u;

export class Reading {
  /** `answer`: of `POST v1/encode`, for one sentence; `text`: the sentence. */
  constructor(answer, text) {
    const [{ tokens, static: statics, contextual, attention }] = answer.results;
    Object.assign(this, { tokens, statics, contextual, attention, text, usage: answer.usage });
    this.words = tokens.map((token) => token.text);
    this.direction = RIGHT_TO_LEFT.test(text) ? "rtl" : "ltr";
    this.layers = answer.layers;
    this.heads = answer.heads;
    this.means = new Map();
  }

  /** The weights of a head, `[n, n]`; `mean` is the mean of the layer's heads. */
  weights(layer, head) {
    if (head !== "mean") return this.attention[layer][head];
    if (!this.means.has(layer)) this.means.set(layer, mean(this.attention[layer]));
    return this.means.get(layer);
  }

  /** The layer that an address names; the first where it names none of them. */
  layer(said) {
    return within(said, this.layers) ?? 0;
  }

  /** The head that an address names, a number or `mean`. */
  head(said) {
    return within(said, this.heads) ?? "mean";
  }

  /** What an address names that this model has not, in words; empty where there is nothing. */
  lacking({ layer, head }) {
    const sentences = [];
    if (within(layer, this.layers) === null) {
      sentences.push(`This model has ${these("layer", this.layers)}: layer 0 is shown.`);
    }
    if (!["mean", "each"].includes(head) && within(head, this.heads) === null) {
      sentences.push(`This model has ${these("head", this.heads)}: the mean of heads is shown.`);
    }
    return sentences.join(" ");
  }

  /** The token that an address names; else the first that is not punctuation. */
  token(said) {
    const spoken = this.words.findIndex((word) => SPOKEN.test(word));
    return within(said, this.words.length) ?? Math.max(spoken, 0);
  }

  /** The cell that an address names; else where the chosen word looks most. */
  cell({ row, column }, word, weights) {
    const chosen = within(row, this.words.length), other = within(column, this.words.length);
    if (chosen !== null && other !== null) return { row: chosen, column: other };
    return { row: word, column: ranked(weights[word])[0] };
  }

  /** How often the word was written, letter for letter, before this token. */
  nth(token) {
    return this.words.slice(0, token).filter((word) => word === this.words[token]).length;
  }

  /** The next token with the same letters, whatever their case; null where there is none. */
  twin(token) {
    const same = (other) => other.toLowerCase() === this.words[token].toLowerCase();
    const at = this.words.findIndex((word, i) => i !== token && same(word));
    return at < 0 ? null : at;
  }
}

/** The numbers of a row's columns, the largest weight first. */
export function ranked(row) {
  return Array.from(row, (_, i) => i).toSorted((a, b) => row[b] - row[a]);
}

const these = (name, many) => (many === 1 ? `one ${name}` : `${name}s 0 to ${many - 1}`);

function within(said, count) {
  return /^\d{1,6}$/.test(said) && Number(said) < count ? Number(said) : null;
}

function mean(heads) {
  return heads[0].map((first, i) => {
    const row = Float64Array.from(first);
    for (const head of heads.slice(1)) head[i].forEach((weight, j) => { row[j] += weight; });
    return row.map((sum) => sum / heads.length);
  });
}

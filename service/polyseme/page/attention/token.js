/** The chosen token: what its contextual vector is a sum of, and its vectors. */

import { isZero, ranked } from "./sentence.js";
import { bars } from "../bars.js";
import { theme } from "../colors.js";
import { changeDetector, h } from "../elements.js";
import { Figure } from "../figure.js";
import { decimals, short, shorten } from "../text.js";
import { areOneInLower, missingMeaning } from "../words.js";

/** The maximum number of parts that are listed. */
const MAX_PARTS = 8;
/** The number of dimensions of the summary of a vector. */
const SUMMARY = 5;

export class TokenFigures {
  constructor(page) {
    this.page = page;
    this.parts = new Figure("polyseme-contributions", "Contributions", "each bar is a part of the sum");
    this.changed = changeDetector();
    this.headline = h("strong", {});
    this.summary = h("p", {});
    this.numbers = h("pre", { tabindex: "0", "aria-label": "Vectors" });
    this.compare = h("a", {}, "Compare this occurrence…");
    /** The result in a sentence, which is above the other results. */
    this.result = h("p", {}, this.headline, " ", this.compare);
    this.element = h("section", { class: "card", "aria-label": "Vectors" },
      this.summary, h("details", {}, h("summary", {}, "All numbers of both vectors"), this.numbers));
  }

  /** Show a token of a sentence that was encoded with the model and case of the state. */
  show(encoded, token, { layer, model, case: letterCase }) {
    const other = encoded.otherOccurrence(token);
    // Compare needs two occurrences. If there is only one, the reader types the other.
    const occurrences = [encoded.occurrence(token), other === null ? ["", "", 0] : encoded.occurrence(other)];
    this.compare.href = this.page.address("compare", { occurrences: JSON.stringify(occurrences), model, case: letterCase });
    const chosen = encoded.layer(layer);
    if (!this.changed(encoded, token, chosen, theme(), this.parts.width())) return;
    this.#drawParts(encoded, token, chosen);
    this.#showVectors(encoded, token, other);
  }

  #drawParts(encoded, token, layer) {
    const word = shorten(encoded.words[token]), row = encoded.weights(layer, "contributions")[token];
    const largest = ranked(row.map(Math.abs)).slice(0, MAX_PARTS).filter((i) => row[i] !== 0);
    const rows = largest.map((i) => ({ word: encoded.parts[i], value: row[i] }));
    this.parts.heading.replaceChildren(h("bdi", {}, word), " is made of");
    this.parts.caption.textContent = isZero(row) ? "Its vector is zero, so it has no parts: no word that it attends to is known."
      : `The largest parts of the sum that is its ${
      encoded.layers > 1 ? `input of layer ${layer} and the attention there` : "vector"}, all heads together. “The word itself” is what it keeps without attention; a fixed`
      + " vector, if there is one, is added to every word. All parts sum to 1; a negative one pulls the vector away.";
    this.parts.show(bars(rows, {
      width: this.parts.width(),
      name: `${word} is made of ${rows.map((part) => `${shorten(part.word)}: ${short(part.value)}`).join(", ")}`,
    }));
  }

  /** Show the vectors in a sentence, and their numbers on request. */
  #showVectors(encoded, token, other) {
    const word = shorten(encoded.words[token]), shift = encoded.shift(token);
    const vectors = { static: encoded.statics[token], contextual: encoded.contextual[token] };
    if (other === null) {
      this.headline.textContent = shift === null
        ? `${word} has no static vector; its contextual vector ${vectors.contextual.some((number) => number) ? "is made without one" : "is zero, too"}.`
        : `${word}: cosine ${short(1 - shift)} of its static and its contextual vector.`;
    } else {
      const [before, after] = encoded.cosines(token, other);
      const notes = pairNotes([encoded.tokens[token], encoded.tokens[other]]), { forms } = encoded;
      const count = forms.filter((form) => form === forms[token]).length;
      if (count > 2) notes.unshift(`with the first other one of ${count}`);
      this.headline.textContent = `${word} and ${shorten(encoded.words[other])}: ${short(before)} static, ${short(after)} in context${
        notes.length ? ` (${notes.join("; ")})` : ""}`;
    }
    const start = ([name, vector]) =>
      `${name} (${Array.from(vector.slice(0, SUMMARY), (number) => decimals(number, 2)).join(", ")}, …)`;
    this.summary.textContent = `${word} has two vectors of ${vectors.static.length} numbers: ${
      Object.entries(vectors).map(start).join(" and ")}.`;
    this.numbers.textContent = Object.entries(vectors)
      .map(([name, vector]) => `${name}\n${Array.from(vector, (number) => decimals(number, 4)).join(" ")}`).join("\n\n");
  }
}

/** Return what explains the static cosine of two forms of a word. */
function pairNotes(tokens) {
  const known = tokens.map(({ key }) => key).filter((key) => key !== null), areTwo = known.length > 1 && known[0] !== known[1];
  const missing = new Map(tokens.filter(missingMeaning).map((token) => [shorten(token.text), missingMeaning(token)]));
  return [
    areTwo && `two words of the vocabulary${areOneInLower(known) ? "; with the case “lower”, they are one" : ""}`,
    ...Array.from(missing, ([word, meaning]) => `${word} is ${meaning}`),
  ].filter(Boolean);
}

/** The view Attention: a sentence, its tokens, the attention between them, and their vectors. */

import { EncodedSentence, isZero, ranked } from "./sentence.js";
import { AttentionFigure } from "./weights.js";
import { bars } from "../bars.js";
import { theme } from "../colors.js";
import {
  afterPause, caseField, changeDetector, exampleField, formElement, h, modelAndCase, modelField, optionDetails, textField, viewElement,
} from "../elements.js";
import { SENTENCES } from "../examples.js";
import { Exchange } from "../exchange.js";
import { Figure } from "../figure.js";
import { TableDetails } from "../table.js";
import { count, decimals, short, shorten } from "../text.js";
import { areOneInLower, missingMeaning, WordButtons } from "../words.js";

export const title = "Attention";
export const defaults = {
  text: SENTENCES[0].state.text, model: "", case: "auto", layer: "0", head: "contributions", picture: "heatmap",
  word: "", row: "", column: "",
};

/** Thumbnails of up to 5 layers and 4 heads fit beside the figure; more are above it. */
const MAX_BESIDE = 5;

export class View {
  constructor(page) {
    this.exchange = new Exchange("polyseme-encode");
    this.form = new SentenceForm(page);
    this.attention = new AttentionFigure(page);
    this.token = new TokenFigures(page);
    this.words = new WordButtons((i) => page.update({ word: String(i) }));
    this.usage = h("span", { class: "usage" });
    this.table = new TableDetails("These numbers as a table", 3);
    this.main = h("div", { class: "main" },
      this.attention.figure.element,
      h("div", { class: "beside" }, this.attention.chooser, this.token.parts.element));
    this.element = viewElement(title,
      "A word has one static vector; attention to the other words of a sentence turns it into a contextual vector.",
      this.form.element, this.exchange,
      h("section", { class: "card", "aria-label": "Words" }, this.token.result, this.words.element,
        h("p", { class: "muted" }, this.usage, " Choose a word to see its attention and its vectors.")),
      this.main, this.token.element, h("div", { class: "card" }, this.table.element),
    );
  }

  async show(state) {
    this.form.show(state);
    if (!state.text.trim()) return this.exchange.clear("Type a sentence to see the attention between its words.");
    const response = await this.exchange.request("v1/encode", {
      input: state.text,
      include: ["static", "contextual", "attention", "contributions"],
      ...modelAndCase(state),
    });
    if (!response) return;
    if (response !== this.response) this.encoded = new EncodedSentence(response, state.text);
    this.response = response;
    const { encoded } = this;
    if (!encoded.words.length) return this.exchange.clear("This sentence contains no word.");
    const token = encoded.token(state.word);
    this.form.chosen = state.word === "" ? null : encoded.tokens[token];
    this.main.classList.toggle("many", encoded.heads >= MAX_BESIDE || encoded.layers > MAX_BESIDE);
    this.words.show(encoded.tokens, token);
    this.usage.textContent = usageText(encoded.tokens, response.usage.oov, state.case);
    this.attention.show(encoded, state, token);
    this.token.show(encoded, token, state);
    const { columns, weights, weightsName } = this.attention;
    const caption = `${weightsName}: query words in rows, key words in columns`;
    this.table.show([{ caption, columns, rows: encoded.words, numbers: weights }]);
  }
}

/** The form: the sentence, the case and the model. */
class SentenceForm {
  constructor(page) {
    this.page = page;
    /** The token that the reader chose, null for none. */
    this.chosen = null;
    this.typing = afterPause(() => this.#show(true));
    this.sentence = textField("text", "Sentence", {
      rows: 2,
      oninput: this.typing,
      onkeydown: (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        this.#show(false);
      },
    }, "textarea");
    this.examples = exampleField(page, SENTENCES, { reset: { word: "", row: "", column: "" } });
    this.options = optionDetails(caseField(page), modelField(page));
    this.element = formElement(
      "card sentence",
      () => this.#show(false),
      this.examples.element,
      h("div", { class: "controls" }, this.sentence.element, h("button", {}, "Show attention")),
      this.options.element,
    );
  }

  show(state) {
    if (state.text !== this.text) this.typing.cancel();
    this.text = state.text;
    for (const field of [this.sentence, this.options]) field.show(state);
    this.examples.show(state, this.edited?.text === state.text ? this.edited.note : "");
  }

  /** Show the typed sentence. All states of a sentence that is being typed are one entry of the history. */
  #show(isTyping) {
    this.typing.cancel();
    const { value: text } = this.sentence.input;
    const isNew = text !== this.text, push = isNew && this.text !== this.typed;
    this.typed = isTyping ? text : null;
    // The chosen cell belongs to the previous sentence, and the chosen token unless the edit is elsewhere.
    if (isNew) this.chosen &&= afterEdit(this.chosen, [...this.text], [...text]);
    if (isNew && this.chosen) this.edited = { text, note: this.examples.note() };
    const word = this.chosen ? `@${this.chosen.start}` : "";
    this.page.update(isNew ? { text, word, row: "", column: "" } : {}, { push });
  }
}

/** Return where a token `{start, end}` is after an edit beside it or inside it; null after a larger edit. */
function afterEdit({ start, end }, before, after) {
  const added = after.length - before.length;
  const first = before.findIndex((letter, i) => letter !== after[i]);
  const last = before.findLastIndex((letter, i) => letter !== after[i + added]);
  if (first < 0 || end <= first) return { start, end };
  if (start > last) return { start: start + added, end: end + added };
  return start <= first && last < end ? { start, end: end + added } : null;
}

/** Return a sentence with the number of words, and what happens to unknown words. */
function usageText(tokens, unknown, letterCase) {
  const composed = tokens.filter(({ resolution }) => resolution === "subword").length;
  // If no word is known, each attends to itself.
  const attention = unknown === tokens.length ? "each attends to itself" : "no word attends to them";
  const missing = [unknown && `${count(unknown)} unknown`, composed && `${count(composed)} composed of subwords`].filter(Boolean);
  return [
    `${tokens.length === 1 ? "1 word or mark" : `${count(tokens.length)} words and marks`}, ${missing.join(" and ") || "none unknown"}.`,
    letterCase === "lower" ? "Capitals are ignored: under Options, the case is “lower”." : "",
    unknown ? `Static vectors of unknown words are zero, and ${attention}.` : "",
  ].filter(Boolean).join(" ");
}

/** The maximum number of parts that are listed. */
const MAX_PARTS = 8;
/** The number of dimensions of the summary of a vector. */
const SUMMARY = 5;

class TokenFigures {
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
      const { length } = forms.filter((form) => form === forms[token]);
      if (length > 2) notes.unshift(`with the first other one of ${length}`);
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

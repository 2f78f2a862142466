/** The card of each sense, and the chosen occurrence with its sentence. */

import { senseMark } from "./map.js";
import { TokenCache, wordAt } from "../compare/occurrences.js";
import { h, labeled, modelAndCase, s } from "../elements.js";
import { count, decimals, percent, short } from "../text.js";
import { quotation, wordList } from "../words.js";

/** The maximum number of characters of a label. */
const MAX_LABEL = 100;
/** The maximum number of words of an example that are listed. */
const MAX_WORDS = 4;

/** The mark of a sense beside text. */
function markOf(sense) {
  return s("svg", { class: "sense-mark", viewBox: "-10 -10 20 20", width: 20, height: 20, "aria-hidden": "true" }, senseMark(sense));
}

/** The cards of the senses. */
export class SenseCards {
  /** The text fields of the labels. */
  #fields = [];

  constructor(page) {
    this.page = page;
    this.element = h("div", { class: "sense-cards" });
  }

  /** Show the senses of a response. */
  show(response, sentences, settings) {
    if (response !== this.response) this.#fields = [];
    Object.assign(this, { response, sentences, settings });
    this.#draw();
  }

  #draw() {
    const focused = this.element.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const { senses } = this.response;
    this.element.replaceChildren(...senses.map((sense) => this.#card(sense)));
    if (focused) [...this.element.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  }

  /** Return the labels of the reader, "" for a sense without one. */
  labels() {
    return this.response.senses.map(({ id }) => this.#fields[id]?.value.trim() ?? "");
  }

  #card({ id, size, proportion, keywords, neighbors, examples, evidence }) {
    const largest = Math.max(...this.response.senses.flatMap((sense) => sense.keywords.map(({ weight }) => weight)));
    const neighborsOf = (word) => this.page.address("neighbors", { ...modelAndCase(this.settings), word });
    const list = (title, rows) => h("div", {}, h("h4", {}, title),
      rows.length ? wordList(rows, id) : h("p", { class: "muted" }, "None."));
    return h(
      "article",
      { class: "card sense-card", "aria-label": `Sense ${id + 1}` },
      h("h3", {}, markOf(id), `Sense ${id + 1}`),
      labeled("Label", this.#label(id)),
      h("p", {}, h("strong", {}, percent(proportion)), ` of the occurrences (${count(size)})`),
      h(
        "div",
        { class: "sides" },
        list("Keywords", keywords.map(({ word, weight }) =>
          ({ word, value: weight / largest, text: decimals(weight, 3) }))),
        list("Nearest words", neighbors.map(({ word, similarity }) =>
          ({ word, value: similarity, text: short(similarity), href: neighborsOf(word) }))),
      ),
      h("h4", {}, "Examples"),
      h("ul", { class: "examples" }, examples.map((i, number) => this.#example(i, evidence[number]))),
    );
  }

  /** Return the text field for the label of a sense, which keeps its text when the card is drawn again. */
  #label(id) {
    const value = this.#fields[id]?.value ?? "";
    const field = h("input", { type: "text", maxlength: MAX_LABEL, value, autocomplete: "off", dir: "auto" });
    this.#fields[id] = field;
    return field;
  }

  /** Show an example; words that speak for the sense are marked, and the strongest are listed. */
  #example(i, evidence) {
    const { occurrences } = this.response;
    const speaking = evidence.filter(({ weight }) => weight > 0);
    const sum = speaking.reduce((total, { weight }) => total + weight, 0);
    const marked = speaking.map((word) => ({ ...word, weight: word.weight / sum }));
    return h(
      "li",
      {},
      quotation(this.sentences[occurrences[i].text], occurrences[i], marked),
      marked.length ? h("p", { class: "status" }, "For this sense: ", marked.slice(0, MAX_WORDS).flatMap(({ word, weight }, place) =>
        [place ? ", " : "", h("bdi", {}, word), ` ${short(weight)}`])) : null,
    );
  }
}

/** The chosen occurrence: its sentence, sense and confidence, and links to other views. */
export class ChosenOccurrence {
  constructor(page) {
    this.page = page;
    this.tokens = new TokenCache();
    this.element = h("section", { class: "chosen-occurrence", role: "status", "aria-label": "Chosen occurrence" });
  }

  /** Show occurrence i of a response; nothing if there is none. */
  async show(response, sentences, i, settings) {
    const occurrence = response.occurrences[i];
    this.shown = occurrence;
    if (!occurrence) return this.element.replaceChildren();
    const text = sentences[occurrence.text];
    const other = otherOccurrence(response, i);
    const state = { case: "auto", model: settings.model };
    const texts = [text, ...(other ? [sentences[other.text]] : [])];
    const tokens = await this.tokens.load(texts, state);
    // Another occurrence was chosen in the meantime.
    if (occurrence !== this.shown) return;
    this.element.replaceChildren(
      h("p", {}, markOf(occurrence.sense), ` Sense ${occurrence.sense + 1}, confidence ${short(occurrence.confidence)}`),
      quotation(text, occurrence),
      this.#links({ text, occurrence, tokens: tokens[0] ?? [] }, other && { text: texts[1], occurrence: other, tokens: tokens[1] ?? [] }, settings),
    );
  }

  /** Return links to Attention, and to Compare with another occurrence. */
  #links(chosen, other, { model }) {
    const indexOf = ({ occurrence, tokens }) => tokens.findIndex(({ start }) => start === occurrence.start);
    const row = (side) => {
      const index = side ? indexOf(side) : -1;
      if (index < 0) return ["", "", 0];
      const { word, nth } = wordAt(index, side.tokens);
      return [side.text, word, nth];
    };
    const index = indexOf(chosen);
    if (index < 0) return "";
    const link = (view, state, text) => h("a", { href: this.page.address(view, { ...state, model }) }, text);
    return h("p", { class: "links" },
      link("attention", { text: chosen.text, word: String(index) }, "Open in Attention"), " · ",
      link("compare", { occurrences: JSON.stringify([row(chosen), row(other)]) }, "Open in Compare"));
  }
}

/** Return the occurrence to compare occurrence i with: the most typical one of another sense, else of the same sense. */
function otherOccurrence({ senses, occurrences }, i) {
  const others = senses.filter(({ id }) => id !== occurrences[i].sense);
  const typical = [...others, ...senses].flatMap(({ examples }) => examples).find((example) => example !== i);
  return typical === undefined ? null : occurrences[typical];
}

/** The card of each sense, and the chosen occurrence with its sentence. */

import { senseMark } from "./map.js";
import { OccurrenceTokens, wordAt } from "../compare/occurrences.js";
import { fetchText, ServiceError } from "../client.js";
import { h, labeled, modelAndCase, s } from "../elements.js";
import { count, decimals, percent, short } from "../text.js";
import { quotation, wordList } from "../words.js";

/** The maximum length of an example whose attention is requested: attention has a weight for each pair of words. */
const MAX_ENCODED = 2000;
/** The maximum number of characters of a label. */
const MAX_LABEL = 100;
/** The maximum number of attended words that are listed, and the minimum weight of a listed or marked one. */
const MAX_ATTENDED = 4, MIN_WEIGHT = 0.02;

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

  /**
   * Show the senses of a response. The attention of the examples is requested after the cards are shown,
   * in one request for each card.
   */
  async show(response, sentences, settings) {
    const isNew = response !== this.response;
    Object.assign(this, { response, sentences, settings });
    if (!isNew) return this.#draw();
    this.aborter?.abort();
    const { signal } = this.aborter = new AbortController();
    this.attended = new Map();
    this.#fields = [];
    this.#draw();
    this.element.setAttribute("aria-busy", "true");
    try {
      for (const { id, examples } of response.senses) {
        await this.#load(examples, signal);
        if (signal.aborted) return;
        this.element.children[id].querySelector(".examples").replaceWith(this.#examples(examples));
      }
    } catch (error) {
      // The cards are shown without the attention.
      if (!signal.aborted && !(error instanceof ServiceError)) reportError(error);
    } finally {
      if (!signal.aborted) this.element.removeAttribute("aria-busy");
    }
  }

  /** Request the weights with which the examples attend to the other words of their sentences. */
  async #load(examples, signal) {
    const { occurrences } = this.response;
    const encoded = examples.filter((i) => this.sentences[occurrences[i].text].length <= MAX_ENCODED);
    if (!encoded.length) return;
    const { results } = JSON.parse(await fetchText("v1/encode", {
      input: encoded.map((i) => this.sentences[occurrences[i].text]),
      include: ["attention"], layers: "last", heads: "mean", ...modelAndCase(this.settings),
    }, signal));
    if (signal.aborted) return;
    encoded.forEach((i, number) => {
      const { tokens, attention } = results[number];
      const row = tokens.findIndex(({ start }) => start === occurrences[i].start);
      if (row < 0) return;
      const weighted = tokens.map((token, column) => ({ ...token, weight: attention[0][row][column] }));
      this.attended.set(i, weighted.filter((_, column) => column !== row));
    });
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

  #card({ id, size, proportion, keywords, neighbors, examples }) {
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
      this.#examples(examples),
    );
  }

  /** Return the text field for the label of a sense, which keeps its text when the card is drawn again. */
  #label(id) {
    const value = this.#fields[id]?.value ?? "";
    const field = h("input", { type: "text", maxlength: MAX_LABEL, value, autocomplete: "off", dir: "auto" });
    this.#fields[id] = field;
    return field;
  }

  #examples(examples) {
    return h("ul", { class: "examples" }, examples.map((i) => this.#example(i)));
  }

  #example(i) {
    const { occurrences } = this.response;
    const attended = (this.attended.get(i) ?? []).filter(({ weight }) => weight >= MIN_WEIGHT);
    const most = attended.toSorted((a, b) => b.weight - a.weight).slice(0, MAX_ATTENDED);
    return h(
      "li",
      {},
      quotation(this.sentences[occurrences[i].text], occurrences[i], attended),
      most.length ? h("p", { class: "status" }, "Attends to ", most.flatMap(({ text, weight }, place) =>
        [place ? ", " : "", h("bdi", {}, text), ` ${short(weight)}`])) : null,
    );
  }
}

/** The chosen occurrence: its sentence, sense and confidence, and links to other views. */
export class ChosenOccurrence {
  constructor(page) {
    this.page = page;
    this.tokens = new OccurrenceTokens();
    this.element = h("section", { class: "chosen-occurrence", role: "status", "aria-label": "Chosen occurrence" });
  }

  /** Show occurrence i of a response; nothing if there is none. */
  async show(response, sentences, i, settings) {
    const occurrence = response.occurrences[i];
    if (!occurrence) {
      // Cancel the request for the previous occurrence.
      this.tokens.load([], settings, "chosen");
      return this.element.replaceChildren();
    }
    const text = sentences[occurrence.text];
    const other = otherOccurrence(response, i);
    const state = { case: "auto", model: settings.model };
    const texts = [text, ...(other ? [sentences[other.text]] : [])];
    const tokens = await this.tokens.load(texts, state, "chosen");
    // Another occurrence was chosen in the meantime.
    if (!tokens) return;
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

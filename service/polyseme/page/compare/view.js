/** The view Compare: a word in two to eight sentences, with its static and its contextual vectors. */

import { badge, CompareForm, emptySentence } from "./form.js";
import { mapDrawing, mapPoints } from "./map.js";
import { OccurrenceTokens, parseOccurrences } from "./occurrences.js";
import { notesWithLetters, similarityMatrices, similaritySentence, similarityTables } from "./similarity.js";
import { countOf, h, modelAndCase, pointAt, viewElement } from "../elements.js";
import { OCCURRENCES } from "../examples.js";
import { Exchange } from "../exchange.js";
import { Figure } from "../figure.js";
import { letter, percent, short } from "../text.js";
import { quotation, wordList } from "../words.js";

/** Build the view. It is built once. */
export const build = (page) => new CompareView(page);

class CompareView {
  constructor(page) {
    this.page = page;
    this.tokens = new OccurrenceTokens();
    this.form = new CompareForm(page, (texts) => this.tokens.load(texts, this.state, "form"));
    this.fallback = h("p", { class: "muted", role: "status" });
    this.results = h("div", { class: "results" });
    this.exchange = new Exchange("polyseme-compare", this.results);
    this.matrices = new Figure("polyseme-compare-similarity", "Similarity");
    this.notes = h("ul", { class: "notes" });
    this.map = new Figure("polyseme-compare-map", "Map");
    this.pointed = h("output", { class: "pointed" });
    this.map.element.append(h("p", { class: "pointing" }, this.pointed,
      h("span", {}, pointAt("a mark to read its name", "focus the map and use the arrow keys"))));
    this.cards = h("div", { class: "occurrence-cards" });
    this.results.append(
      this.matrices.element, this.notes, this.map.element, this.cards, this.exchange.source,
    );
    this.element = viewElement("Compare", "A word has the same static vector in every sentence. Its contextual vectors differ,"
      + " which separates its senses. Choose an example, or type sentences and press the word to compare in each.",
    this.form.element, this.fallback, this.exchange.problem, this.results);
  }

  async show(state) {
    this.state = state;
    const given = parseOccurrences(state.occurrences);
    this.fallback.textContent = given ? ""
      : "The address does not contain valid occurrences, so the first example is shown.";
    const occurrences = given ?? parseOccurrences(OCCURRENCES[0][1]);
    this.form.show(occurrences, state);
    await Promise.all([this.#showTokens(occurrences, state), this.#compare(occurrences, state)]);
  }

  async #showTokens(occurrences, state) {
    const tokens = await this.tokens.load(occurrences.map(({ text }) => text), state, "view");
    if (!tokens || state !== this.state) return;
    this.form.showTokens(tokens);
    this.drawCards?.();
  }

  async #compare(occurrences, state) {
    const empty = emptySentence(occurrences);
    if (empty) return this.exchange.clear(empty);
    const response = await this.exchange.request("v1/compare", {
      occurrences: occurrences.map(({ text, word, nth }) => ({ text, word, ...(nth && { nth }) })),
      neighbors: countOf(state.k),
      map: true,
      ...(state.share && { share: countOf(state.share) }),
      ...modelAndCase(state),
    });
    if (response && state === this.state) this.#draw(response, occurrences);
  }

  #draw(response, occurrences) {
    const words = response.occurrences.map(({ token }) => token.text);
    const panels = [["Static", response.static_similarity], ["In context", response.contextual_similarity]];
    // Keep the tables open if the reader opened them.
    const open = this.matrices.body.querySelector("details")?.open;
    this.matrices.caption.textContent = similaritySentence(response);
    this.matrices.show(similarityMatrices(panels, words, this.matrices.width()), similarityTables(panels, words, open));
    this.notes.replaceChildren(...notesWithLetters(response).map((note) => h("li", {}, note)));
    this.notes.hidden = !response.notes.length;
    this.#drawMap(response, words);
    this.drawCards = () => this.cards.replaceChildren(...response.occurrences.map((compared, i) =>
      occurrenceCard(i, compared, occurrences[i].text, {
        word: (word) => this.#neighborsOf(word),
        attention: () => this.#attentionOf(occurrences[i].text, compared.token),
      })));
    this.drawCards();
    this.exchange.announce(`Compared: ${this.matrices.caption.textContent}`);
    this.exchange.reportDrawn();
  }

  #drawMap(response, words) {
    const [first, second] = response.map.explained_variance_ratio;
    this.map.caption.textContent = "The first two principal components of the unit vectors, with"
      + ` ${percent(first + second)} of their variance.${this.state.share ? ""
        : " The neighbors of a contextual vector are searched from a point slightly closer to the static vector; the"
        + " map shows that point."}`;
    this.pointed.replaceChildren();
    const points = mapPoints(response);
    if (!points.length) return this.map.show(null);
    this.map.show(mapDrawing(points, {
      width: this.map.width(),
      words,
      onpoint: (name) => { this.pointed.textContent = name; },
      onpick: (word) => { location.hash = this.#neighborsOf(word); },
    }));
  }

  #neighborsOf(word) {
    return this.page.address("neighbors", { ...modelAndCase(this.state), word });
  }

  /** Return the address of an occurrence in the view Attention, or null if its token is not known yet. */
  #attentionOf(text, { start }) {
    const token = this.tokens.indexAt(text, start, this.state);
    return token < 0 ? null
      : this.page.address("attention", { ...modelAndCase(this.state), text, word: String(token) });
  }
}

/**
 * Return the card of occurrence i: `compared` is its part of the response, `text` its sentence. `links` has
 * functions that return addresses: `word(word)`, and `attention()`, which may return null.
 */
function occurrenceCard(i, compared, text, links) {
  const { token, shift, static_neighbors: before, contextual_neighbors: after } = compared;
  const both = new Set(before.map(({ word }) => word).filter((word) => after.some((near) => near.word === word)));
  const unknown = token.resolution === "oov";
  const attention = links.attention();
  const neighborList = (title, neighbors, missing) => h("div", {}, h("h4", {}, title), neighbors.length
    ? wordList(neighbors.map(({ word, similarity }) => ({
      word, value: similarity, text: short(similarity), href: links.word(word), note: both.has(word) ? "in both" : null,
    })), i)
    : h("p", { class: "muted" }, unknown ? missing : "None requested."));
  return h(
    "article",
    { class: "card occurrence-card", "aria-label": `${letter(i)}: ${token.text}` },
    h("h3", {}, badge(i), h("span", { class: "visually-hidden" }, ": "), h("bdi", {}, token.text)),
    quotation(text, token),
    unknown
      ? h("p", {}, "This word has no static vector. Its contextual vector comes from its context.")
      : h("p", {}, "Shift ", h("strong", { class: "number" }, short(shift)),
        h("span", { class: "muted" }, " (1 − cosine of the static and the contextual vector).")),
    h(
      "div",
      { class: "sides" },
      neighborList("Static neighbors", before, "No static vector."),
      neighborList("Contextual neighbors", after, "No contextual vector."),
    ),
    h("h4", {}, "Attends to"),
    wordList(compared.attends_to.map(({ text: word, weight }) => ({ word, value: weight, text: short(weight) })), i,
      "near wide-words"),
    attention && h("p", {}, h("a", { href: attention }, "Open in Attention")),
  );
}

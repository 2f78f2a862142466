/** The view Compare: a word in two to eight sentences, with its static and its contextual vectors. */

import { badge, CompareForm, emptySentence } from "./form.js";
import { mapDrawing, mapPoints } from "./map.js";
import { parseOccurrences, withWords } from "./occurrences.js";
import { headline, notesOf, similarityMatrices } from "./similarity.js";
import { countOf, h, modelAndCase, pointAt, viewElement } from "../elements.js";
import { OCCURRENCES } from "../examples.js";
import { Exchange } from "../exchange.js";
import { Figure } from "../figure.js";
import { TableDetails } from "../table.js";
import { letter, percent, short } from "../text.js";
import { quotation, wordList } from "../words.js";

export const title = "Compare";
export const defaults = { occurrences: OCCURRENCES[0].state.occurrences, model: "", second: "", case: "auto", k: "8", share: "" };

const LEFT_OUT = "The lists and the map leave out the word itself in capitals and small letters (Bank beside bank);"
  + " near a contextual vector, all words of its sentence likewise. They are often nearer than those listed.";

export class View {
  constructor(page) {
    this.page = page;
    this.tokens = new Exchange("polyseme-tokens");
    this.form = new CompareForm(page);
    this.fallback = h("p", { class: "muted", role: "status" });
    this.exchange = new Exchange("polyseme-compare");
    this.similarity = new Similarity("");
    this.secondExchange = new Exchange("polyseme-compare-second", { name: "second" });
    this.secondSimilarity = new Similarity("-second");
    this.secondExchange.results.append(this.secondSimilarity.element);
    this.notes = h("ul", { class: "notes" });
    this.map = new Figure("polyseme-compare-map", "Map", "x: first, y: second principal component");
    this.pointed = h("output", { class: "pointed" });
    this.map.element.append(h("p", { class: "pointing" }, this.pointed,
      h("span", {}, pointAt("a mark to read its name", "focus the map and use the arrow keys"))));
    this.cards = h("div", { class: "occurrence-cards" });
    this.element = viewElement(title,
      "One word in several sentences: its static vector is the same, its contextual vectors differ.",
      [this.form.element, this.fallback], this.exchange,
      h("div", { class: "models-beside" }, this.similarity.element,
        h("div", {}, this.secondExchange.problem, this.secondExchange.results)),
      this.notes, this.map.element, h("p", { class: "muted" }, LEFT_OUT), this.cards,
    );
  }

  async show(state) {
    this.state = state;
    const given = parseOccurrences(state.occurrences);
    this.fallback.textContent = given ? ""
      : "The address does not contain valid occurrences, so the first example is shown.";
    const occurrences = given ?? parseOccurrences(OCCURRENCES[0].state.occurrences);
    this.form.show(occurrences, state);
    const tokens = await this.#tokensOf(occurrences.map(({ text }) => text), state);
    if (state !== this.state) return;
    const compared = withWords(occurrences, tokens);
    this.form.showTokens(tokens, compared);
    const empty = emptySentence(occurrences);
    if (empty) return this.exchange.clear(empty);
    const request = {
      occurrences: compared.map(({ text, word, nth }) => ({ text, word, ...(nth && { nth }) })),
      neighbors: countOf(state.k),
      map: true,
      ...(state.share && { share: countOf(state.share) }),
      ...modelAndCase(state),
    };
    if (!state.second) this.secondExchange.clear("");
    const [response, second] = await Promise.all([
      this.exchange.request("v1/compare", request),
      state.second ? this.secondExchange.request("v1/compare", { ...request, model: state.second }) : null,
    ]);
    if (response && state === this.state) this.#draw(response, second, compared);
  }

  /** Return the service's tokens of each sentence, null for an empty one and after an error, which the comparison shows. */
  async #tokensOf(texts, state) {
    const input = texts.filter((text) => text.trim());
    const response = input.length ? await this.tokens.request("v1/encode", { input, include: [], ...modelAndCase(state) }) : null;
    if (response && !response.results) this.tokens.clear("");
    return texts.map((text) => response?.results?.[input.indexOf(text)]?.tokens ?? null);
  }

  #draw(response, second, occurrences) {
    const words = response.occurrences.map(({ token }) => token.text);
    this.similarity.show(response, words, second ? `${response.model}: ` : "");
    if (second) this.secondSimilarity.show(second, words, `${second.model}: `);
    const notes = notesOf(response);
    if (second) notes.push(`The map and the cards below are those of ${response.model}.`);
    this.notes.replaceChildren(...notes.map((note) => h("li", {}, note)));
    this.#drawMap(response, words);
    this.cards.replaceChildren(...occurrences.map(({ text }, i) => this.#card(response, i, text)));
    this.exchange.announce(`Compared: ${headline(response)}`);
  }

  #drawMap(response, words) {
    const [first, second] = response.map.explained_variance_ratio;
    const isStatic = response.static_similarity.map((row, i) => row[i] > 0);
    this.map.caption.textContent = "The map is a projection: its axes are the first two principal components, with"
      + ` ${percent(first + second)} of the variance. Near points may differ; the cosines above are exact.${this.state.share || !isStatic.includes(true) ? ""
        : " The neighbors of a contextual vector are searched from a point between it and the static vector, which the map shows:"
        + " its direction plus 0.4 times the static one. Their cosines are those with this point, not with the contextual vector."
        + (isStatic.includes(false) ? " A word without a static vector has those of its contextual vector." : "")}`;
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

  /** Return the card of occurrence i of a response, whose sentence is `text`. */
  #card(response, i, text) {
    const { token, shift, static_neighbors: before, contextual_neighbors: after, attends_to: attended } = response.occurrences[i];
    const both = new Set(before.map(({ word }) => word).filter((word) => after.some((near) => near.word === word)));
    const unknown = token.resolution === "oov", isZero = response.contextual_similarity[i][i] === 0;
    const neighborList = (heading, neighbors, missing) => h("div", {}, h("h4", {}, heading), neighbors.length
      ? wordList(neighbors.map(({ word, similarity }) => ({
        word, value: similarity, text: short(similarity), href: this.#neighborsOf(word), note: both.has(word) ? "in both" : null,
      })), i)
      : h("p", { class: "muted" }, unknown ? missing : "None requested."));
    const attention = this.page.address("attention",
      { ...modelAndCase(this.state), text, word: `@${token.start}`, layer: "last", head: "mean" });
    return h(
      "article",
      { class: "card occurrence-card", "aria-label": `${letter(i)}: ${token.text}` },
      h("h3", {}, badge(i), h("span", { class: "visually-hidden" }, ": "), h("bdi", {}, token.text)),
      quotation(text, token),
      unknown
        ? h("p", {}, `This word has no static vector. Its contextual vector ${isZero ? "is zero: no word around it is known" : "is made without one"}.`)
        : h("p", {}, "Shift ", h("strong", { class: "number" }, short(shift)),
          h("span", { class: "muted" }, " (1 − cosine of the static and the contextual vector).")),
      h(
        "div",
        { class: "sides" },
        neighborList("Static neighbors", before, "No static vector."),
        neighborList("Contextual neighbors", after, "No contextual vector."),
      ),
      h("h4", {}, "Attends to: mean weights of the heads of the last layer"),
      wordList(attended.map(({ text: word, weight }) => ({ word, value: weight, text: short(weight) })), i,
        "near wide-words"),
      h("p", {}, h("a", { href: attention }, "Open in Attention")),
    );
  }

  #neighborsOf(word) {
    return this.page.address("neighbors", { ...modelAndCase(this.state), word });
  }
}

/** The figure of the cosines with one model. */
class Similarity {
  constructor(suffix) {
    this.figure = new Figure(`polyseme-compare-similarity${suffix}`, "Cosines", "rows and columns: the occurrences; cells: cosines");
    this.tables = new TableDetails("The cosines as tables", 4);
    this.element = this.figure.element;
    this.element.append(this.tables.element);
  }

  /** Show a response; `prefix` starts the headline. */
  show(response, words, prefix) {
    const panels = [["Static", response.static_similarity], ["In context", response.contextual_similarity]];
    const names = words.map((word, i) => `${letter(i)} ${word}`);
    this.figure.heading.textContent = prefix + headline(response);
    this.figure.show(similarityMatrices(panels, names, this.figure.width()));
    this.tables.show(panels.map(([caption, numbers]) => ({ caption, columns: names, rows: names, numbers })));
  }
}

/** The view Compare: a word in two to eight sentences, with its static and its contextual vectors. */

import { badge, CompareForm, emptySentence } from "./form.js";
import { mapDrawing, mapPoints } from "./map.js";
import { differ, parseOccurrences, withWords } from "./occurrences.js";
import { heatmapDrawing } from "../attention/heatmap.js";
import { countOf, h, modelAndCase, pointAt, s, svgDrawing, viewElement } from "../elements.js";
import { OCCURRENCES } from "../examples.js";
import { Exchange } from "../exchange.js";
import { Figure } from "../figure.js";
import { TableDetails } from "../table.js";
import { joinNames, letter, percent, short } from "../text.js";
import { areOneInLower, missingMeaning, quotation, wordList } from "../words.js";

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

const TITLE = 24, GAP = 40;
/** The minimum width of a matrix beside another one: of its labels, and of each column. */
const MIN_LABELS = 120, MIN_COLUMN = 38;

/** Draw the matrices of cosines `panels`, `[name, rows]`, `width` pixels wide; `names` are those of the occurrences. */
function similarityMatrices(panels, names, width) {
  const half = (width - GAP) / 2, isBeside = half >= MIN_LABELS + names.length * MIN_COLUMN;
  const drawings = panels.map(([, rows]) => heatmapDrawing(names, rows, isBeside ? half : width, 1).drawing);
  const { width: panelWidth, height } = drawings[0].viewBox.baseVal;
  const [dx, dy] = isBeside ? [panelWidth + GAP, 0] : [0, TITLE + height];
  return svgDrawing(
    "similarity",
    width,
    TITLE + height + dy,
    {
      role: "img", "aria-label": "Cosines of every pair of occurrences, static and in context; tables are below",
    },
    panels.map(([name], i) => {
      drawings[i].setAttribute("y", TITLE);
      return s("g", { transform: `translate(${i * dx} ${i * dy})` },
        s("text", { class: "title", x: 0, y: 12, "dominant-baseline": "central" }, name), drawings[i]);
    }),
  );
}

/** Return the headline: the cosines of the pair that context changes most. */
function headline({ occurrences, static_similarity: before, contextual_similarity: after }) {
  const words = occurrences.map(({ token }) => token.text);
  const pairs = before.flatMap((_, j) => before.slice(0, j).map((__, i) => ({
    i, j, change: Math.abs(before[i][j] - after[i][j]),
    // The cosine with a zero vector is 0 by definition and does not measure similarity.
    isKnown: before[i][i] > 0 && before[j][j] > 0,
  })));
  const [largest] = pairs.filter(({ isKnown }) => isKnown).toSorted((a, b) => b.change - a.change);
  if (!largest) return "No two of these words have static vectors.";
  const { i, j } = largest, change = before[i][j].toFixed(2) !== after[i][j].toFixed(2);
  const names = differ([words[i], words[j]]) ? `${words[i]} and ${words[j]}` : words[i];
  const cosines = `${names}: ${short(before[i][j])} static, ${short(after[i][j])} in context`;
  if (pairs.length === 1) return cosines;
  return change ? `${cosines} (the pair ${letter(i)} and ${letter(j)}, which context changes most)` : `${cosines}; no pair changes`;
}

/** Return sentences about occurrences of one word, about words that differ in case only, and about words without an entry. */
function notesOf({ occurrences, contextual_similarity: after }) {
  const known = occurrences.map(({ token }, i) => ({ i, key: token.key })).filter(({ key }) => key !== null);
  const groups = [...Map.groupBy(known, ({ key }) => key).values()].filter((group) => group.length > 1);
  const byCase = [...Map.groupBy(known, ({ key }) => key.toLowerCase()).values()]
    .filter((group) => new Set(group.map(({ key }) => key)).size > 1);
  const missing = occurrences.flatMap(({ token }, i) => (missingMeaning(token) ? `${letter(i)} is ${missingMeaning(token)}.` : []));
  return [
    ...groups.map((group) => {
      const isSame = group.every(({ i }) => after[group[0].i][i].toFixed(2) === "1.00");
      return `${joinNames(group.map(({ i }) => letter(i)))} are one word, “${group[0].key}”, with one static vector: `
        + `${isSame ? "here, context does not tell them apart either" : "only context tells them apart"}.`;
    }),
    ...byCase.map((group) => `${joinNames([...Map.groupBy(group, ({ key }) => key)].map(([key, members]) =>
      `${joinNames(members.map(({ i }) => letter(i)))} (“${key}”)`))} are different words of the vocabulary${
      areOneInLower(group.map(({ key }) => key)) ? ": with the case “lower”, they are one" : ""}.`),
    ...missing,
  ];
}

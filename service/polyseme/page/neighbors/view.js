/** The view Neighbors: the words nearest to a word, or to a sum of words. */

import { bars } from "../bars.js";
import {
  caseField, countField, countOf, exampleField, h, labeled, modelAndCase, modelField, optionDetails, viewElement,
} from "../elements.js";
import { NEIGHBORS } from "../examples.js";
import { Exchange } from "../exchange.js";
import { Figure } from "../figure.js";
import { short } from "../text.js";

const COUNTS = ["5", "10", "20", "50", "100"];

/** Build the view. It is built once. */
export const build = (page) => new NeighborsView(page);

class NeighborsView {
  constructor(page) {
    this.page = page;
    this.results = h("div", { class: "results" });
    this.exchange = new Exchange("polyseme-neighbors", this.results);
    this.figure = new Figure("polyseme-neighbors", "Nearest words", "bars: cosines of static vectors");
    this.results.append(this.figure.element, this.exchange.source);
    this.element = viewElement("Neighbors", "The words nearest to a word, or to a sum of words, separated by commas, minus others.",
    this.#form(), this.exchange.problem, this.results);
  }

  #form() {
    const box = () => h("input", { type: "text", autocomplete: "off", spellcheck: "false", dir: "auto" });
    this.examples = exampleField(this.page, NEIGHBORS);
    this.word = box();
    this.minus = box();
    this.count = countField(this.page, "Number of neighbors", COUNTS);
    this.cases = caseField(this.page);
    this.model = modelField(this.page);
    const submit = (event) => {
      event.preventDefault();
      this.page.update({ word: this.word.value, minus: this.minus.value }, { push: true });
    };
    return h(
      "form",
      { class: "controls card", onsubmit: submit },
      h("div", { class: "grow" }, labeled("Word", this.word)),
      h("div", { class: "grow" }, labeled("Minus", this.minus)),
      h("button", {}, "Find neighbors"),
      this.examples.element,
      optionDetails(this.count.element, this.cases.element, this.model.element),
    );
  }

  async show(state) {
    // Do not overwrite what the reader is typing unless the address has other words.
    if (state.word !== this.shown?.word) this.word.value = state.word;
    if (state.minus !== this.shown?.minus) this.minus.value = state.minus;
    this.shown = state;
    this.examples.show(state);
    this.count.show(state.k);
    this.cases.show(state.case);
    this.model.show(state.model);
    const positive = wordsIn(state.word), negative = wordsIn(state.minus);
    if (!positive.length && !negative.length) return this.exchange.clear("Type a word to see its neighbors.");
    const isWord = positive.length === 1 && !negative.length;
    const response = await this.exchange.request("v1/neighbors", {
      ...(isWord ? { word: positive[0] } : { positive, negative }), k: countOf(state.k), ...modelAndCase(state),
    });
    if (!response) return;
    const isNew = response !== this.response;
    this.response = response;
    const sum = [positive.join(" + "), ...negative].join(" − ").trim();
    const composed = response.resolution === "subword" ? ", unknown: a composed vector" : "";
    const entry = isWord && response.key && response.key !== sum ? `, entry ${response.key}` : "";
    this.#draw(response.neighbors, sum, entry || composed, isNew);
    const { length, [0]: first } = response.neighbors;
    this.exchange.announce(`${length} word${length === 1 ? "" : "s"} nearest to ${sum}${
      first ? `, first ${first.word}: ${short(first.similarity)}` : ""}.`);
  }

  /** Draw the bars. If a bar has the focus, focus the first bar if the response is new, else the same bar. */
  #draw(neighbors, sum, composed, isNew) {
    const before = [...this.figure.body.querySelectorAll("[role=button]")];
    const focused = before.includes(document.activeElement);
    const tabStop = isNew ? 0 : Math.max(before.findIndex(({ tabIndex }) => tabIndex === 0), 0);
    this.figure.heading.textContent = `Nearest to ${sum}${composed}`;
    this.figure.show(bars(neighbors.map(({ word: near, similarity }) => ({ word: near, value: similarity })), {
      width: this.figure.width(),
      stop: tabStop,
      name: `Words nearest to ${sum} and their cosines`,
      onpick: (chosen) => this.page.update({ word: chosen, minus: "" }, { push: true }),
    }));
    if (focused) this.figure.body.querySelectorAll("[role=button]")[tabStop]?.focus();
    this.exchange.reportDrawn();
  }
}

/** Return the words in a list. A comma between digits belongs to a number, and a comma alone is a word. */
function wordsIn(text) {
  const words = text.split(/,(?!\d)|(?<!\d),/).map((word) => word.trim()).filter(Boolean);
  return words.length || !text.trim() ? words : [text.trim()];
}

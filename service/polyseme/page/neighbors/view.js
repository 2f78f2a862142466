/** The view Neighbors: the words nearest to a word. */

import { bars } from "../bars.js";
import { caseField, countField, countOf, h, labeled, modelAndCase, modelField, viewElement } from "../elements.js";
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
    this.figure = new Figure("polyseme-neighbors", "Nearest words");
    this.results.append(this.figure.element, this.exchange.source);
    this.element = viewElement("Neighbors", "The words whose static vectors have the largest cosine with the static vector of"
      + " a word. Choose one of them to see its neighbors.", this.#form(), this.exchange.problem, this.results);
  }

  #form() {
    this.word = h("input", { type: "text", autocomplete: "off", spellcheck: "false", dir: "auto" });
    this.count = countField(this.page, "Number of neighbors", COUNTS);
    this.cases = caseField(this.page);
    this.model = modelField(this.page);
    const submit = (event) => {
      event.preventDefault();
      this.page.update({ word: this.word.value }, { push: true });
    };
    return h(
      "form",
      { class: "controls card", onsubmit: submit },
      h("div", { class: "grow" }, labeled("Word", this.word)),
      this.count.element,
      this.cases.element,
      this.model.element,
      h("button", {}, "Find neighbors"),
    );
  }

  async show(state) {
    // Do not overwrite what the reader is typing unless the address has another word.
    if (state.word !== this.shown) this.word.value = state.word;
    this.shown = state.word;
    this.count.show(state.k);
    this.cases.show(state.case);
    this.model.show(state.model);
    if (!state.word.trim()) return this.exchange.clear("Type a word to see its neighbors.");
    const response = await this.exchange.request("v1/neighbors", {
      word: state.word.trim(), k: countOf(state.k), ...modelAndCase(state),
    });
    if (!response) return;
    const isNew = response !== this.response;
    this.response = response;
    const composed = response.resolution === "subword" ? ", unknown: a composed vector" : "";
    this.#draw(response.neighbors, state.word, composed, isNew);
    const { length, [0]: first } = response.neighbors;
    this.exchange.announce(`${length} word${length === 1 ? "" : "s"} nearest to ${state.word}${
      first ? `, first ${first.word}: ${short(first.similarity)}` : ""}.`);
  }

  /** Draw the bars. If a bar has the focus, focus the first bar if the response is new, else the same bar. */
  #draw(neighbors, word, composed, isNew) {
    const before = [...this.figure.body.querySelectorAll("[role=button]")];
    const focused = before.includes(document.activeElement);
    const tabStop = isNew ? 0 : Math.max(before.findIndex(({ tabIndex }) => tabIndex === 0), 0);
    this.figure.heading.textContent = `Nearest to ${word}${composed}`;
    this.figure.show(bars(neighbors.map(({ word: near, similarity }) => ({ word: near, value: similarity })), {
      width: this.figure.width(),
      stop: tabStop,
      name: `Words nearest to ${word} and their cosines`,
      onpick: (chosen) => this.page.update({ word: chosen }, { push: true }),
    }));
    if (focused) this.figure.body.querySelectorAll("[role=button]")[tabStop]?.focus();
    this.exchange.reportDrawn();
  }
}

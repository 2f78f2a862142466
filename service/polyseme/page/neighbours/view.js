/** The words nearest to a word. */

import { caseField } from "../frame/case_field.js";
import { h, labelled } from "../frame/elements.js";
import { Exchange } from "../frame/exchange.js";
import { Figure } from "../frame/figure.js";
import { bars } from "../figures/bars.js";
import { manyField, manyOf } from "../frame/many_field.js";
import { modelField } from "../frame/model_field.js";
import { short } from "../frame/numbers.js";
import { modelAndCase } from "../frame/model_and_case.js";

const MANY = ["5", "10", "20", "50", "100"];

class Neighbours {
  constructor(page) {
    this.page = page;
    this.results = h("div", { class: "results" });
    this.exchange = new Exchange("polyseme-neighbours", this.results);
    this.figure = new Figure("polyseme-neighbours", "Nearest words");
    this.heard = h("p", { class: "heard", role: "status" });
    this.results.append(this.figure.element, this.exchange.source);
    this.element = h(
      "section",
      { "aria-label": "Neighbours" },
      h(
        "div",
        { class: "intro" },
        h("h2", {}, "Neighbours"),
        h("p", {}, "The words whose static vectors point most nearly the same way: exact cosines with",
          " every word of the vocabulary, before any context. Choose one to go on from there."),
      ),
      this.#form(),
      this.heard,
      this.exchange.problem,
      this.results,
    );
  }

  #form() {
    this.word = h("input", { type: "text", autocomplete: "off", spellcheck: "false", dir: "auto" });
    this.many = manyField(this.page, "How many", MANY);
    this.cases = caseField(this.page);
    this.model = modelField(this.page);
    const send = (event) => {
      event.preventDefault();
      this.page.go({ word: this.word.value }, { push: true });
    };
    return h(
      "form",
      { class: "controls card", onsubmit: send },
      h("div", { class: "grow" }, labelled("Word", this.word)),
      this.many.element,
      this.cases.element,
      this.model.element,
      h("button", {}, "Find"),
    );
  }

  async show(state) {
    // What is being typed stays until the address says another word.
    if (state.word !== this.shown) this.word.value = state.word;
    this.shown = state.word;
    this.many.show(state.k);
    this.cases.show(state.case);
    this.model.show(state.model);
    if (!state.word.trim()) {
      this.said = null;
      this.heard.textContent = "";
      return this.exchange.rest("Type a word to see its neighbours.");
    }
    const answer = await this.exchange.ask("v1/neighbors", question(state));
    if (!answer) return;
    const found = answer !== this.said;
    this.said = answer;
    this.#draw(answer, state.word, found);
    if (found) this.#say(answer, state.word);
  }

  /** A new answer is heard, one that is drawn again not. */
  #say({ neighbors }, word) {
    const [first] = neighbors;
    this.heard.textContent = `${neighbors.length} word${neighbors.length === 1 ? "" : "s"} nearest to ${word}${
      first ? `, first ${first.word}: ${short(first.similarity)}` : ""}.`;
  }

  /** Draw; who was among the bars stays there, at the first of those that were `found` now. */
  #draw({ neighbors }, word, found) {
    const before = [...this.figure.body.querySelectorAll("[role=button]")];
    const at = before.indexOf(document.activeElement);
    const stop = found ? 0 : Math.max(before.findIndex(({ tabIndex }) => tabIndex === 0), 0);
    this.figure.heading.textContent = `Nearest to ${word}`;
    const rows = neighbors.map((one) => ({ word: one.word, value: one.similarity }));
    this.figure.show(bars(rows, {
      width: this.figure.width(),
      stop,
      name: `Words nearest to ${word}, with their cosines`,
      onpick: (chosen) => this.page.go({ word: chosen }, { push: true }),
    }));
    if (at >= 0) this.figure.body.querySelectorAll("[role=button]")[stop]?.focus();
    this.exchange.drawn();
  }
}

function question(state) {
  return {
    word: state.word.trim(),
    k: manyOf(state.k),
    ...modelAndCase(state),
  };
}

/** The view, made once. */
export const build = (page) => new Neighbours(page);

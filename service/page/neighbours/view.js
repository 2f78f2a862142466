/** The words nearest to a word. */

import { caseField } from "../frame/case_field.js";
import { choice, h, labelled } from "../frame/elements.js";
import { Exchange } from "../frame/exchange.js";
import { Figure } from "../frame/figure.js";
import { bars } from "../figures/bars.js";
import { modelField } from "../frame/model_field.js";

const MANY = ["5", "10", "20", "50", "100"].map((k) => [k, k]);

class Neighbours {
  constructor(page) {
    this.page = page;
    this.results = h("div", { class: "results" });
    this.exchange = new Exchange("polyseme-neighbours", this.results);
    this.figure = new Figure("polyseme-neighbours", "Nearest words");
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
      this.exchange.problem,
      this.results,
    );
  }

  #form() {
    this.word = h("input", { type: "text", autocomplete: "off", spellcheck: "false", dir: "auto" });
    this.many = choice(MANY, "10", (k) => this.page.go({ k }));
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
      labelled("How many", this.many),
      this.cases.element,
      this.model.element,
      h("button", {}, "Find"),
    );
  }

  async show(state) {
    if (this.word.value.trim() !== state.word) this.word.value = state.word;
    this.many.value = state.k;
    this.cases.show(state.case);
    this.model.show(state.model);
    if (!state.word.trim()) return this.exchange.rest("Type a word to see its neighbours.");
    const answer = await this.exchange.ask("v1/neighbors", question(state));
    if (answer) this.#draw(answer, state.word);
  }

  #draw({ neighbors }, word) {
    this.figure.heading.textContent = `Nearest to ${word}`;
    const rows = neighbors.map((one) => ({ word: one.word, value: one.similarity }));
    this.figure.show(bars(rows, {
      width: this.figure.width(),
      name: `Words nearest to ${word}, with their cosines`,
      onpick: (chosen) => this.page.go({ word: chosen }, { push: true }),
    }));
    this.exchange.drawn();
  }
}

function question(state) {
  return {
    word: state.word.trim(),
    k: Number(state.k) || 10,
    ...(state.model && { model: state.model }),
    ...(state.case !== "auto" && { case: state.case }),
  };
}

/** The view, made once. */
export const build = (page) => new Neighbours(page);

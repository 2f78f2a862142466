/** A sentence, and what the service makes of it: its words, their vectors, who looks at whom. */

import { h } from "../frame/elements.js";
import { Exchange } from "../frame/exchange.js";
import { modelAndCase } from "../frame/model_and_case.js";
import { Attention } from "./attention.js";
import { Numbers } from "./numbers.js";
import { Reading } from "./reading.js";
import { Sentence } from "./sentence.js";
import { ChosenWord } from "./word.js";
import { Words } from "./words.js";

const SIDE_BY_SIDE = 5;

class Look {
  constructor(page) {
    this.results = h("div", { class: "results look" });
    this.exchange = new Exchange("polyseme-encode", this.results);
    this.sentence = new Sentence(page);
    this.words = new Words((token) => page.go({ word: String(token) }));
    this.attention = new Attention(page);
    this.word = new ChosenWord(page);
    this.numbers = new Numbers();
    this.beside = h("div", { class: "beside" }, this.attention.chooser, this.word.looks.element);
    this.main = h("div", { class: "main" }, this.attention.figure.element, this.beside);
    this.results.append(
      this.words.element, this.main, this.word.vectors.element, this.numbers.element, this.exchange.source,
    );
    this.element = h(
      "section",
      { "aria-label": "Look" },
      h(
        "div",
        { class: "intro" },
        h("h2", {}, "Look"),
        h("p", {}, "A word has one static vector, whatever stands around it. Attention lets each word look",
          " at the others and turns that vector into one for this place: the contextual one. Type a",
          " sentence and see who looks at whom."),
      ),
      this.sentence.element,
      this.exchange.problem,
      this.results,
    );
  }

  async show(state) {
    this.sentence.show(state);
    if (!state.text.trim()) return this.exchange.rest("Type a sentence to see what its words look at.");
    const answer = await this.exchange.ask("v1/encode", question(state));
    if (!answer) return;
    if (answer !== this.answer) this.reading = new Reading(answer, state.text);
    this.answer = answer;
    if (!this.reading.words.length) return this.exchange.rest("There is no word in this sentence.");
    this.#draw(state);
  }

  #draw(state) {
    const { reading } = this, token = reading.token(state.word);
    this.main.classList.toggle("many", reading.heads >= SIDE_BY_SIDE || reading.layers > SIDE_BY_SIDE);
    this.words.show(reading, token);
    this.attention.show(reading, state, token);
    this.word.show(reading, token, state);
    this.numbers.show(reading.words, this.attention.weights, this.attention.name);
    this.exchange.drawn();
  }
}

function question(state) {
  return { input: state.text, ...modelAndCase(state), ...(state.oov && { oov: state.oov }) };
}

/** The view, made once. */
export const build = (page) => new Look(page);

/** The view Neighbors: the words nearest to a word, or to a sum of words. */

import { bars } from "../bars.js";
import {
  caseField, countField, countOf, exampleField, h, modelAndCase, modelField, optionDetails, textField, viewElement,
} from "../elements.js";
import { NEIGHBORS } from "../examples.js";
import { Exchange } from "../exchange.js";
import { Figure } from "../figure.js";
import { counted, short } from "../text.js";

export const title = "Neighbors";
export const defaults = { word: "bank", minus: "", k: "10", model: "", case: "auto" };

export class View {
  constructor(page) {
    this.page = page;
    this.results = h("div", { class: "results" });
    this.exchange = new Exchange("polyseme-neighbors", this.results);
    this.figure = new Figure("polyseme-neighbors", "Nearest words", "bars: cosines of static vectors");
    this.results.append(this.figure.element, this.exchange.source);
    this.element = viewElement(title, "The words nearest to a word, or to a sum of words, separated by commas, minus others.",
      this.#form(), this.exchange.problem, this.results);
  }

  #form() {
    const word = textField("word", "Word"), minus = textField("minus", "Minus");
    const examples = exampleField(this.page, NEIGHBORS);
    const options = optionDetails(countField(this.page, "Number of neighbors", ["5", "10", "20", "50", "100"]), caseField(this.page), modelField(this.page));
    this.fields = [word, minus, examples, options];
    const submit = (event) => {
      event.preventDefault();
      this.page.update({ word: word.input.value, minus: minus.input.value }, { push: true });
    };
    return h("form", { class: "controls card", onsubmit: submit },
      word.element, minus.element, h("button", {}, "Find neighbors"), examples.element, options.element);
  }

  async show(state) {
    for (const field of this.fields) field.show(state);
    // A sum may be written with signs: king − man + woman.
    const terms = state.word.split(/ +(?=[-−–+] )/), isMinus = (term) => /^[-−–] /.test(term);
    const positive = terms.filter((term) => !isMinus(term)).flatMap((term) => wordsIn(term.replace(/^\+ /, "")));
    const negative = [...terms.filter(isMinus).flatMap((term) => wordsIn(term.slice(2))), ...wordsIn(state.minus)];
    if (!positive.length && !negative.length) return this.exchange.clear("Type a word to see its neighbors.");
    const isWord = positive.length === 1 && !negative.length;
    const response = await this.exchange.request("v1/neighbors", {
      ...(isWord ? { word: positive[0] } : { positive, negative }), k: countOf(state.k), ...modelAndCase(state),
    });
    if (!response) return;
    const sum = [positive.join(" + "), ...negative].join(" − ").trim();
    const composed = response.resolution === "subword" ? ", not in the vocabulary: a composed vector" : "";
    const entry = isWord && response.key && response.key !== sum ? `, entry ${response.key}` : "";
    this.figure.heading.textContent = `Nearest to ${sum}${isWord ? entry || composed : ", which are left out"}`;
    this.figure.show(bars(response.neighbors.map(({ word, similarity }) => ({ word, value: similarity })), {
      width: this.figure.width(),
      name: `Words nearest to ${sum} and their cosines`,
      onpick: (word) => this.page.update({ word, minus: "" }, { push: true }),
    }));
    const { length, [0]: first } = response.neighbors;
    this.exchange.announce(`${counted(length, "word")} nearest to ${sum}${
      first ? `, first ${first.word}: ${short(first.similarity)}` : ""}.`);
  }
}

/** Return the words in a list. A comma between digits belongs to a number, and a comma alone is a word. */
function wordsIn(text) {
  const words = text.split(/,(?!\d)|(?<!\d),/).map((word) => word.trim()).filter(Boolean);
  return words.length || !text.trim() ? words : [text.trim()];
}

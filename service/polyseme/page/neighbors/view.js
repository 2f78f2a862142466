/** The view Neighbors: the words nearest to a word, or to a sum of words. */

import { bars } from "../bars.js";
import {
  caseField, countField, countOf, exampleField, formElement, h, modelAndCase, modelField, optionDetails, textField, viewElement,
} from "../elements.js";
import { NEIGHBORS } from "../examples.js";
import { Exchange } from "../exchange.js";
import { Figure } from "../figure.js";
import { counted, short } from "../text.js";

export const title = "Neighbors";
export const defaults = { word: "bank", k: "10", model: "", case: "auto" };

export class View {
  constructor(page) {
    this.page = page;
    this.exchange = new Exchange("polyseme-neighbors");
    this.figure = new Figure("polyseme-neighbors", "Nearest words", "bars: cosines of static vectors");
    this.element = viewElement(title, "The words nearest to a word, or to a sum, such as king − man + woman.",
      this.#form(), this.exchange, this.figure.element);
  }

  #form() {
    const word = textField("word", "Word");
    const examples = exampleField(this.page, NEIGHBORS);
    const options = optionDetails(countField(this.page, "Number of neighbors"), caseField(this.page), modelField(this.page));
    this.fields = [word, examples, options];
    return formElement("controls card", () => this.page.update({ word: word.input.value }, { push: true }),
      word.element, h("button", {}, "Find neighbors"), examples.element, options.element);
  }

  async show(state) {
    for (const field of this.fields) field.show(state);
    const terms = state.word.trim().split(/\s+(?=[-−–+])/), isMinus = (term) => /^[-−–]\s*\S/.test(term);
    const wordsOf = (list) => list.map((term) => term.replace(/^[-−–+]\s*(?=\S)/, ""));
    const positive = wordsOf(terms.filter((term) => !isMinus(term))), negative = wordsOf(terms.filter(isMinus));
    if (!state.word.trim()) return this.exchange.clear("Type a word to see its neighbors.");
    const isWord = positive.length === 1 && !negative.length;
    const response = await this.exchange.request("v1/neighbors", {
      ...(isWord ? { word: positive[0] } : { positive, negative }), k: countOf(state.k), ...modelAndCase(state),
    });
    if (!response) return;
    const sum = [positive.join(" + "), ...negative].join(" − ").trim();
    const composed = response.resolution === "subword" ? `, not in the vocabulary: a composed vector${
      /\S[-−–+]\S/.test(sum) ? "; in a sum, write a space before each sign" : ""}` : "";
    const entry = isWord && response.key && response.key !== sum ? `, entry ${response.key}` : "";
    this.figure.heading.textContent = `Nearest to ${sum}${isWord ? entry || composed : ", which are left out"}`;
    this.figure.show(bars(response.neighbors.map(({ word, similarity }) => ({ word, value: similarity })), {
      width: this.figure.width(),
      name: `Words nearest to ${sum} and their cosines`,
      onpick: (word) => this.page.update({ word }, { push: true }),
    }));
    const { length, [0]: first } = response.neighbors;
    this.exchange.announce(`${counted(length, "word")} nearest to ${sum}${
      first ? `, first ${first.word}: ${short(first.similarity)}` : ""}.`);
  }
}

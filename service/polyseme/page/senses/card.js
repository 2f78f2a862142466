/** The card of each sense, and the chosen occurrence with its sentence. */

import { senseMark } from "./map.js";
import { parseJson } from "../client.js";
import { h, labeled, modelAndCase, s } from "../elements.js";
import { count, decimals, percent, short } from "../text.js";
import { quotation, wordList } from "../words.js";

/** The maximum number of characters of a label, of examples on a card, and of the listed words of an example. */
const MAX_LABEL = 100, MAX_EXAMPLES = 3, MAX_WORDS = 4;

/** The mark of a sense beside text. */
function markOf(sense) {
  return s("svg", { class: "sense-mark", viewBox: "-10 -10 20 20", width: 20, height: 20, "aria-hidden": "true" }, senseMark(sense));
}

/** The cards of the senses. */
export class SenseCards {
  constructor(page) {
    this.page = page;
    this.element = h("div", { class: "sense-cards" });
  }

  /** Show the senses of a response, with the labels in the address if they are those of its model. */
  show(response, sentences, settings) {
    if (response === this.response) return;
    Object.assign(this, { response, sentences, settings });
    const labels = parseJson(settings.labels);
    this.typed = Array.isArray(labels) && labels.shift() === settings.model ? labels : [];
    this.element.replaceChildren(...response.senses.map((sense) => this.#card(sense)));
  }

  /** Return the labels of the reader, "" for a sense without one. */
  labels() {
    return [...this.element.querySelectorAll("input")].map(({ value }) => value.trim());
  }

  #card({ id, size, proportion, keywords, neighbors, examples, evidence }) {
    const { senses, occurrences } = this.response;
    const largest = Math.max(...senses.flatMap((sense) => sense.keywords.map(({ weight }) => weight)));
    const neighborsOf = (word) => this.page.address("neighbors", { ...modelAndCase(this.settings), word });
    const list = (title, rows) => h("div", {}, h("h4", {}, title),
      rows.length ? wordList(rows, id) : h("p", { class: "muted" }, "None."));
    return h(
      "article",
      { class: "card sense-card", "aria-label": `Sense ${id + 1}` },
      h("h3", {}, markOf(id), `Sense ${id + 1}`),
      labeled("Label", h("input", {
        type: "text", maxlength: MAX_LABEL, autocomplete: "off", dir: "auto", value: this.typed[id],
        oninput: () => this.page.update({ labels: JSON.stringify([this.settings.model, ...this.labels()]) }),
      })),
      h("p", {}, h("strong", {}, percent(proportion)), ` of the occurrences (${count(size)})`),
      h(
        "div",
        { class: "sides" },
        list("Keywords", keywords.map(({ word, weight }) =>
          ({ word, value: weight / largest, text: decimals(weight, 3) }))),
        list("Nearest words", neighbors.map(({ word, similarity }) =>
          ({ word, value: similarity, text: short(similarity), href: neighborsOf(word) }))),
      ),
      h("h4", {}, "Examples"),
      h("ul", { class: "examples" }, examples.slice(0, MAX_EXAMPLES).map((i, number) => h("li", {}, quotationWith(this.sentences, occurrences[i], evidence[number])))),
    );
  }
}

/** Quote an occurrence; words that speak for its sense or for another one are marked, and the strongest are listed. */
function quotationWith(sentences, occurrence, evidence = []) {
  const sum = evidence.reduce((total, { weight }) => total + Math.abs(weight), 0);
  const list = (what, words) => words.slice(0, MAX_WORDS).flatMap(({ word, weight }, i) =>
    [i ? ", " : `${what}: `, h("bdi", {}, word), ` ${short(Math.abs(weight) / sum)}`]);
  const lists = [
    list("for this sense (blue)", evidence.filter(({ weight }) => weight > 0)),
    list("for another sense (orange)", evidence.filter(({ weight }) => weight < 0)),
  ].filter(({ length }) => length);
  return [
    quotation(sentences[occurrence.text], occurrence, evidence),
    lists.length ? h("p", { class: "status" }, "Shares of the evidence ", lists.flatMap((words, i) => [i ? "; " : "", ...words])) : "",
  ];
}

/** The chosen occurrence: its sentence, sense and confidence, and links to other views. */
export class ChosenOccurrence {
  constructor(page) {
    this.page = page;
    this.element = h("section", { class: "chosen-occurrence", role: "status", "aria-label": "Chosen occurrence" });
  }

  /** Show occurrence i of a response; nothing if there is none. */
  show(response, sentences, i, { model }) {
    const occurrence = response.occurrences[i];
    if (!occurrence) return this.element.replaceChildren();
    const text = sentences[occurrence.text], other = otherOccurrence(response, i);
    const { examples, evidence } = response.senses[occurrence.sense];
    const row = (each) => (each ? [sentences[each.text], ...wordOf(each, response.occurrences, sentences)] : ["", "", 0]);
    const link = (view, state, name) => h("a", { href: this.page.address(view, { ...state, model }) }, name);
    this.element.replaceChildren(
      h("p", {}, markOf(occurrence.sense), ` Sense ${occurrence.sense + 1}, confidence ${short(occurrence.confidence)}`),
      ...quotationWith(sentences, occurrence, evidence[examples.indexOf(i)]),
      h("p", { class: "links" },
        link("attention", { text, word: `@${occurrence.start}` }, "Open in Attention"), " · ",
        link("compare", { occurrences: JSON.stringify([row(occurrence), row(other)]) }, "Open in Compare")),
    );
  }
}

/** Return the word of an occurrence, and its index among the equal words of its sentence. */
function wordOf(occurrence, occurrences, sentences) {
  const textOf = ({ text, start, end }) => [...sentences[text]].slice(start, end).join("");
  const same = occurrences.filter((each) => each.text === occurrence.text && textOf(each) === textOf(occurrence));
  return [textOf(occurrence), same.indexOf(occurrence)];
}

/** Return the occurrence to compare occurrence i with: the most typical one of another sense, else of the same sense. */
function otherOccurrence({ senses, occurrences }, i) {
  const others = senses.filter(({ id }) => id !== occurrences[i].sense);
  const typical = [...others, ...senses].flatMap(({ examples }) => examples).find((example) => example !== i);
  return typical === undefined ? null : occurrences[typical];
}

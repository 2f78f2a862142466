/** The view Senses: the senses that a word has in the reader's sentences. */

import { SensesForm } from "./form.js";
import { MAX_POINTS, senseMark, SensesMap } from "./map.js";
import { fetchText, parseJson } from "../client.js";
import { theme } from "../colors.js";
import { changeDetector, countOf, download, h, labeled, pointAt, quietButton, s, viewElement } from "../elements.js";
import { TEXTS } from "../examples.js";
import { Exchange } from "../exchange.js";
import { Figure } from "../figure.js";
import { csvCell, separatedText } from "../table.js";
import { count, counted, decimals, percent, short, shorten } from "../text.js";
import { quotation, wordList } from "../words.js";

export const title = "Senses";
export const defaults = { ...TEXTS[0].state, model: "", point: "", labels: "" };

/** The maximum number of graphemes of a sentence in the name of its mark, and of code points before the word. */
const NAME = 100, BEFORE = 50;
/** The minimum number of occurrences to judge the number of senses, and how many of each sense have their deciding words. */
const MIN_OCCURRENCES = 8, EXAMPLES = 20;

export class View {
  constructor(page) {
    this.page = page;
    this.form = new SensesForm(page);
    this.exchange = new Exchange("polyseme-senses", { placeOf: (pointer) => this.#placeOf(pointer) });
    this.exchange.source.querySelector("button").after(
      quietButton("Save CSV", () => this.#saveCsv()), quietButton("Save the inventory", () => this.#saveInventory()));
    this.evidence = h("section", { class: "card senses-number", "aria-label": "Evidence for each number of senses" });
    this.summary = h("p", { class: "summary" });
    this.notes = h("ul", { class: "notes" });
    this.figure = new Figure("polyseme-senses-map", "Map", "x: first, y: second principal component");
    this.pointed = h("span", { class: "pointed" });
    this.chosen = h("section", { class: "chosen-occurrence", role: "status", "aria-label": "Chosen occurrence" });
    this.figure.element.append(
      h("p", { class: "pointing" }, this.pointed,
        h("span", {}, `${pointAt("a mark to read its sentence", "use the arrow keys")} Choose it for more.`)),
      this.chosen,
    );
    this.cards = h("div", { class: "sense-cards" });
    this.element = viewElement(title, "The senses that a word has in your sentences: occurrences with similar contexts form one.",
      this.form.element, this.exchange,
      h("div", { class: "card" }, this.summary, this.notes), this.evidence,
      h("div", { class: "senses-main" }, this.cards, this.figure.element));
    this.mapChanged = changeDetector();
    this.chosenChanged = changeDetector();
  }

  async show(state) {
    this.state = state;
    this.form.show(state);
    if (this.form.isEdited) return this.exchange.clear("Press “Find senses” to see the senses of a word in this text.");
    this.lines = this.form.lines(state);
    const word = state.word.trim().normalize();
    const missing = missingInput(this.lines, word, this.form.words.hidden);
    if (missing) return this.exchange.clear(missing);
    const sentences = this.lines.map(({ sentence }) => sentence);
    const response = await this.exchange.request("v1/senses", {
      word, texts: sentences, senses: countOf(state.senses), map: true, examples: EXAMPLES, ...(state.model && { model: state.model }),
    });
    if (response && state === this.state) this.#draw(response, sentences);
  }

  /** Return the line that a field error points to, as the reader counts, else the pointer. */
  #placeOf(pointer) {
    const line = this.lines[/^\/texts\/(\d+)$/.exec(pointer)?.[1]];
    return line ? `Line ${count(line.number)}` : pointer;
  }

  #draw(response, sentences) {
    const { state } = this, isNew = response !== this.response;
    Object.assign(this, { response, sentences });
    if (this.mapChanged(response, theme(), this.figure.width())) {
      this.#drawMap(response, sentences);
      this.summary.textContent = summaryOf(response);
      const notes = [...this.form.hints(), ...notesOf(response)];
      this.notes.replaceChildren(...notes.map((note) => h("li", {}, note)));
      this.evidence.replaceChildren(...evidenceOf(response, state.senses));
      this.evidence.hidden = !this.evidence.querySelector("li");
      if (isNew) this.#drawCards();
    }
    this.exchange.announce(this.summary.textContent);
    const point = /^\d{1,9}$/.test(state.point) ? Number(state.point) : null;
    this.map.choose(point);
    if (this.chosenChanged(response, point)) this.chosen.replaceChildren(...this.#chosenOccurrence(point));
  }

  #drawMap(response, sentences) {
    const { occurrences } = response;
    const describe = (i) => {
      const { sense, confidence, text, start } = occurrences[i];
      const letters = [...sentences[text]];
      const from = start > BEFORE ? start - BEFORE : 0;
      const part = shorten(letters.slice(from, from + NAME + 1).join(""), NAME);
      return `Sense ${sense + 1}, confidence ${short(confidence)}: ${from ? "…" : ""}${part}`;
    };
    this.figure.caption.textContent = "Each mark is an occurrence, at the first two principal components of its context. Its confidence is how much"
      + " nearer it is to its sense than to the other senses here, right or not."
      + (occurrences.length > MAX_POINTS
        ? ` The map shows ${count(MAX_POINTS)} of the ${count(occurrences.length)} occurrences, evenly spaced.` : "");
    this.map = new SensesMap(response, {
      width: this.figure.width(),
      describe,
      onpoint: (i) => this.pointed.replaceChildren(h("bdi", {}, describe(i))),
      onpick: (i) => this.page.update({ point: String(i) }),
    });
    this.pointed.replaceChildren();
    this.figure.show(this.map.drawing);
  }

  /** Draw the cards of the senses, with the labels in the address if they are those of the model. */
  #drawCards() {
    const { model, labels: json } = this.state, labels = parseJson(json);
    const typed = Array.isArray(labels) && labels.shift() === model ? labels : [];
    this.cards.replaceChildren(...this.response.senses.map((sense) => this.#card(sense, model, typed[sense.id])));
  }

  /** Return the card of a sense, with the reader's `label`. */
  #card({ id, size, proportion, keywords, neighbors, examples, evidence }, model, label) {
    const { senses, occurrences } = this.response;
    const largest = Math.max(...senses.flatMap((sense) => sense.keywords.map(({ weight }) => weight)));
    const neighborsOf = (word) => this.page.address("neighbors", { word, model });
    const list = (heading, rows) => h("div", {}, h("h4", {}, heading),
      rows.length ? wordList(rows, id) : h("p", { class: "muted" }, "None."));
    return h(
      "article",
      { class: "card sense-card", "aria-label": `Sense ${id + 1}` },
      h("h3", {}, markOf(id), `Sense ${id + 1}`),
      labeled("Label", h("input", {
        type: "text", maxlength: MAX_LABEL, autocomplete: "off", dir: "auto", value: label,
        oninput: () => this.page.update({ labels: JSON.stringify([model, ...this.#labels()]) }),
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

  /** Return occurrence i with its sentence, sense and confidence, and links to other views; nothing if there is none. */
  #chosenOccurrence(i) {
    const { response, sentences, state: { model } } = this, occurrence = response.occurrences[i];
    if (!occurrence) return [];
    const text = sentences[occurrence.text], other = otherOccurrence(response, i);
    const { examples, evidence } = response.senses[occurrence.sense];
    const row = (each) => (each ? [sentences[each.text], ...wordOf(each, response.occurrences, sentences)] : ["", "", 0]);
    const link = (view, state, name) => h("a", { href: this.page.address(view, { ...state, model }) }, name);
    return [
      h("p", {}, markOf(occurrence.sense), ` Sense ${occurrence.sense + 1}, confidence ${short(occurrence.confidence)}`),
      ...quotationWith(sentences, occurrence, evidence[examples.indexOf(i)]),
      h("p", { class: "links" },
        link("attention", { text, word: `@${occurrence.start}` }, "Open in Attention"), " · ",
        link("compare", { occurrences: JSON.stringify([row(occurrence), row(other)]) }, "Open in Compare")),
    ];
  }

  /** Return the labels of the reader, "" for a sense without one. */
  #labels() {
    return [...this.cards.querySelectorAll("input")].map(({ value }) => value.trim());
  }

  #saveCsv() {
    const { response, sentences } = this;
    const labels = this.#labels();
    const rows = response.occurrences.map(({ text, start, end, sense, confidence }) =>
      [this.lines[text].number, start, end, sense + 1, labels[sense], confidence, sentences[text]].map(csvCell));
    const header = ["line", "start", "end", "sense", "label", "confidence", "sentence"];
    download("polyseme-senses.csv", `${separatedText([header, ...rows], ",", "\r\n")}\r\n`, "text/csv");
  }

  /** Request the inventory of the shown senses, and save it with the labels of the reader. */
  async #saveInventory() {
    const { inventory } = JSON.parse(await fetchText("v1/senses", { ...this.exchange.body, map: false, inventory: true }));
    const labels = this.#labels();
    const named = inventory.senses.map((sense, i) => ({ ...sense, label: labels[i] || sense.label }));
    download(`${this.response.word}.senses`, JSON.stringify({ ...inventory, senses: named }), "application/json");
  }
}

/** Return a sentence about what the reader has to give first, else "". */
function missingInput(lines, word, hasNoFrequent) {
  if (!lines) return "The address does not contain the sentences, which are too long for it. Choose or paste them again.";
  if (!lines.length) return "Type or paste sentences, one on each line, or choose a text file.";
  return word ? "" : `Type the word whose senses to find${hasNoFrequent ? "" : ", or press a frequent word"}.`;
}

/** Return the sentence that sums up a response. */
function summaryOf({ word, senses, occurrences, separation }) {
  const lines = new Set(occurrences.map(({ text }) => text)).size;
  const summary = `${counted(occurrences.length, "occurrence")} of “${word}” in ${counted(lines, "line")}:`
    + ` ${counted(senses.length, "sense")}.`;
  return senses.length < 2 ? summary : `${summary} Their separation is ${short(separation)}, where 1 is complete.`;
}

/** Return what speaks for each number of senses. */
function evidenceOf({ several, alternatives, occurrences, senses }, chosen) {
  const list = wordList(alternatives.slice(1).filter(({ senses: n, sizes }) => sizes.length === n).map(({ senses: n, separation, sizes }) =>
    ({ word: `${n} senses`, value: separation, text: short(separation), note: sizes.map(count).join(" · ") })), 0, "near wide-words");
  list.children[senses.length - 2]?.setAttribute("aria-current", "true");
  return [
    h("p", { class: "status" }, occurrences.length < MIN_OCCURRENCES ? "" : `The probability of several senses is ${
      percent(several)}; ${chosen === "auto" ? "from 33% on, several are shown: those of the longest bar, less 0.01 for each sense"
      : Number(chosen) === senses.length ? "their number is the chosen one" : `of the chosen ${chosen}, ${senses.length} ${senses.length === 1 ? "has" : "have"} occurrences`}. `,
      "The bars show how well each number of senses separates the occurrences: at 1, completely."),
    list,
  ];
}

/** Return the notes of a response; for few occurrences, what would help. */
function notesOf({ notes, occurrences, senses }) {
  const hasEvidence = senses.length < 2 || senses.some(({ evidence }) => evidence.flat().length);
  const unmarked = hasEvidence ? [] : ["In this model, a context is no sum of words, so the words that decide are not marked."];
  if (occurrences.length >= MIN_OCCURRENCES) return [...notes, ...unmarked];
  return [...unmarked, `${counted(occurrences.length, "occurrence")} ${occurrences.length === 1 ? "is" : "are"} too few to judge the number of senses: add sentences with the word until`
    + ` there are ${MIN_OCCURRENCES}, one on each line, because a line is one context.`];
}

/** The maximum number of characters of a label, of examples on a card, and of the listed words of an example. */
const MAX_LABEL = 100, MAX_EXAMPLES = 3, MAX_WORDS = 4;

/** The mark of a sense beside text. */
function markOf(sense) {
  return s("svg", { class: "sense-mark", viewBox: "-10 -10 20 20", width: 20, height: 20, "aria-hidden": "true" }, senseMark(sense));
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

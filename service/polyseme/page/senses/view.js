/** The view Senses: the senses that a word has in the reader's sentences. */

import { ChosenOccurrence, SenseCards } from "./card.js";
import { SensesForm } from "./form.js";
import { MAX_POINTS, SensesMap } from "./map.js";
import { theme } from "../colors.js";
import { countOf, download, h } from "../elements.js";
import { Exchange } from "../exchange.js";
import { Figure } from "../figure.js";
import { count, short, shorten } from "../text.js";

/** The maximum number of graphemes of a sentence in the name of its mark, and of code points before the word. */
const NAME = 100, BEFORE = 50;

/** Build the view. It is built once. */
export const build = (page) => new SensesView(page);

class SensesView {
  constructor(page) {
    this.page = page;
    this.form = new SensesForm(page);
    this.results = h("div", { class: "results senses" });
    this.exchange = new Exchange("polyseme-senses", this.results);
    this.exchange.source.querySelector("button").after(
      h("button", { type: "button", class: "quiet", onclick: () => this.#saveCsv() }, "Save CSV"));
    this.summary = h("p", { class: "summary" });
    this.notes = h("ul", { class: "notes" });
    this.figure = new Figure("polyseme-senses-map", "Map");
    this.pointed = h("span", { class: "pointed" });
    this.chosen = new ChosenOccurrence(page);
    this.figure.element.append(
      h("p", { class: "pointing" }, this.pointed,
        h("span", {}, "Point at a mark to read its sentence, or use the arrow keys. Choose it for more.")),
      this.chosen.element,
    );
    this.cards = new SenseCards(page);
    this.announcement = h("p", { class: "visually-hidden", role: "status" });
    this.results.append(
      h("div", { class: "card" }, this.summary, this.notes),
      this.figure.element, this.cards.element, this.exchange.source,
    );
    this.element = h(
      "section",
      { "aria-label": "Senses" },
      h(
        "div",
        { class: "intro" },
        h("h2", {}, "Senses"),
        h("p", {}, "The senses that a word has in your sentences, without labels: its occurrences are clustered by their",
          " contexts. Choose an example, or paste sentences and type a word."),
      ),
      this.form.element,
      this.announcement,
      this.exchange.problem,
      this.results,
    );
  }

  async show(state) {
    this.state = state;
    this.form.show(state);
    const sentences = this.form.sentences(state);
    const word = state.word.trim();
    const missing = missingInput(sentences, word, state.file);
    if (missing) {
      this.response = null;
      this.announcement.textContent = "";
      return this.exchange.clear(missing);
    }
    const response = await this.exchange.request("v1/senses", {
      word, texts: sentences, senses: countOf(state.senses), map: true, ...(state.model && { model: state.model }),
    });
    if (response && state === this.state) await this.#draw(response, sentences);
  }

  async #draw(response, sentences) {
    const { state } = this;
    const isNew = response !== this.response;
    const inputs = [response, theme(), this.figure.width()];
    if (!this.drawn || inputs.some((value, i) => value !== this.drawn[i])) {
      this.#drawMap(response, sentences);
      this.summary.textContent = summaryOf(response);
      this.notes.replaceChildren(...response.notes.map((note) => h("li", {}, note)));
      this.notes.hidden = !response.notes.length;
      this.loaded = this.cards.show(response, sentences, state);
      this.drawn = inputs;
    }
    Object.assign(this, { response, sentences });
    // Announce a new response only, not one that is drawn again.
    if (isNew) this.announcement.textContent = this.summary.textContent;
    const point = /^\d{1,9}$/.test(state.point) ? Number(state.point) : null;
    this.map.choose(point);
    this.exchange.reportDrawn();
    await Promise.all([this.loaded, this.#showChosen(point)]);
  }

  #drawMap(response, sentences) {
    const { occurrences } = response;
    const focused = response === this.response ? this.map.focused() : null;
    const describe = (i) => {
      const { sense, confidence, text, start } = occurrences[i];
      const letters = [...sentences[text]];
      const from = start > BEFORE ? start - BEFORE : 0;
      const part = shorten(letters.slice(from, from + NAME + 1).join(""), NAME);
      return `Sense ${sense + 1}, confidence ${short(confidence)}: ${from ? "…" : ""}${part}`;
    };
    this.figure.caption.textContent = "Each mark is an occurrence, at the first two principal components of its context."
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
    if (focused !== null) this.map.focus(focused);
  }

  /** Show the chosen occurrence; it is drawn again for another response, theme or occurrence. */
  async #showChosen(point) {
    const inputs = [...this.drawn.slice(0, 2), point];
    if (this.shown && inputs.every((value, i) => value === this.shown[i])) return;
    this.shown = inputs;
    await this.chosen.show(this.response, this.sentences, point, this.state);
  }

  #saveCsv() {
    const { response, sentences } = this;
    const rows = response.occurrences.map(({ text, start, end, sense, confidence }) =>
      [text, start, end, sense, confidence, sentences[text]]);
    download("polyseme-senses.csv", commaSeparated([
      ["text", "start", "end", "sense", "confidence", "sentence"], ...rows,
    ]), "text/csv");
  }
}

/** Return a sentence about what the reader has to give first, else "". */
function missingInput(sentences, word, file) {
  if (!sentences) return `The address does not contain the sentences (${file}), which are too long for it. Choose or paste them again.`;
  if (!sentences.length) return "Type or paste sentences, one on each line, or choose a text file.";
  return word ? "" : "Type the word whose senses to find, or press a frequent word.";
}

/** Return the sentence that sums up a response. */
function summaryOf({ word, senses, occurrences, separation }) {
  const number = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
  const sentences = new Set(occurrences.map(({ text }) => text)).size;
  const found = `${number(occurrences.length, "occurrence")} of “${word}” in ${number(sentences, "sentence")}:`
    + ` ${number(senses.length, "sense")}.`;
  return senses.length < 2 ? found : `${found} Their separation is ${short(separation)} (mean silhouette, at most 1).`;
}

/** Return rows of cells as the text of a CSV file (RFC 4180). */
function commaSeparated(rows) {
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((cells) => `${cells.map((cell) => quoted(String(cell))).join(",")}\r\n`).join("");
}

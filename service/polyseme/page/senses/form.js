/** The form of Senses: examples, sentences and files, the word, and the number of senses. */

import { beginningOf, FileError, frequentWords, isLong, linesOf, namesOf, readFiles, sentencesOf } from "./sentences.js";
import {
  exampleField, h, labeled, modelField, numbered, optionDetails, quietButton, selectBox, setOptions, setText, withValue,
} from "../elements.js";
import { TEXTS } from "../examples.js";
import { count } from "../text.js";

/** Milliseconds after the last key until the sentences are counted. */
const PAUSE = 300;
const NUMBERS = [["auto", "automatic"], ...numbered(20, 1)];
/** The name of a long text that is not from a file. */
const PASTED = "pasted text";

export class SensesForm {
  /** `page` is the object that the view is built with; `onchange()` is called when the text is another one than the shown. */
  constructor(page, onchange) {
    Object.assign(this, { page, onchange });
    /** Texts that are too long for the address, by the name that the address has instead. */
    this.long = new Map();
    this.name = PASTED;
    /** A long text whose beginning is in the text field, else null. */
    this.whole = null;
    this.examples = exampleField(page, TEXTS, {
      reset: { point: "" },
      onpick: () => { this.shownText = this.shownWord = this.shownSenses = null; },
    });
    this.text = h("textarea", {
      rows: 4, dir: "auto", spellcheck: "false", autocomplete: "off",
      oninput: () => this.#type(),
      onpaste: (event) => this.#paste(event),
    });
    this.splitter = quietButton("", () => this.#setText(sentencesOf(this.#current()).join("\n"), this.name, true), { class: "quiet small" });
    this.files = h("input", { type: "file", multiple: true, accept: "text/*,.txt,.text,.log", onchange: () => this.#read() });
    this.remover = quietButton("Remove the text", () => this.#remove(), { class: "quiet small" });
    this.status = h("p", { class: "status", role: "status" });
    this.word = h("input", { type: "text", autocomplete: "off", spellcheck: "false", dir: "auto" });
    this.words = h("div", { class: "buttons", role: "group", "aria-label": "Frequent words" });
    this.number = selectBox(NUMBERS, "auto", (senses) => {
      // What is typed and not submitted yet waits for the button.
      if (this.#isSubmitted()) this.page.update({ senses, point: "" });
    });
    this.model = modelField(page);
    this.element = h(
      "form",
      {
        class: "card senses-form",
        onsubmit: (event) => {
          event.preventDefault();
          this.#submit({ word: this.word.value.trim() });
        },
      },
      this.examples.element,
      labeled("Sentences, one on each line", this.text),
      h("div", { class: "buttons" }, this.status, this.splitter, this.remover),
      h(
        "div",
        { class: "controls" },
        h("div", { class: "grow" }, labeled("Word", this.word)),
        h("button", {}, "Find senses"),
      ),
      this.words,
      optionDetails(labeled("Number of senses", this.number), this.model.element,
        labeled("Text files, chosen or dropped on this field", this.files)),
    );
  }

  /** Return the lines in the address; null if they were too long for it and are not known any more. */
  lines({ text, file }) {
    const all = file ? this.long.get(file) : text;
    return all === undefined ? null : linesOf(all);
  }

  /** Show the state. Do not overwrite what the reader is typing unless the address has other sentences. */
  show(state) {
    const text = (state.file ? this.long.get(state.file) : state.text) ?? "";
    if (text !== this.shownText) {
      this.shownText = text;
      this.#setText(text, state.file || PASTED);
    }
    if (state.word !== this.shownWord) this.word.value = state.word;
    this.shownWord = state.word;
    if (state.senses !== this.shownSenses) {
      setOptions(this.number, withValue(NUMBERS, state.senses), state.senses);
    }
    this.shownSenses = state.senses;
    this.model.show(state.model);
    this.examples.show(state);
    this.#markWords();
  }

  #type() {
    this.name = PASTED;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.#count();
      this.onchange();
    }, PAUSE);
  }

  /** Insert a long pasted text; the browser inserts others. */
  #paste(event) {
    const pasted = event.clipboardData.getData("text/plain").replaceAll(/\r\n?/g, "\n");
    if (this.whole !== null || !isLong(pasted)) return;
    event.preventDefault();
    const { value, selectionStart, selectionEnd } = this.text;
    this.#setText(value.slice(0, selectionStart) + pasted + value.slice(selectionEnd), PASTED, true);
  }

  /** Show a text. The text field has only the beginning of a long one, which cannot be edited. */
  #setText(text, name, isNew = false) {
    const long = isLong(text), shown = long ? beginningOf(text) : text;
    this.whole = long ? text : null;
    this.name = name;
    if (this.text.value !== shown) this.text.value = shown;
    this.text.readOnly = long;
    this.remover.hidden = !long;
    this.#count();
    if (isNew) this.onchange();
  }

  #remove() {
    this.#setText("", PASTED, true);
    this.text.focus();
  }

  /** Return the text that a request would have. */
  #current() {
    return this.whole ?? this.text.value;
  }

  /** Put the text of the chosen files into the text field. */
  async #read() {
    const files = [...this.files.files];
    if (!files.length) return;
    try {
      this.#setText(await readFiles(files), namesOf(files), true);
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      this.files.value = "";
      setText(this.status, error.message);
    }
  }

  /** Show the number of sentences and the frequent words. */
  #count() {
    clearTimeout(this.timer);
    const text = this.#current(), all = linesOf(text).length;
    const number = all === 1 ? "1 line" : `${count(all)} lines`;
    setText(this.status, this.whole === null ? `${number}.` : `${this.name}: ${number}; the field shows the beginning.`);
    const sentences = sentencesOf(text).length;
    this.splitter.hidden = sentences <= all;
    this.splitter.textContent = `Split into ${count(sentences)} sentences`;
    const words = frequentWords(text);
    this.words.hidden = !words.length;
    this.words.replaceChildren(h("span", { class: "status" }, "Frequent words:"), ...words.map(([word, times]) => quietButton(
      [h("bdi", {}, word), h("small", {}, ` ${count(times)}`)],
      () => this.#submit({ word }),
      { class: "quiet small", "data-word": word },
    )));
    this.#markWords();
  }

  #markWords() {
    for (const button of this.words.querySelectorAll("button")) {
      const same = button.dataset.word.toLowerCase() === this.shownWord?.toLowerCase();
      button.setAttribute("aria-pressed", String(same));
    }
  }

  #isSubmitted() {
    const shown = this.shownText.replaceAll(/\r\n?/g, "\n");
    return this.#current() === shown && this.word.value.trim() === this.shownWord;
  }

  #submit({ word }) {
    clearTimeout(this.timer);
    const text = this.#current();
    const long = isLong(text);
    if (long) this.long.set(this.name, text);
    // The form already shows the text.
    this.shownText = text;
    this.page.update(
      { text: long ? "" : text, file: long ? this.name : "", word, senses: this.number.value, point: "" },
      { push: true },
    );
  }
}

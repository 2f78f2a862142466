/** The form of Senses: examples, sentences and files, the word, and the number of senses. */

import { beginningOf, FileError, frequentWords, isLong, linesOf, namesOf, readFiles } from "./sentences.js";
import {
  exampleButtons, h, labeled, modelField, numbered, quietButton, selectBox, setOptions, withValue,
} from "../elements.js";
import { TEXTS } from "../examples.js";
import { count } from "../text.js";

/** Milliseconds after the last key until the sentences are counted. */
const PAUSE = 300;
const NUMBERS = [["auto", "automatic"], ...numbered(20, 1)];
/** The name of a long text that is not from a file. */
const PASTED = "pasted text";

export class SensesForm {
  /** `page` is the object that the view is built with. */
  constructor(page) {
    this.page = page;
    /** Texts that are too long for the address, by the name that the address has instead. */
    this.long = new Map();
    this.name = PASTED;
    /** A long text whose beginning is in the text field, else null. */
    this.whole = null;
    this.examples = exampleButtons(TEXTS.map((example) => [example.word, example]), (example) => this.#showExample(example));
    this.text = h("textarea", {
      rows: 8, dir: "auto", spellcheck: "false", autocomplete: "off",
      oninput: () => {
        this.name = PASTED;
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.#count(), PAUSE);
      },
      onpaste: (event) => this.#paste(event),
    });
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
      this.examples,
      this.#dropArea(),
      h(
        "div",
        { class: "controls" },
        h("div", { class: "grow" }, labeled("Word", this.word)),
        labeled("Number of senses", this.number),
        this.model.element,
        h("button", {}, "Find senses"),
      ),
      this.words,
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
    [...this.examples.children].forEach((button, i) => button.setAttribute("aria-pressed", String(TEXTS[i].text === text)));
    this.#markWords();
  }

  /** Return the text field and the file field; files can be dropped on both. */
  #dropArea() {
    const area = h("div", { class: "drop" }, labeled("Sentences, one on each line", this.text),
      h("div", { class: "buttons" }, this.status, this.remover),
      labeled("Text files, chosen or dropped here", this.files));
    const hasFiles = (event) => event.dataTransfer.types.includes("Files");
    area.addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      area.classList.add("over");
    });
    area.addEventListener("dragleave", () => area.classList.remove("over"));
    area.addEventListener("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      area.classList.remove("over");
      this.files.files = event.dataTransfer.files;
      this.#read();
    });
    return area;
  }

  /** Insert a long pasted text; the browser inserts others. */
  #paste(event) {
    const pasted = event.clipboardData.getData("text/plain").replaceAll(/\r\n?/g, "\n");
    if (this.whole !== null || !isLong(pasted)) return;
    event.preventDefault();
    const { value, selectionStart, selectionEnd } = this.text;
    this.#setText(value.slice(0, selectionStart) + pasted + value.slice(selectionEnd), PASTED);
  }

  /** Show a text. The text field has only the beginning of a long one, which cannot be edited. */
  #setText(text, name) {
    const long = isLong(text), shown = long ? beginningOf(text) : text;
    this.whole = long ? text : null;
    this.name = name;
    if (this.text.value !== shown) this.text.value = shown;
    this.text.readOnly = long;
    this.remover.hidden = !long;
    this.#count();
  }

  #remove() {
    this.#setText("", PASTED);
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
      this.#setText(await readFiles(files), namesOf(files));
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      this.files.value = "";
      this.#say(error.message);
    }
  }

  /** Show the number of sentences and the frequent words. */
  #count() {
    clearTimeout(this.timer);
    const text = this.#current(), all = linesOf(text).length;
    const number = all === 1 ? "1 sentence" : `${count(all)} sentences`;
    this.#say(this.whole === null ? `${number}.` : `${this.name}: ${number}; the field shows the beginning.`);
    const words = frequentWords(text);
    this.words.hidden = !words.length;
    this.words.replaceChildren(h("span", { class: "status" }, "Frequent words:"), ...words.map(([word, times]) => quietButton(
      [h("bdi", {}, word), h("small", {}, ` ${count(times)}`)],
      () => this.#submit({ word }),
      { class: "quiet small", "data-word": word },
    )));
    this.#markWords();
  }

  #say(sentence) {
    // Setting an equal text would announce it again.
    if (this.status.textContent !== sentence) this.status.textContent = sentence;
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

  #showExample({ word, senses, text }) {
    this.shownText = this.shownWord = this.shownSenses = null;
    this.page.update({ text, file: "", word, senses, point: "" }, { push: true });
  }

  #submit({ word }) {
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

/** The form of Senses: examples, sentences and files, the word, and the number of senses. */

import { FileError, frequentWords, linesOf, namesOf, readFiles, sentencesOf } from "./sentences.js";
import {
  choiceField, exampleField, h, labeled, modelField, numbered, quietButton, setText, textField,
} from "../elements.js";
import { TEXTS } from "../examples.js";
import { count, counted } from "../text.js";

/** Milliseconds after the last key until the sentences are counted. */
const PAUSE = 300;
const NUMBERS = [["auto", "automatic"], ...numbered(20, 1)];
/** The maximum length of a text in the address. Browsers accept addresses of about 1 MB, where a letter may need 9 characters. */
const MAX_LENGTH = 100_000;
/** The name of a long text that is not from a file. */
const PASTED = "pasted text";

export class SensesForm {
  /** `page` is the object that the view is made with; `onchange()` is called when the text is another one than the shown. */
  constructor(page, onchange) {
    Object.assign(this, { page, onchange });
    /** Texts that are too long for the address, by the name that the address has instead. */
    this.long = new Map();
    this.name = PASTED;
    this.examples = exampleField(page, TEXTS, { reset: { point: "", labels: "" }, onpick: () => {
      // Back returns to what was typed.
      if (this.isEdited) this.#submit({});
      this.shownText = null;
    } });
    this.text = h("textarea", {
      rows: 4, dir: "auto", spellcheck: "false", autocomplete: "off",
      oninput: () => this.#type(),
    });
    this.splitter = quietButton("", () => this.#setText(sentencesOf(this.text.value).join("\n"), this.name, true), { class: "quiet small" });
    this.files = h("input", { type: "file", multiple: true, accept: "text/*,.txt,.text,.log", onchange: () => this.#read() });
    this.status = h("p", { class: "status", role: "status" });
    this.word = textField("word", "Word");
    this.words = h("div", { class: "buttons", role: "group", "aria-label": "Frequent words" });
    // A choice submits what is typed.
    const submitting = { update: (changes) => this.#submit(changes) };
    this.number = choiceField(submitting, "senses", "Number of senses", NUMBERS);
    this.model = modelField(submitting);
    const submit = (event) => {
      event.preventDefault();
      this.#submit({});
    };
    this.element = h("form", { class: "card senses-form", onsubmit: submit },
      this.examples.element,
      labeled("Sentences, one on each line", this.text),
      h("div", { class: "buttons" }, this.status, this.splitter),
      h("div", { class: "controls" }, this.word.element, this.number.element, h("button", {}, "Find senses")),
      this.words,
      h("details", { class: "options" }, h("summary", {}, "Options"), h("div", { class: "controls" },
        this.model.element, labeled("Text files, chosen or dropped on this field", this.files))),
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
      this.submitted = this.text.value;
    }
    this.state = state;
    for (const field of [this.word, this.number, this.model, this.examples]) field.show(state);
    this.#markWords();
  }

  /** Whether the reader has typed another text than that of the state, and not submitted it. */
  get isEdited() {
    return this.text.value !== this.submitted;
  }

  /** Return what would help with the text. */
  hints() {
    return this.splitter.hidden ? [] : [`A line is one context, and these lines have more sentences: press “${this.splitter.textContent}” above.`];
  }

  #type() {
    this.name = PASTED;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.#count();
      this.onchange();
    }, PAUSE);
  }

  #setText(text, name, isNew = false) {
    this.name = name;
    if (this.text.value !== text) this.text.value = text;
    this.#count();
    if (isNew) this.onchange();
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
    const { value: text } = this.text, all = linesOf(text).length;
    setText(this.status, `${counted(all, "line")}.`);
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
      const isSame = button.dataset.word.toLowerCase() === this.state?.word.toLowerCase();
      button.setAttribute("aria-pressed", String(isSame));
    }
  }

  /** Show the senses of what is typed, with `changes`. */
  #submit(changes) {
    this.#count();
    const { value: text } = this.text, long = text.length > MAX_LENGTH;
    if (long) this.long.set(this.name, text);
    // The form already shows the text.
    this.shownText = text;
    this.submitted = text;
    this.page.update({
      text: long ? "" : text, file: long ? this.name : "", word: this.word.input.value.trim(), ...changes, point: "", labels: "",
    }, { push: true });
  }
}

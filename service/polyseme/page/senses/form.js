/** The form of Senses: examples, sentences and files, the word, and the number of senses. */

import { frequentWords, linesOf, readFiles, sentencesOf } from "./sentences.js";
import {
  afterPause, choiceField, exampleField, formElement, h, labeled, modelField, numbered, optionDetails, quietButton, setText, textField,
} from "../elements.js";
import { TEXTS } from "../examples.js";
import { count, counted } from "../text.js";

const NUMBERS = [["auto", "automatic"], ...numbered(20, 1)];
/** The maximum length of a text in the address. Browsers accept addresses of about 1 MB, where a letter may need 9 characters. */
const MAX_LENGTH = 100_000;
/** The maximum length of a text whose replacement can be undone. */
const MAX_UNDONE = 20_000;

export class SensesForm {
  constructor(page) {
    this.page = page;
    /** Texts that are too long for the address, by the number that the address has instead. */
    this.long = new Map();
    this.examples = exampleField(page, TEXTS, { reset: { point: "", labels: "" },
      // Back returns to what was typed.
      onpick: () => this.isEdited && this.#submit({}),
    });
    this.text = h("textarea", {
      rows: 4, dir: "auto", spellcheck: "false", autocomplete: "off",
      oninput: afterPause(() => this.#change()),
    });
    this.splitter = quietButton("", () => this.#replace(sentencesOf(this.text.value).join("\n")), { class: "quiet small" });
    this.files = h("input", { type: "file", multiple: true, accept: "text/*,.txt,.text,.log", onchange: () => this.#read() });
    this.status = h("p", { class: "status", role: "status" });
    this.word = textField("word", "Word");
    this.words = h("div", { class: "buttons", role: "group", "aria-label": "Frequent words" });
    // A choice submits what is typed.
    const submitting = { update: (changes) => this.#submit(changes) };
    this.number = choiceField(submitting, "senses", "Number of senses", NUMBERS);
    this.model = modelField(submitting);
    this.element = formElement("card senses-form", () => this.#submit({}),
      this.examples.element,
      labeled("Sentences, one on each line", this.text),
      h("div", { class: "buttons" }, this.status, this.splitter),
      h("div", { class: "controls" }, this.word.element, this.number.element, h("button", {}, "Find senses")),
      this.words,
      optionDetails(this.model, { element: labeled("Text files, chosen or dropped on this field", this.files) }).element,
    );
  }

  /** Return the lines in the address; null if they were too long for it and are not known any more. */
  lines({ text, long }) {
    const all = long ? this.long.get(long) : text;
    return all === undefined ? null : linesOf(all);
  }

  /** Show the state. Do not overwrite what the reader is typing unless the address has other sentences. */
  show(state) {
    // A text area has no other line ends.
    const text = (state.long ? this.long.get(state.long) : state.text)?.replaceAll(/\r\n?/g, "\n") ?? "";
    if (text !== this.shownText) {
      this.shownText = text;
      this.text.value = text;
      this.#count();
    }
    this.state = state;
    for (const field of [this.word, this.number, this.model, this.examples]) field.show(state);
    this.#markWords();
  }

  /** Whether the reader has typed another text than that of the state, and not submitted it. */
  get isEdited() {
    return this.text.value !== this.shownText;
  }

  /** Return what would help with the text. */
  hints() {
    return this.splitter.hidden ? [] : [`A line is one context, and these lines have more sentences: press “${this.splitter.textContent}” above.`];
  }

  /** Replace what is typed. Unlike a new value, an inserted text can be undone, but a long one takes seconds. */
  #replace(text) {
    this.text.focus();
    this.text.select();
    if (text.length > MAX_UNDONE) this.text.value = text;
    else document.execCommand("insertText", false, text);
    this.#change();
  }

  #change() {
    this.#count();
    this.page.update({});
  }

  /** Put the text of the chosen files into the text field. */
  async #read() {
    const files = [...this.files.files];
    if (!files.length) return;
    try {
      this.#replace(await readFiles(files));
    } catch (error) {
      this.files.value = "";
      setText(this.status, error.message);
    }
  }

  /** Show the number of sentences and the frequent words. */
  #count() {
    const { value: text } = this.text, all = linesOf(text).length;
    if (text === this.counted) return;
    this.counted = text;
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
    const { value: text } = this.text, shown = text === this.shownText && this.state.long;
    const long = text.length > MAX_LENGTH ? shown || String(Date.now()) : "";
    if (long) this.long.set(long, text);
    // The form already shows the text.
    this.shownText = text;
    this.page.update({
      text: long ? "" : text, long, word: this.word.input.value.trim(), ...changes, point: "", labels: "",
    }, { push: true });
  }
}

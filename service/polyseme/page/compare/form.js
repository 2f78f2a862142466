/** The form of Compare: examples, sentences, the word to compare in each, and settings. */

import { formatOccurrences, keepWord, MAX_OCCURRENCES, MIN_OCCURRENCES, tokenIndex, wordAt } from "./occurrences.js";
import { categoryColor } from "../colors.js";
import {
  caseField, choiceField, countField, exampleButtons, h, labeled, modelField, quietButton,
} from "../elements.js";
import { OCCURRENCES } from "../examples.js";
import { letter } from "../text.js";

/** Milliseconds after the last key until typed sentences are shown. */
const PAUSE = 300;
const COUNTS = ["3", "5", "8", "12", "20"];
const SHARES = [["", "the model's"], ...["0", "0.2", "0.5", "1", "2", "4"].map((share) => [share, share])];

export class CompareForm {
  /**
   * `page` is the object that the view is built with. `tokenize(texts)` resolves to the tokens, or null, for each
   * text (`OccurrenceTokens.load`). It resolves to undefined if the form called it again in the meantime.
   */
  constructor(page, tokenize) {
    this.page = page;
    this.tokenize = tokenize;
    this.fields = [];
    this.turn = 0;
    this.rows = h("div", { class: "occurrences" });
    this.examples = exampleButtons(OCCURRENCES, (occurrences) => this.#showExample(occurrences));
    this.adder = quietButton("Add a sentence", () => this.#add());
    this.limits = h("span", { class: "muted status", role: "status" });
    this.count = countField(page, "Number of neighbors", COUNTS);
    this.share = choiceField(page, "share", "Share of the static vector", SHARES);
    this.cases = caseField(page);
    this.model = modelField(page);
    this.element = h(
      "form",
      { class: "card compare-form", onsubmit: (event) => event.preventDefault() },
      this.examples,
      this.rows,
      h("div", { class: "buttons" }, this.adder, this.limits),
      h(
        "div",
        { class: "controls" },
        this.count.element, this.share.element, this.cases.element, this.model.element,
      ),
    );
  }

  /** Show the occurrences and settings in the address. */
  show(occurrences, state) {
    const json = formatOccurrences(occurrences);
    if (json !== this.json) this.#cancelRead();
    this.json = json;
    while (this.fields.length < occurrences.length) this.#appendField();
    while (this.fields.length > occurrences.length) this.fields.pop().element.remove();
    occurrences.forEach((occurrence, i) => this.fields[i].show(occurrence, i, occurrences.length > MIN_OCCURRENCES));
    this.adder.disabled = occurrences.length >= MAX_OCCURRENCES;
    let limits = "";
    if (occurrences.length >= MAX_OCCURRENCES) limits = "Compare shows at most eight sentences.";
    else if (occurrences.length <= MIN_OCCURRENCES) limits = "Compare needs at least two sentences.";
    // Setting an equal text would announce it again.
    if (this.limits.textContent !== limits) this.limits.textContent = limits;
    [...this.examples.children].forEach((button, i) => button.setAttribute("aria-pressed", String(OCCURRENCES[i][1] === json)));
    this.count.show(state.k);
    this.share.show(state.share);
    this.cases.show(state.case);
    this.model.show(state.model);
  }

  /** Show the tokens of each sentence. */
  showTokens(tokens) {
    this.fields.forEach((field, i) => field.showTokens(tokens[i]));
  }

  #appendField() {
    const field = new OccurrenceField({
      oninput: () => {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.#read(), PAUSE);
      },
      onsubmit: () => this.#read(),
      onpick: (i, token) => this.#pick(i, token),
      onremove: (i) => this.#remove(i),
    });
    this.fields.push(field);
    this.rows.append(field.element);
  }

  /**
   * Write the fields to the address; `change` may change, add or remove occurrences. Return false if the read
   * was canceled in the meantime.
   */
  async #read(change = (all) => all, options = {}) {
    const turn = this.#cancelRead();
    const texts = this.fields.map(({ text }) => text);
    const tokens = await this.tokenize(texts);
    if (!tokens || turn !== this.turn) return false;
    const words = this.fields.map(({ occurrence }) => occurrence.word);
    const occurrences = this.fields.map((field, i) => {
      const { occurrence, chosen } = field;
      if (texts[i] === occurrence.text) return occurrence;
      const others = words.filter((word, j) => j !== i && word);
      const kept = keepWord(chosen, tokens[i] ?? [], { before: field.tokens, others });
      return { ...kept, text: texts[i] };
    });
    this.fields.forEach((field, i) => field.markRead(occurrences[i]));
    // What the reader types from now on stays in the fields until the next read.
    this.json = formatOccurrences(change(occurrences));
    this.page.update({ occurrences: this.json }, options);
    return true;
  }

  /** Cancel scheduled and pending reads; return the number of the next. */
  #cancelRead() {
    clearTimeout(this.timer);
    this.turn += 1;
    return this.turn;
  }

  #pick(i, token) {
    const word = wordAt(token, this.fields[i].tokens);
    this.fields[i].chosen = word;
    const { text } = this.fields[i].occurrence;
    this.#read((all) => all.map((each, j) => (j === i && each.text === text ? { ...each, ...word } : each)));
  }

  #showExample(occurrences) {
    this.#cancelRead();
    for (const field of this.fields) field.forget();
    this.page.update({ occurrences }, { push: true });
  }

  async #add() {
    const count = this.fields.length;
    const added = await this.#read((all) => [...all, { text: "", word: "", nth: 0 }], { push: true });
    if (added) this.fields[count]?.input.focus();
  }

  async #remove(i) {
    const removed = await this.#read((all) => all.filter((_, j) => j !== i), { push: true });
    if (removed) this.fields[Math.min(i, this.fields.length - 1)].input.focus();
  }
}

/** Return a message about the first empty sentence, else "". */
export function emptySentence(occurrences) {
  const i = occurrences.findIndex(({ text }) => !text.trim());
  if (i < 0) return "";
  return `Sentence ${i + 1} (${letter(i)}) is empty. Type a sentence${occurrences.length > MIN_OCCURRENCES ? " or remove it" : ""}.`;
}

/** Return the letter of occurrence i in its color. */
export function badge(i) {
  const element = h("span", { class: "badge" }, letter(i));
  element.style.borderColor = categoryColor(i);
  return element;
}

/** A text field for a sentence, and buttons for its words. */
class OccurrenceField {
  /** `on` has the listeners `oninput()`, `onsubmit()` (Enter), `onpick(i, token)` and `onremove(i)`. */
  constructor(on) {
    this.on = on;
    /** The word that the reader chose. The sentence that is being typed may not contain it yet. */
    this.chosen = { word: "", nth: 0 };
    this.tokens = [];
    this.mark = h("span", {});
    this.input = h("input", {
      type: "text", dir: "auto", autocomplete: "off", spellcheck: "false",
      oninput: () => on.oninput(),
      onkeydown: (event) => {
        if (event.key === "Enter" && !event.isComposing) on.onsubmit();
      },
    });
    const field = labeled("", this.input);
    this.label = field.firstChild;
    this.remover = quietButton("Remove", () => on.onremove(this.number));
    this.words = h("div", { class: "words", role: "group" });
    this.missing = h("p", { class: "status", hidden: true },
      "The word to compare is not in this sentence. Press another word.");
    this.element = h(
      "div",
      { class: "occurrence" },
      h("div", { class: "occurrence-head" }, this.mark, field, this.remover),
      this.words,
      this.missing,
    );
  }

  /** The sentence as it is typed. */
  get text() {
    return this.input.value;
  }

  /** Show occurrence i. Do not overwrite what the reader is typing unless the address has another sentence. */
  show(occurrence, i, removable) {
    this.number = i;
    this.label.textContent = `Sentence ${i + 1}`;
    this.mark.replaceChildren(badge(i));
    this.words.setAttribute("aria-label", `Word of sentence ${i + 1} to compare`);
    this.remover.disabled = !removable;
    this.remover.setAttribute("aria-label", `Remove sentence ${i + 1}`);
    if (occurrence.text !== this.shown) this.input.value = occurrence.text;
    const same = ["text", "word", "nth"].every((name) => occurrence[name] === this.derived?.[name]);
    if (!same) this.chosen = occurrence;
    this.shown = occurrence.text;
    this.occurrence = occurrence;
  }

  /** Record the occurrence that was read from the typed sentence; its word may differ from the chosen word. */
  markRead(occurrence) {
    this.shown = occurrence.text;
    this.derived = occurrence;
  }

  /** Let the next `show` replace what is typed. */
  forget() {
    this.shown = null;
    this.derived = null;
  }

  /** Show the tokens of the sentence; null if they are not known. */
  showTokens(tokens) {
    this.tokens = tokens ?? [];
    const chosen = tokenIndex(this.occurrence, this.tokens);
    const drawn = JSON.stringify(this.tokens.map(({ text, resolution }) => [text, resolution]));
    if (drawn !== this.drawn) {
      this.words.replaceChildren(...this.tokens.map(({ text, resolution }, i) => h(
        "button",
        {
          type: "button", class: `word ${resolution}`, dir: "auto",
          onclick: () => this.on.onpick(this.number, i),
        },
        text,
        resolution === "oov" ? h("small", {}, "not in the vocabulary") : null,
      )));
      this.drawn = drawn;
    }
    this.missing.hidden = chosen >= 0 || !this.tokens.length;
    this.words.dir = getComputedStyle(this.input).direction;
    [...this.words.children].forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === chosen));
    });
  }
}

/** The form of Compare: examples, sentences, the word to compare in each, and settings. */

import {
  differ, folded, formatOccurrences, keepWord, MAX_OCCURRENCES, MIN_OCCURRENCES, sharedWord, tokenIndex, wordAt,
} from "./occurrences.js";
import { categoryColor } from "../colors.js";
import {
  caseField, choiceField, countField, exampleField, h, labeled, modelField, optionDetails, quietButton, setText,
} from "../elements.js";
import { OCCURRENCES } from "../examples.js";
import { joinNames, letter } from "../text.js";

/** Milliseconds after the last key until typed sentences are shown. */
const PAUSE = 300;
const COUNTS = ["3", "5", "8", "12", "20"];
const SHARES = [["", "as in the model"], ...["0", "0.2", "0.5", "1", "2", "4"].map((share) => [share, share])];

export class CompareForm {
  /**
   * `page` is the object that the view is built with. `tokenize(texts)` resolves to the tokens, or null, for each
   * text (`TokenCache.load`).
   */
  constructor(page, tokenize) {
    this.page = page;
    this.tokenize = tokenize;
    this.fields = [];
    this.turn = 0;
    this.rows = h("div", { class: "occurrences" });
    this.examples = exampleField(page, OCCURRENCES, {
      onpick: () => {
        this.#cancelRead();
        for (const field of this.fields) field.forget();
      },
    });
    this.adder = quietButton("Add a sentence", () => this.#add());
    this.limits = h("span", { class: "muted status", role: "status" });
    this.count = countField(page, "Number of neighbors", COUNTS);
    this.share = choiceField(page, "share", "Share of the static vector", SHARES);
    this.cases = caseField(page);
    this.model = modelField(page);
    this.second = modelField(page, "second", "Second model, beside it", "none");
    this.element = h(
      "form",
      { class: "card compare-form", onsubmit: (event) => event.preventDefault() },
      this.examples.element,
      this.rows,
      h("div", { class: "buttons" }, this.adder, this.limits),
      optionDetails(this.model.element, this.second.element, this.cases.element, this.count.element, this.share.element),
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
    const words = occurrences.map(({ word }) => word).filter(Boolean);
    let limits = occurrences.length < MAX_OCCURRENCES ? "" : "Compare shows at most eight sentences. ";
    if (differ(words)) limits += `The chosen words differ: ${joinNames([...new Set(words)])}. To see one word change, press it in each sentence.`;
    setText(this.limits, limits);
    this.examples.show({ ...state, occurrences: json });
    this.count.show(state.k);
    this.share.show(state.share);
    this.cases.show(state.case);
    this.model.show(state.model);
    this.second.show(state.second);
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
      onpaste: (i, lines) => this.#paste(i, lines),
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
    if (turn !== this.turn) return false;
    const sentences = tokens.filter(Boolean);
    const shared = sentences.length > 1 ? sharedWord(sentences[0], sentences.slice(1)) : "";
    const proposals = [shared, ...this.fields.map(({ chosen }) => chosen.word)].filter(Boolean);
    const occurrences = this.fields.map((field, i) => field.read(tokens[i] ?? [], proposals));
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
    Object.assign(this.fields[i], { chosen: word, proposed: false });
    const { text } = this.fields[i].occurrence;
    this.#read((all) => all.map((each, j) => (j === i && each.text === text ? { ...each, ...word } : each)));
  }

  /** Replace the sentences from field i on by pasted lines, and propose their words. */
  #paste(i, lines) {
    const texts = [...this.fields.slice(0, i).map(({ text }) => text), ...lines].slice(0, MAX_OCCURRENCES);
    const missing = Math.max(MIN_OCCURRENCES - texts.length, 0);
    const rows = [...texts, ...Array(missing).fill("")];
    while (this.fields.length < rows.length) this.#appendField();
    while (this.fields.length > rows.length) this.fields.pop().element.remove();
    rows.forEach((text, j) => this.fields[j].propose(text));
    this.#read((all) => all, { push: true });
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
  /** `on` has the listeners `oninput()`, `onsubmit()` (Enter), `onpick(i, token)`, `onpaste(i, lines)` and `onremove(i)`. */
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
      onpaste: (event) => {
        const lines = event.clipboardData.getData("text/plain").split(/[\r\n]+/).map((line) => line.trim()).filter(Boolean);
        if (lines.length < 2) return;
        event.preventDefault();
        on.onpaste(this.number, lines);
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
    this.remover.hidden = !removable;
    this.remover.setAttribute("aria-label", `Remove sentence ${i + 1}`);
    if (occurrence.text !== this.shown) this.input.value = occurrence.text;
    const same = ["text", "word", "nth"].every((name) => occurrence[name] === this.derived?.[name]);
    if (!same) {
      this.chosen = occurrence;
      this.proposed = false;
    }
    this.shown = occurrence.text;
    this.occurrence = occurrence;
  }

  /** Return the occurrence that is typed: its word is the chosen one, or one that is proposed. */
  read(tokens, proposals) {
    const { text, occurrence } = this;
    // The word of an unchanged sentence stays, unless the page proposed it.
    if (text === occurrence.text && !this.proposed) return occurrence;
    const word = keepWord(this.chosen, tokens, { before: this.tokens, proposals });
    this.proposed = folded(word.word) !== folded(this.chosen.word);
    this.shown = text;
    this.derived = { ...word, text };
    return this.derived;
  }

  /** Type a text, for which the next `read` proposes a word. */
  propose(text) {
    this.input.value = text;
    this.chosen = { word: "", nth: 0 };
    this.occurrence = { text: null, ...this.chosen };
    this.tokens = [];
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
        resolution === "oov" ? h("small", {}, "unknown") : null,
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

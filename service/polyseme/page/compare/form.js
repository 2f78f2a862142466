/** The form of Compare: examples, sentences, the word to compare in each, and settings. */

import { differ, formatOccurrences, MAX_OCCURRENCES, MIN_OCCURRENCES, tokenIndex, wordAt } from "./occurrences.js";
import { categoryColor } from "../colors.js";
import {
  caseField, choiceField, countField, exampleField, h, labeled, modelField, optionDetails, quietButton, setText,
} from "../elements.js";
import { OCCURRENCES } from "../examples.js";
import { joinNames, letter } from "../text.js";
import { WordButtons } from "../words.js";

/** Milliseconds after the last key until typed sentences are shown. */
const PAUSE = 300;
const COUNTS = ["3", "5", "8", "12", "20"];
/** The word of a sentence without a chosen word, for which one is proposed. */
const NO_WORD = { word: "", nth: 0 };
const SHARES = [["", "as in the model"], ...["0", "0.2", "0.5", "1", "2", "4"].map((share) => [share, share])];

export class CompareForm {
  /** `page` is the object that the view is made with. */
  constructor(page) {
    this.page = page;
    this.fields = [];
    this.rows = h("div", { class: "occurrences" });
    this.examples = exampleField(page, OCCURRENCES, {
      onpick: () => {
        // The example replaces what is typed, even if it is shown already.
        for (const field of this.fields) field.shown = null;
      },
    });
    this.adder = quietButton("Add a sentence", () => this.#add());
    this.limits = h("span", { class: "muted status", role: "status" });
    this.options = optionDetails(
      modelField(page), modelField(page, "second", "Second model, beside it", "none"), caseField(page),
      countField(page, "Number of neighbors", COUNTS), choiceField(page, "share", "Factor of the static vector", SHARES),
    );
    this.element = h(
      "form",
      { class: "card compare-form", onsubmit: (event) => event.preventDefault() },
      this.examples.element,
      this.rows,
      h("div", { class: "buttons" }, this.adder, h("span", { class: "muted status" }, "Several lines can be pasted at once."), this.limits),
      this.options.element,
    );
  }

  /** Show the occurrences and settings in the address. */
  show(occurrences, state) {
    this.rows.setAttribute("aria-busy", "true");
    while (this.fields.length > occurrences.length) this.fields.pop().element.remove();
    while (this.fields.length < occurrences.length) this.#appendField();
    this.occurrences = occurrences;
    occurrences.forEach(({ text }, i) => this.fields[i].show(text, i, occurrences.length > MIN_OCCURRENCES));
    this.adder.disabled = occurrences.length >= MAX_OCCURRENCES;
    this.examples.show({ ...state, occurrences: formatOccurrences(occurrences) });
    this.options.show(state);
  }

  /** Show the tokens of each sentence, with the compared words. */
  showTokens(tokens, compared) {
    this.rows.removeAttribute("aria-busy");
    this.fields.forEach(({ words }, i) => words.show(tokens[i] ?? [], tokenIndex(compared[i], tokens[i] ?? [])));
    const chosen = compared.filter(({ text }) => text.trim()).map(({ word }) => word).filter(Boolean);
    let limits = compared.length < MAX_OCCURRENCES ? "" : "Compare shows at most eight sentences. ";
    if (differ(chosen)) limits += `The chosen words differ: ${joinNames([...new Set(chosen)])}. To see one word change, press it in each sentence.`;
    setText(this.limits, limits);
  }

  #appendField() {
    const field = new OccurrenceField({
      oninput: () => {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.#update(this.#typed()), PAUSE);
      },
      onsubmit: () => this.#update(this.#typed()),
      onpick: (i, word) => this.#update(this.#typed().with(i, { text: this.fields[i].input.value, ...word })),
      onpaste: (i, lines) => {
        const pasted = lines.map((text) => ({ text, ...NO_WORD }));
        this.#update([...this.#typed().slice(0, i), ...pasted].slice(0, MAX_OCCURRENCES), { push: true });
      },
      onremove: (i) => {
        this.#update(this.#typed().toSpliced(i, 1), { push: true });
        this.fields[Math.min(i, this.fields.length - 1)].input.focus();
      },
    });
    this.fields.push(field);
    this.rows.append(field.element);
  }

  /** Return the occurrences with the sentences as they are typed. */
  #typed() {
    return this.occurrences.map((occurrence, i) => ({ ...occurrence, text: this.fields[i].input.value }));
  }

  #update(occurrences, options) {
    for (const field of this.fields) field.shown = field.input.value;
    this.page.update({ occurrences: formatOccurrences(occurrences) }, options);
  }

  #add() {
    this.#update([...this.#typed(), { text: "", ...NO_WORD }], { push: true });
    this.fields.at(-1).input.focus();
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
  /** `on` has the listeners `oninput()`, `onsubmit()` (Enter), `onpick(i, word)`, `onpaste(i, lines)` and `onremove(i)`. */
  constructor(on) {
    this.on = on;
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
    this.words = new WordButtons((token, tokens) => on.onpick(this.number, wordAt(token, tokens)));
    this.element = h(
      "div",
      { class: "occurrence" },
      h("div", { class: "occurrence-head" }, this.mark, field, this.remover),
      this.words.element,
    );
  }

  /** Show sentence i. Do not overwrite what the reader is typing unless the address has another sentence. */
  show(text, i, removable) {
    this.number = i;
    this.label.textContent = `Sentence ${i + 1}`;
    this.mark.replaceChildren(badge(i));
    this.words.element.setAttribute("aria-label", `Word of sentence ${i + 1} to compare`);
    this.remover.hidden = !removable;
    this.remover.setAttribute("aria-label", `Remove sentence ${i + 1}`);
    if (text !== this.shown) this.input.value = text;
    this.shown = text;
  }
}

/** The form of Compare: examples, sentences, the word to compare in each, and settings. */

import { differ, formatOccurrences, MAX_OCCURRENCES, MIN_OCCURRENCES, tokenIndex, wordAt } from "./occurrences.js";
import { categoryColor } from "../colors.js";
import {
  afterPause, caseField, choiceField, countField, exampleField, formElement, h, labeled, modelField, optionDetails, quietButton, setText,
} from "../elements.js";
import { OCCURRENCES } from "../examples.js";
import { joinNames, letter, shorten } from "../text.js";
import { WordButtons } from "../words.js";

/** The word of a sentence without a chosen word, for which one is proposed. */
const NO_WORD = { word: "", nth: 0 };
const SHARES = [["", "as in the model"], ...["0", "0.2", "0.5", "1", "2", "4"].map((share) => [share, share])];

export class CompareForm {
  /** `page` is the object that the view is made with. */
  constructor(page) {
    this.page = page;
    this.fields = [];
    this.typing = afterPause(() => this.#update(this.#typed()));
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
      countField(page, "Number of neighbors"), choiceField(page, "share", "Factor of the static vector", SHARES),
    );
    this.element = formElement(
      "card compare-form",
      () => {},
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
    while (this.fields.length < occurrences.length) this.#appendField(this.fields.length);
    this.occurrences = occurrences;
    occurrences.forEach(({ text }, i) => this.fields[i].show(text, occurrences.length > MIN_OCCURRENCES));
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
    if (differ(chosen)) limits += `The chosen words differ: ${joinNames([...new Set(chosen)].map((word) => shorten(word)))}. To see one word change, press it in each sentence.`;
    setText(this.limits, limits);
  }

  #appendField(i) {
    const field = new OccurrenceField(i, {
      oninput: this.typing,
      onsubmit: () => this.#update(this.#typed()),
      onpick: (word) => this.#update(this.#typed().with(i, { text: field.input.value, ...word })),
      onpaste: (lines) => {
        const pasted = lines.map((text) => ({ text, ...NO_WORD }));
        this.#update([...this.#typed().slice(0, i), ...pasted].slice(0, MAX_OCCURRENCES), { push: true });
      },
      onremove: () => {
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
export const badge = (i) => h("span", { class: "badge", style: { borderColor: categoryColor(i) } }, letter(i));

/** A text field for a sentence, and buttons for its words. */
class OccurrenceField {
  /** The field of sentence i; `on` has the listeners `oninput()`, `onsubmit()` (Enter), `onpick(word)`, `onpaste(lines)` and `onremove()`. */
  constructor(i, on) {
    this.input = h("input", {
      dir: "auto", autocomplete: "off", spellcheck: "false",
      oninput: on.oninput,
      onkeydown: (event) => {
        if (event.key === "Enter" && !event.isComposing) on.onsubmit();
      },
      onpaste: (event) => {
        const lines = event.clipboardData.getData("text/plain").split(/[\r\n]+/).map((line) => line.trim()).filter(Boolean);
        if (lines.length < 2) return;
        event.preventDefault();
        on.onpaste(lines);
      },
    });
    this.remover = quietButton("Remove", on.onremove, { "aria-label": `Remove sentence ${i + 1}` });
    this.words = new WordButtons((token, tokens) => on.onpick(wordAt(token, tokens)));
    this.words.element.setAttribute("aria-label", `Word of sentence ${i + 1} to compare`);
    this.element = h(
      "div",
      { class: "occurrence" },
      h("div", { class: "occurrence-head" }, badge(i), labeled(`Sentence ${i + 1}`, this.input), this.remover),
      this.words.element,
    );
  }

  /** Show the sentence. Do not overwrite what the reader is typing unless the address has another sentence. */
  show(text, removable) {
    this.remover.hidden = !removable;
    if (text !== this.shown) this.input.value = text;
    this.shown = text;
  }
}

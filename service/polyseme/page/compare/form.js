/** The form of Compare: examples, sentences, the word to compare in each, and settings. */

import { differ, formatOccurrences, MAX_OCCURRENCES, MIN_OCCURRENCES, tokenIndex, wordAt } from "./occurrences.js";
import { categoryColor } from "../colors.js";
import {
  afterPause, caseField, choiceField, countField, exampleField, formElement, h, modelField, optionDetails, quietButton, setText, textField,
} from "../elements.js";
import { OCCURRENCES } from "../examples.js";
import { joinNames, letter, shorten } from "../text.js";
import { WordButtons } from "../words.js";

/** The word of a sentence without a chosen word, for which one is proposed. */
const NO_WORD = { word: "", nth: 0 };
const SHARES = [["", "as in the model"], ...["0", "0.2", "0.5", "1", "2", "4"].map((share) => [share, share])];

export class CompareForm {
  constructor(page) {
    this.page = page;
    this.fields = [];
    this.typing = afterPause(() => this.#update(this.#typed()));
    this.rows = h("div", { class: "occurrences" });
    this.examples = exampleField(page, OCCURRENCES, {
      onpick: () => {
        // The example replaces what is typed, even if it is shown already.
        for (const { sentence } of this.fields) sentence.shown = null;
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
    this.fields.forEach(({ sentence, remover }, i) => {
      sentence.show(occurrences[i]);
      remover.hidden = occurrences.length <= MIN_OCCURRENCES;
    });
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

  /** Append a text field for sentence i, and buttons for its words. */
  #appendField(i) {
    const sentence = textField("text", `Sentence ${i + 1}`, {
      oninput: this.typing,
      onkeydown: (event) => {
        if (event.key === "Enter" && !event.isComposing) this.#update(this.#typed());
      },
      onpaste: (event) => this.#paste(event, i),
    });
    const remover = quietButton("Remove", () => {
      this.#update(this.#typed().toSpliced(i, 1), { push: true });
      this.fields[Math.min(i, this.fields.length - 1)].sentence.input.focus();
    }, { "aria-label": `Remove sentence ${i + 1}` });
    const words = new WordButtons((token, tokens) =>
      this.#update(this.#typed().with(i, { text: sentence.input.value, ...wordAt(token, tokens) })));
    words.element.setAttribute("aria-label", `Word of sentence ${i + 1} to compare`);
    const element = h(
      "div",
      { class: "occurrence" },
      h("div", { class: "occurrence-head" }, badge(i), sentence.element, remover),
      words.element,
    );
    this.fields.push({ sentence, remover, words, element });
    this.rows.append(element);
  }

  /** Replace the sentences from i on if several lines are pasted. */
  #paste(event, i) {
    const lines = event.clipboardData.getData("text/plain").split(/[\r\n]+/).map((line) => line.trim()).filter(Boolean);
    if (lines.length < 2) return;
    event.preventDefault();
    const pasted = lines.map((text) => ({ text, ...NO_WORD }));
    this.#update([...this.#typed().slice(0, i), ...pasted].slice(0, MAX_OCCURRENCES), { push: true });
  }

  /** Return the occurrences with the sentences as they are typed. */
  #typed() {
    return this.occurrences.map((occurrence, i) => ({ ...occurrence, text: this.fields[i].sentence.input.value }));
  }

  #update(occurrences, options) {
    for (const { sentence } of this.fields) sentence.shown = sentence.input.value;
    this.page.update({ occurrences: formatOccurrences(occurrences) }, options);
  }

  #add() {
    this.#update([...this.#typed(), { text: "", ...NO_WORD }], { push: true });
    this.fields.at(-1).sentence.input.focus();
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

/** What is compared: examples, sentences and their words, and the settings. */

import { caseField } from "../frame/case_field.js";
import { h } from "../frame/elements.js";
import { EXAMPLES } from "./examples.js";
import { letter } from "../figures/letters.js";
import { manyField } from "../frame/many_field.js";
import { modelField } from "../frame/model_field.js";
import { OccurrenceField } from "./occurrence_field.js";
import { FEWEST, MOST, named, picked, written } from "./occurrences.js";

const PAUSE = 300;
const MANY = ["3", "5", "8", "12", "20"];

/** The form; `show(occurrences, state)` has what the address says, `offer(tokens)` the words. */
export class CompareForm {
  /**
   * `page` is what a view is given. `cut(texts)` gives the tokens of each text (`null` where the
   * service refuses), or nothing at all where a newer question of the form overtook this one.
   */
  constructor(page, cut) {
    this.page = page;
    this.cut = cut;
    this.fields = [];
    this.rows = h("div", { class: "occurrences" });
    this.examples = EXAMPLES.map(([name, occurrences]) =>
      h("button", { type: "button", class: "quiet", onclick: () => this.#example(occurrences) }, name));
    this.adder = h("button", { type: "button", class: "quiet", onclick: () => this.#add() }, "Add a sentence");
    this.limits = h("span", { class: "muted said", role: "status" });
    this.element = h(
      "form",
      { class: "card compare-form", onsubmit: (event) => event.preventDefault() },
      h("div", { class: "buttons", role: "group", "aria-label": "Examples" }, this.examples),
      this.rows,
      h("div", { class: "buttons" }, this.adder, this.limits),
      this.#settings(),
    );
  }

  #settings() {
    this.many = manyField(this.page, "Neighbours of each", MANY);
    this.cases = caseField(this.page);
    this.model = modelField(this.page);
    return h(
      "div",
      { class: "controls" },
      this.many.element,
      this.cases.element,
      this.model.element,
    );
  }

  show(occurrences, state) {
    const json = written(occurrences);
    if (json !== this.json) this.#overtake();
    this.json = json;
    while (this.fields.length < occurrences.length) this.#grow();
    while (this.fields.length > occurrences.length) this.fields.pop().element.remove();
    occurrences.forEach((one, i) => this.fields[i].show(one, i, occurrences.length > FEWEST));
    this.adder.disabled = occurrences.length >= MOST;
    const limits = occurrences.length >= MOST
      ? "Eight sentences are the most that this view compares."
      : occurrences.length <= FEWEST ? "Two sentences are the least: none can be removed." : "";
    // Written anew, it would be said anew.
    if (this.limits.textContent !== limits) this.limits.textContent = limits;
    this.examples.forEach((button, i) => button.setAttribute("aria-pressed", String(EXAMPLES[i][1] === json)));
    this.many.show(state.k);
    this.cases.show(state.case);
    this.model.show(state.model);
  }

  /** Show the words of each sentence. */
  offer(tokens) {
    this.fields.forEach((field, i) => field.offer(tokens[i]));
  }

  #grow() {
    const field = new OccurrenceField({
      typed: () => {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.#read(), PAUSE);
      },
      sent: () => this.#read(),
      picked: (i, token) => this.#pick(i, token),
      removed: (i) => this.#remove(i),
    });
    this.fields.push(field);
    this.rows.append(field.element);
  }

  /** Go to what the fields say; `change` may add to it or take from it. */
  async #read(change = (all) => all, options = {}) {
    const turn = this.#overtake();
    const texts = this.fields.map(({ text }) => text);
    const tokens = await this.cut(texts);
    if (!tokens || turn !== this.turn) return false;
    const words = this.fields.map(({ occurrence }) => occurrence.word);
    const occurrences = this.fields.map((field, i) => {
      const { occurrence, chosen } = field;
      if (texts[i] === occurrence.text) return occurrence;
      const others = words.filter((word, j) => j !== i && word);
      const found = picked(chosen, tokens[i] ?? [], { before: field.tokens, others });
      return { ...found, text: texts[i] };
    });
    this.fields.forEach((field, i) => field.read(occurrences[i]));
    // What is typed from here on stays, and is read in its turn.
    this.json = written(change(occurrences));
    this.page.go({ occurrences: this.json }, options);
    return true;
  }

  /** Whatever was still to be read is not any more. */
  #overtake() {
    clearTimeout(this.timer);
    this.turn = (this.turn ?? 0) + 1;
    return this.turn;
  }

  #pick(i, token) {
    const word = named(token, this.fields[i].tokens);
    this.fields[i].chosen = word;
    const { text } = this.fields[i].occurrence;
    this.#read((all) => all.map((one, j) => (j === i && one.text === text ? { ...one, ...word } : one)));
  }

  #example(occurrences) {
    this.#overtake();
    for (const field of this.fields) field.forget();
    this.page.go({ occurrences }, { push: true });
  }

  async #add() {
    const there = this.fields.length;
    const added = await this.#read((all) => [...all, { text: "", word: "", nth: 0 }], { push: true });
    if (added) this.fields[there]?.input.focus();
  }

  async #remove(i) {
    const removed = await this.#read((all) => all.filter((_, j) => j !== i), { push: true });
    if (removed) this.fields[Math.min(i, this.fields.length - 1)].input.focus();
  }
}

/** The sentences that say nothing, in words; empty where there are none. */
export function emptySaid(occurrences) {
  const empty = occurrences.flatMap(({ text }, i) => (text.trim() ? [] : [i]));
  if (!empty.length) return "";
  const [first] = empty;
  return `Sentence ${first + 1} (${letter(first)}) is empty: type one${
    occurrences.length > FEWEST ? ", or remove it" : ""}.`;
}

/** One occurrence to choose: a sentence, and the word of it that is compared. */

import { thingColour } from "../frame/colours.js";
import { h, labelled } from "../frame/elements.js";
import { letter } from "../figures/letters.js";
import { placeOf } from "./occurrences.js";

/** A letter in the colour of its occurrence. */
export function badge(i) {
  const element = h("span", { class: "badge" }, letter(i));
  element.style.borderColor = thingColour(i);
  return element;
}

const same = (a, b) => a.text === b?.text && a.word === b.word && a.nth === b.nth;

/**
 * `text` is what is typed; `show` draws what the address says. `told` has what to do: `typed()`,
 * `sent()` (Enter), `picked(i, token)` and `removed(i)`.
 */
export class OccurrenceField {
  constructor(told) {
    this.told = told;
    /** the word that the reader chose, also while a sentence that is being typed lacks it */
    this.chosen = { word: "", nth: 0 };
    this.tokens = [];
    this.mark = h("span", {});
    this.input = h("input", {
      type: "text", dir: "auto", autocomplete: "off", spellcheck: "false",
      oninput: () => told.typed(),
      onkeydown: (event) => {
        if (event.key === "Enter" && !event.isComposing) told.sent();
      },
    });
    const field = labelled("", this.input);
    this.label = field.firstChild;
    this.remover = h("button", {
      type: "button", class: "quiet", onclick: () => told.removed(this.number),
    }, "Remove");
    this.words = h("div", { class: "words", role: "group" });
    this.missing = h("p", { class: "said", hidden: true }, "The word to compare is not in this sentence: press another.");
    this.element = h(
      "div",
      { class: "occurrence" },
      h("div", { class: "occurrence-head" }, this.mark, field, this.remover),
      this.words,
      this.missing,
    );
  }

  get text() {
    return this.input.value;
  }

  /** Show the i-th occurrence; what is being typed stays until the address says another sentence. */
  show(occurrence, i, removable) {
    this.number = i;
    this.label.textContent = `Sentence ${i + 1}`;
    this.mark.replaceChildren(badge(i));
    this.words.setAttribute("aria-label", `Word of sentence ${i + 1} to compare`);
    this.remover.disabled = !removable;
    this.remover.setAttribute("aria-label", `Remove sentence ${i + 1}`);
    if (occurrence.text !== this.shown) this.input.value = occurrence.text;
    if (!same(occurrence, this.derived)) this.chosen = occurrence;
    this.shown = occurrence.text;
    this.occurrence = occurrence;
  }

  /** What is typed was read as this occurrence, whose word the reader need not have chosen. */
  read(occurrence) {
    this.shown = occurrence.text;
    this.derived = occurrence;
  }

  /** Let the address say all again. */
  forget() {
    this.shown = null;
    this.derived = null;
  }

  /** The words of the sentence, once the service has cut it; `null` where it did not. */
  offer(tokens) {
    this.tokens = tokens ?? [];
    const place = placeOf(this.occurrence, this.tokens);
    const asked = JSON.stringify(this.tokens.map(({ text, resolution }) => [text, resolution]));
    if (asked !== this.asked) {
      this.words.replaceChildren(...this.tokens.map((token, i) => this.#word(token, i)));
      this.asked = asked;
    }
    this.missing.hidden = place >= 0 || !this.tokens.length;
    this.words.dir = getComputedStyle(this.input).direction;
    [...this.words.children].forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === place));
    });
  }

  #word({ text, resolution }, i) {
    return h(
      "button",
      {
        type: "button", class: `word ${resolution}`, dir: "auto",
        onclick: () => this.told.picked(this.number, i),
      },
      text,
      resolution === "oov" ? h("small", {}, "not in the vocabulary") : null,
    );
  }
}

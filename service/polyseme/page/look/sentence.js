/** The sentence and how it is read: what a reader types and chooses. */

import { caseField } from "../frame/case_field.js";
import { choice, h, labelled } from "../frame/elements.js";
import { modelField } from "../frame/model_field.js";
import { EXAMPLES } from "./examples.js";

const PAUSE = 250;
const UNKNOWN = [
  ["", "as the model does"],
  ["zero", "zero vector"],
  ["subword", "from subwords"],
  ["error", "refuse"],
];
/** What belongs to one sentence and not to the next. */
const OF_A_SENTENCE = { word: "", row: "", column: "" };

export class Sentence {
  constructor(page) {
    this.page = page;
    this.typed = null;
    this.text = h("textarea", {
      rows: 2, dir: "auto", spellcheck: "false", autocomplete: "off",
      oninput: () => this.#typed(),
      onkeydown: (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        this.#sent(this.text.value);
      },
    });
    this.cases = caseField(page);
    this.unknown = choice(UNKNOWN, "", (oov) => page.go({ oov }));
    this.model = modelField(page);
    this.element = this.#form();
  }

  #form() {
    const send = (event) => {
      event.preventDefault();
      this.#sent(this.text.value);
    };
    return h(
      "form",
      { class: "card sentence", onsubmit: send },
      labelled("Sentence", this.text),
      h("div", { class: "controls" },
        h("div", { class: "buttons grow", role: "group", "aria-label": "Examples" },
          EXAMPLES.map(([name, text]) => h(
            "button",
            { type: "button", class: "quiet", onclick: () => this.#sent(text) },
            name,
          ))),
        this.cases.element,
        labelled("Unknown words", this.unknown),
        this.model.element,
        h("button", {}, "Look")),
    );
  }

  show(state) {
    if (state.text !== this.shown) {
      clearTimeout(this.timer);
      this.timer = null;
      this.text.value = state.text;
      this.shown = state.text;
    }
    this.cases.show(state.case);
    this.unknown.value = state.oov;
    this.model.show(state.model);
  }

  #typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const begun = !this.#typing();
      this.typed = this.text.value;
      this.#go(this.typed, begun && this.typed !== this.shown);
    }, PAUSE);
  }

  /** Whether the page shows what is typed: it is a step that what is typed next, or sent, replaces. */
  #typing() {
    return this.typed !== null && this.typed === this.shown;
  }

  /** A sentence to come back to. */
  #sent(text) {
    const push = text !== this.shown && !this.#typing();
    this.typed = null;
    this.#go(text, push);
  }

  #go(text, push) {
    clearTimeout(this.timer);
    const changed = this.shown !== text;
    // `show` need not write what is there already: that would move the caret.
    if (this.text.value === text) this.shown = text;
    this.page.go(changed ? { text, ...OF_A_SENTENCE } : {}, { push });
  }
}

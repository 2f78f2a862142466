/** The view Attention: a sentence, its tokens, the attention between them, and their vectors. */

import { EncodedSentence } from "./sentence.js";
import { AttentionFigure, WeightTable } from "./weights.js";
import { TokenFigures } from "./token.js";
import {
  caseField, choiceField, exampleField, h, labeled, modelAndCase, modelField, optionDetails, rovingTabindex, viewElement,
} from "../elements.js";
import { SENTENCES } from "../examples.js";
import { Exchange } from "../exchange.js";
import { count } from "../text.js";

/** Thumbnails of up to 5 layers and 4 heads fit beside the figure; more are above it. */
const MAX_BESIDE = 5;

/** Build the view. It is built once. */
export const build = (page) => new AttentionView(page);

class AttentionView {
  constructor(page) {
    this.results = h("div", { class: "results attention" });
    this.exchange = new Exchange("polyseme-encode", this.results);
    this.form = new SentenceForm(page);
    this.attention = new AttentionFigure(page);
    this.token = new TokenFigures(page);
    this.tokens = new TokenList(this.token.result, (token) => page.update({ word: String(token) }));
    this.table = new WeightTable();
    this.main = h("div", { class: "main" },
      this.attention.figure.element,
      h("div", { class: "beside" }, this.attention.chooser, this.token.parts.element));
    this.results.append(
      this.tokens.element, this.main, this.token.element, this.table.element, this.exchange.source,
    );
    this.element = viewElement("Attention",
      "A word has one static vector; attention to the other words of a sentence turns it into a contextual vector.", this.form.element, this.exchange.problem, this.results);
  }

  async show(state) {
    this.form.show(state);
    if (!state.text.trim()) return this.exchange.clear("Type a sentence to see the attention between its words.");
    const response = await this.exchange.request("v1/encode", {
      input: state.text,
      include: ["static", "contextual", "attention", "contributions"],
      ...modelAndCase(state),
      ...(state.oov && { oov: state.oov }),
    });
    if (!response) return;
    if (response !== this.response) this.encoded = new EncodedSentence(response, state.text);
    this.response = response;
    const { encoded } = this;
    if (!encoded.words.length) return this.exchange.clear("This sentence contains no word.");
    const token = encoded.token(state.word);
    this.main.classList.toggle("many", encoded.heads >= MAX_BESIDE || encoded.layers > MAX_BESIDE);
    this.tokens.show(encoded, token);
    this.attention.show(encoded, state, token);
    this.token.show(encoded, token, state);
    const { weights, weightsName, contributes } = this.attention;
    this.table.show(encoded.words, encoded.columns(contributes ? "contributions" : "mean"), weights, weightsName);
    this.exchange.reportDrawn();
  }
}

/** Milliseconds after the last key until the typed sentence is shown. */
const PAUSE = 250;
const UNKNOWN = [
  ["", "as in the model"],
  ["zero", "zero vector"],
  ["subword", "from subwords"],
  ["error", "reject"],
];

/** The form: the sentence, and the settings for looking up its words. */
class SentenceForm {
  constructor(page) {
    this.page = page;
    this.typed = null;
    this.text = h("textarea", {
      rows: 2, dir: "auto", spellcheck: "false", autocomplete: "off",
      oninput: () => this.#schedule(),
      onkeydown: (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        this.#submit(this.text.value);
      },
    });
    this.examples = exampleField(page, SENTENCES, { reset: { word: "", row: "", column: "" } });
    this.cases = caseField(page);
    this.unknown = choiceField(page, "oov", "Unknown words", UNKNOWN);
    this.model = modelField(page);
    const submit = (event) => {
      event.preventDefault();
      this.#submit(this.text.value);
    };
    this.element = h(
      "form",
      { class: "card sentence", onsubmit: submit },
      this.examples.element,
      h("div", { class: "controls" }, h("div", { class: "grow" }, labeled("Sentence", this.text)),
        h("button", {}, "Show attention")),
      optionDetails(this.cases.element, this.unknown.element, this.model.element),
    );
  }

  show(state) {
    // Do not overwrite what the reader is typing unless the address has another sentence.
    if (state.text !== this.shown) {
      clearTimeout(this.timer);
      this.timer = null;
      this.text.value = state.text;
      this.shown = state.text;
    }
    this.examples.show(state);
    this.cases.show(state.case);
    this.unknown.show(state.oov);
    this.model.show(state.model);
  }

  #schedule() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const first = !this.#isTyping();
      this.typed = this.text.value;
      this.#update(this.typed, first && this.typed !== this.shown);
    }, PAUSE);
  }

  /** Whether the page shows a sentence that is being typed; all states of it are one history entry. */
  #isTyping() {
    return this.typed !== null && this.typed === this.shown;
  }

  /** Show a finished sentence, with a new history entry unless typing it has added one. */
  #submit(text) {
    const typed = this.#isTyping() && text === this.text.value;
    const push = text !== this.shown && !typed;
    this.typed = null;
    this.#update(text, push);
  }

  #update(text, push) {
    clearTimeout(this.timer);
    const changed = this.shown !== text;
    // Setting the same text again would move the caret.
    if (this.text.value === text) this.shown = text;
    // The chosen token and cell belong to the previous sentence.
    this.page.update(changed ? { text, word: "", row: "", column: "" } : {}, { push });
  }
}

/** The name and meaning of resolutions; a word that is found as it is written has none. */
const OTHER_CASE = ["other case", "found in another case"];
const RESOLUTIONS = {
  lower: OTHER_CASE, capitalised: OTHER_CASE, upper: OTHER_CASE,
  subword: ["subword", "not in the vocabulary: its vector is made of parts of words"],
  oov: ["unknown", "not in the vocabulary"],
};

/** The tokens of the sentence with their resolutions, to choose one. */
class TokenList {
  /** `result` is shown above the tokens; `onpick(token)` is called with the index of a pressed token. */
  constructor(result, onpick) {
    this.onpick = onpick;
    this.list = h("ul", { class: "words" });
    this.setStop = rovingTabindex(this.list);
    this.usage = h("span", { class: "usage" });
    this.element = h(
      "section",
      { class: "card", "aria-label": "Words" },
      result,
      this.list,
      h("p", { class: "muted" }, this.usage, " Choose a word to see its attention and its vectors."),
    );
  }

  /** Show the tokens and mark the chosen one. */
  show(encoded, chosen) {
    if (encoded !== this.encoded) this.#draw(encoded);
    this.encoded = encoded;
    this.buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === chosen));
    if (!this.list.contains(document.activeElement)) this.setStop(this.buttons[chosen]);
  }

  #draw({ tokens, usage, direction }) {
    this.list.dir = direction;
    this.buttons = tokens.map((token, i) => h(
      "button",
      {
        type: "button", class: `word ${token.resolution}`, title: RESOLUTIONS[token.resolution]?.[1], onclick: () => this.onpick(i),
      },
      h("bdi", {}, token.text),
      RESOLUTIONS[token.resolution] ? h("small", {}, resolutionText(token)) : null,
    ));
    this.list.replaceChildren(...this.buttons.map((button) => h("li", {}, button)));
    this.usage.textContent = usageText(tokens, usage.oov);
  }
}

function resolutionText({ text, key, resolution }) {
  const [name] = RESOLUTIONS[resolution];
  return key !== null && key !== text ? `${name}: ${key}` : name;
}

/** Return a sentence with the number of words, and what happens to unknown words. */
function usageText(tokens, unknown) {
  const all = tokens.length;
  const words = all === 1 ? "1 word" : `${count(all)} words`;
  const composed = tokens.filter(({ resolution }) => resolution === "subword").length;
  const subwords = composed ? ` ${count(composed)} composed of subwords.` : "";
  if (!unknown) return `${words}, none unknown.${subwords}`;
  // If no word is known, each attends to itself.
  let sentence = `${count(unknown)} of them unknown: their static vectors are zero and no word attends to them.`;
  if (all === 1) sentence = "unknown: its static vector is zero and it attends to itself.";
  else if (unknown === all) sentence = "all unknown: their static vectors are zero and each attends to itself.";
  else if (unknown === 1) sentence = "1 of them unknown: its static vector is zero and no word attends to it.";
  return `${words}, ${sentence}${subwords}`;
}

/** The words of the sentence, each with how it was found, to choose one. */

import { h } from "../frame/elements.js";
import { count } from "../frame/numbers.js";
import { roving } from "../figures/roving.js";

const KINDS = [
  ["exact", "exact", "as it is written"],
  ["lower", "other case", "its lower-case, capitalised or upper-case form"],
  ["subword", "subword", "made from its parts"],
  ["oov", "unknown", "not in the vocabulary"],
];

export class Words {
  /** `onpick(token)`: a word was pressed. */
  constructor(onpick) {
    this.onpick = onpick;
    this.list = h("ul", { class: "words" });
    this.stop = roving(this.list);
    this.usage = h("p", { class: "usage" });
    this.element = h(
      "section",
      { class: "card", "aria-label": "Words" },
      h("h3", {}, "Words"),
      h("p", { class: "muted" }, "Choose one to follow it through the pictures."),
      this.list,
      this.usage,
      h("ul", { class: "found" }, KINDS.map(([kind, name, meaning]) =>
        h("li", {}, h("span", { class: `word ${kind}` }, name), ` ${meaning}`))),
    );
  }

  /** Show a reading and which of its words is chosen. */
  show(reading, chosen) {
    if (reading !== this.reading) this.#draw(reading);
    this.reading = reading;
    this.buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === chosen));
    if (!this.list.contains(document.activeElement)) this.stop(this.buttons[chosen]);
  }

  #draw({ tokens, usage, direction }) {
    this.list.dir = direction;
    this.buttons = tokens.map((token, i) => h(
      "button",
      { type: "button", class: `word ${token.resolution}`, onclick: () => this.onpick(i) },
      h("bdi", {}, token.text),
      h("small", {}, howFound(token)),
    ));
    this.list.replaceChildren(...this.buttons.map((button) => h("li", {}, button)));
    this.usage.textContent = counted(tokens, usage);
  }
}

function howFound({ text, key, resolution }) {
  if (resolution === "oov") return "unknown";
  return key !== null && key !== text ? `${resolution}: ${key}` : resolution;
}

function counted(tokens, usage) {
  const words = tokens.length === 1 ? "1 word" : `${count(tokens.length)} words`;
  const parts = tokens.filter(({ resolution }) => resolution === "subword").length;
  const made = parts ? ` ${count(parts)} made from subwords.` : "";
  if (!usage.oov) return `${words}, none unknown.${made}`;
  return `${words}, ${unknown(usage.oov, tokens.length)}${made}`;
}

function unknown(some, all) {
  // With no known word to look at, each looks at itself.
  if (all === 1) return "unknown: its static vector is zero and it looks at itself.";
  if (some === all) return "all unknown: their static vectors are zero and each looks at itself.";
  if (some === 1) return "1 of them unknown: its static vector is zero and no word looks at it.";
  return `${count(some)} of them unknown: their static vectors are zero and no word looks at them.`;
}

/** The models that are loaded: what they are, how large, trained on what, how good. */

import { h } from "../frame/elements.js";
import { Exchange } from "../frame/exchange.js";
import { facts, named } from "./facts.js";
import { Figure } from "../frame/figure.js";
import { bars } from "../figures/bars.js";
import { bytes, count, decimals } from "../frame/numbers.js";

const SETS = { coarsewsd: "CoarseWSD-20", wic: "WiC" };
const DTYPES = { int8: "8-bit integers", float16: "16-bit floats", float32: "32-bit floats" };

class Models {
  constructor(page) {
    this.page = page;
    this.results = h("div", { class: "results" });
    this.exchange = new Exchange("polyseme-models", this.results);
    this.figure = new Figure("polyseme-quality", "How well they separate senses");
    this.figure.caption.textContent =
      "In percent, as each model's manifest says. That no model was trained on these sets is the word of its makers.";
    this.cards = h("div", { class: "models" });
    this.results.append(this.cards, this.figure.element, this.exchange.source);
    this.element = h(
      "section",
      { "aria-label": "Models" },
      h(
        "div",
        { class: "intro" },
        h("h2", {}, "Models"),
        h("p", {}, "What this service has loaded. A request chooses by ", h("code", {}, "model"),
          "; the default answers where none is named."),
      ),
      this.exchange.problem,
      this.results,
    );
  }

  async show({ model: open }) {
    const answer = await this.exchange.ask("v1/models");
    if (!answer) return;
    // Made once for each answer: what has the focus there keeps it.
    if (answer !== this.shown) this.cards.replaceChildren(...answer.data.map((model) => this.#card(model)));
    if (answer !== this.shown || open !== this.open) this.#unfold(open);
    this.shown = answer;
    this.#quality(answer.data);
    this.exchange.drawn();
  }

  #unfold(open) {
    this.open = open;
    for (const details of this.cards.querySelectorAll("details[data-model]")) {
      details.open = details.dataset.model === open;
    }
  }

  #card(model) {
    const whole = model.dimension !== undefined;
    return h(
      "article",
      { class: "card model", "aria-label": model.id },
      h(
        "div",
        { class: "model-head" },
        h("h3", {}, model.id),
        model.default ? h("span", { class: "badge" }, "default") : null,
        model.status === "broken" ? h("span", { class: "badge bad" }, "broken") : null,
      ),
      model.problem ? h("p", { class: "problem" }, model.problem) : null,
      whole ? facts(summary(model)) : null,
      whole && model.status === "ok" ? this.#links(model) : null,
      whole ? this.#training(model) : null,
    );
  }

  #links({ id, default: first }) {
    const state = first ? {} : { model: id };
    return h(
      "p",
      { class: "links" },
      h("a", { href: this.page.address("look", state) }, "Look with it"),
      " · ",
      h("a", { href: this.page.address("compare", state) }, "Compare with it"),
      " · ",
      h("a", { href: this.page.address("neighbours", state) }, "Its neighbours"),
    );
  }

  /** Everything the manifest says of the training; opened, it is part of the address. */
  #training({ id, training }) {
    if (!training || !Object.keys(training).length) return null;
    const details = h("details", { "data-model": id }, h("summary", {}, `How ${id} was made`), named(training));
    details.addEventListener("toggle", () => {
      if (details.open !== (this.open === id)) this.page.go({ model: details.open ? id : "" });
    });
    return details;
  }

  #quality(models) {
    const rows = models.flatMap(({ id, quality }) => measures(quality).map(([text, value]) => ({
      word: models.length > 1 ? `${id}: ${text}` : text,
      value: value / 100,
      text: decimals(value, 1),
    })));
    this.figure.show(rows.length
      ? bars(rows, { width: this.figure.width(), name: "Measured quality in percent" })
      : null);
  }
}

/** What there is to say of a model, as `[name, value]`. */
function summary(model) {
  const { dimension, vocabulary_size: words, layers, heads, training } = model;
  const learned = training?.attention;
  return [
    ["Vectors", `${count(words)} words × ${dimension}, ${DTYPES[model.dtype] ?? model.dtype}`],
    ["On the disk", bytes(model.bytes)],
    ["Attention", `${several(layers, "layer")} of ${several(heads, "head")}${learned ? `, ${learned}` : ""}`],
    ["Words", [
      model.cased ? "cased: Apple is not apple" : "lower case only",
      model.subwords ? "composes words it lacks from subwords" : null,
    ].filter(Boolean).join("; ")],
    ["Languages", model.languages.join(", ") || "not said"],
    ["Source", model.source || "not said"],
    ["Licence", model.licence || "not said"],
  ];
}

const several = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

/**
 * The shares in percent that a manifest names: `{coarsewsd: {accuracy: 93.5}}`. What tells them apart
 * comes first: on a phone the end is cut off.
 */
function measures(quality) {
  return Object.entries(quality ?? {}).flatMap(([set, found]) =>
    Object.entries(found ?? {})
      .filter(([name, value]) => /accuracy|f1/.test(name) && typeof value === "number")
      .map(([name, value]) => [`${measured(name)}, ${SETS[set] ?? set}`, value]));
}

/** An accuracy on a part of a set has the part's name: `train` is no training here. */
function measured(name) {
  const [, part] = name.match(/^(train|dev|test)_accuracy$/) ?? [];
  return part ? `${part} split` : name.replaceAll("_", " ").replace("f1", "F1");
}

/** The view, made once. */
export const build = (page) => new Models(page);

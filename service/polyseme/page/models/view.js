/** The view Models: size, source, training and measured quality of each model of the service. */

import { factList, h, viewElement } from "../elements.js";
import { Exchange } from "../exchange.js";
import { bytes, count, counted, decimals } from "../text.js";

export const title = "Models";
export const defaults = {};

const QUALITY = "The percentages say how well the contextual vectors separate senses. They come from each model's manifest."
  + " The service does not check whether a model was trained on these data sets.";

export class View {
  constructor(page) {
    this.page = page;
    this.exchange = new Exchange("polyseme-models");
    this.cards = h("div", { class: "model-cards" });
    this.element = viewElement(title, "The models of this service: their size, source, training and measured quality.", null,
      this.exchange, this.cards, h("p", { class: "muted" }, QUALITY));
  }

  async show() {
    const response = await this.exchange.request("v1/models");
    if (!response) return;
    // The cards are made once for each response, so that they keep the focus.
    const models = response.data.toSorted((a, b) => Number(Boolean(b.default)) - Number(Boolean(a.default)));
    if (response !== this.response) this.cards.replaceChildren(...models.map((model) => this.#card(model)));
    this.response = response;
  }

  #card(model) {
    const readable = model.dimension !== undefined;
    return h(
      "article",
      { class: "card model", "aria-label": model.id },
      h(
        "div",
        { class: "model-head" },
        h("h3", {}, model.id),
        model.default ? h("span", { class: "tag" }, "default") : null,
        model.status === "broken" ? h("span", { class: "tag bad" }, "broken") : null,
      ),
      model.problem ? h("p", { class: "problem" }, model.problem) : null,
      readable ? factList(summary(model)) : null,
      readable && model.status === "ok" ? this.#links(model) : null,
      readable ? this.#training(model) : null,
    );
  }

  #links({ id, default: isDefault }) {
    const state = { ...(!isDefault && { model: id }), source: "sentence" };
    const link = (view, text) => h("a", { href: this.page.address(view, state) }, text);
    return h("p", { class: "links" }, "Open in ", link("attention", "Attention"), " · ", link("compare", "Compare"),
      " · ", link("senses", "Senses"), " · ", link("steps", "Step by step"), " · ", link("neighbors", "Neighbors"));
  }

  /** Return the training section of the manifest. */
  #training({ id, training }) {
    if (!training || !Object.keys(training).length) return null;
    return h("details", {}, h("summary", {}, `Training of ${id}`),
      h("pre", { tabindex: "0", "aria-label": `Training of ${id}` }, JSON.stringify(training, null, 2)));
  }
}

const DTYPES = { int8: "8-bit integers", float16: "16-bit floats", float32: "32-bit floats" };

/** Return the facts of a model as `[name, value]`. */
function summary(model) {
  const { dimension, vocabulary_size: words, layers, heads, training } = model;
  const learned = training?.attention, measures = measuresOf(model.quality);
  return [
    ["Vectors", `${count(words)} words × ${dimension}, ${DTYPES[model.dtype] ?? model.dtype}`],
    ["Size on disk", `${bytes(model.bytes)}${model.base ? `, and the vocabulary and vectors of ${model.base}` : ""}`],
    ["Attention", `${counted(layers, "layer")} of ${counted(heads, "head")}${learned ? `, ${learned}` : ""}`],
    ["Words", [
      model.cased ? "with capitals: Apple and apple differ" : "in lower case",
      model.subwords ? "words outside the vocabulary are composed of subwords if these are known" : null,
    ].filter(Boolean).join("; ")],
    ["Quality", measures.length ? h("ul", {}, measures.map((measure) => h("li", {}, measure))) : "no measurements in its manifest"],
    ["Languages", model.languages.join(", ") || "not given"],
    ["Source", model.source || "not given"],
    ["License", model.licence || "not given"],
  ];
}

const SETS = { coarsewsd: "CoarseWSD-20", wic: "WiC" };

/** Return the percentages of a manifest, `{coarsewsd: {accuracy: 93.5}}`, in words. */
function measuresOf(quality) {
  return Object.entries(quality ?? {}).flatMap(([set, measures]) =>
    Object.entries(measures ?? {})
      .filter(([name, value]) => /accuracy|f1/.test(name) && typeof value === "number")
      .map(([name, value]) => {
        // “train accuracy” would suggest that the model was trained on the set.
        const split = name.match(/^(train|dev|test)_accuracy$/)?.[1];
        const measure = split ? `${split} split` : name.replaceAll("_", " ").replace("f1", "F1");
        return `${SETS[set] ?? set}${measures.words ? ` (${measures.words} words)` : ""}, ${measure}: ${decimals(value, 2)}%`;
      }));
}

/**
 * The views: title, default state and module of each. A module is loaded when its view is first
 * opened; it exports `build(page)`, which returns `{element, exchange, show(state)}`. Views that use a model share it.
 */

import { OCCURRENCES, SENTENCES, TEXTS } from "./examples.js";

const FIRST = "attention";

export const VIEWS = {
  attention: {
    title: "Attention",
    usesModel: true,
    defaults: {
      text: SENTENCES[0].state.text, model: "", case: "auto", oov: "", layer: "0", head: "contributions", picture: "heatmap",
      word: "", row: "", column: "", heads: "",
    },
    load: () => import("./attention/view.js"),
  },
  compare: {
    title: "Compare",
    usesModel: true,
    defaults: { occurrences: OCCURRENCES[0].state.occurrences, model: "", second: "", case: "auto", k: "8", share: "" },
    load: () => import("./compare/view.js"),
  },
  senses: {
    title: "Senses",
    usesModel: true,
    defaults: { ...TEXTS[0].state, model: "", point: "" },
    load: () => import("./senses/view.js"),
  },
  steps: {
    title: "Step by step",
    usesModel: true,
    defaults: {
      source: "example", example: "1", text: "The bank of the river", model: "", layer: "0", case: "auto",
      numbers: "", head: "0", cell: "", decimals: "4", hide: "",
    },
    load: () => import("./steps/view.js"),
  },
  neighbors: {
    title: "Neighbors",
    usesModel: true,
    defaults: { word: "bank", minus: "", k: "10", model: "", case: "auto" },
    load: () => import("./neighbors/view.js"),
  },
  models: {
    title: "Models",
    defaults: { model: "" },
    load: () => import("./models/view.js"),
  },
};

/** Old names of views, for bookmarked addresses. */
const OLD_NAMES = { look: "attention", neighbours: "neighbors" };

/** Return the name of the view in an address, or the first view's if the address has an unknown name. */
export function viewNamed(name) {
  if (Object.hasOwn(VIEWS, name)) return name;
  return Object.hasOwn(OLD_NAMES, name) ? OLD_NAMES[name] : FIRST;
}

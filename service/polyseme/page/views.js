/**
 * The views: what each is called, its state where the address says nothing, and where it is. Its
 * scripts are loaded when it is first opened; each has `build(page)`, which makes it once, as
 * `{element, show(state)}`.
 */

import { EXAMPLES as OCCURRENCES } from "./compare/examples.js";
import { EXAMPLES as SENTENCES } from "./look/examples.js";

export const VIEWS = {
  look: {
    title: "Look",
    defaults: {
      text: SENTENCES[0][1], model: "", case: "auto", oov: "", layer: "0", head: "mean", picture: "heatmap",
      word: "", row: "", column: "", heads: "",
    },
    load: () => import("./look/view.js"),
  },
  compare: {
    title: "Compare",
    defaults: { occurrences: OCCURRENCES[0][1], model: "", case: "auto", k: "8" },
    load: () => import("./compare/view.js"),
  },
  steps: {
    title: "Step by step",
    defaults: {
      source: "example", example: "1", text: "The bank of the river", model: "", layer: "0", case: "auto",
      numbers: "", head: "0", cell: "", decimals: "4",
    },
    load: () => import("./steps/view.js"),
  },
  neighbours: {
    title: "Neighbours",
    defaults: { word: "bank", k: "10", model: "", case: "auto" },
    load: () => import("./neighbours/view.js"),
  },
  models: {
    title: "Models",
    defaults: { model: "" },
    load: () => import("./models/view.js"),
  },
};

import { h } from "../elements.js";

export const models = {
  name: "models",
  title: "Models",
  defaults: {},
  build: () => ({ element: h("section", {}, "…"), show() {} }),
};

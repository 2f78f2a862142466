import { h } from "../elements.js";

export const steps = {
  name: "steps",
  title: "Steps",
  defaults: {},
  build: () => ({ element: h("section", {}, "…"), show() {} }),
};

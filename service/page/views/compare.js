import { h } from "../elements.js";

export const compare = {
  name: "compare",
  title: "Compare",
  defaults: {},
  build: () => ({ element: h("section", {}, "…"), show() {} }),
};

import { h } from "../elements.js";

export const look = {
  name: "look",
  title: "Look",
  defaults: {},
  build: () => ({ element: h("section", {}, "…"), show() {} }),
};

/** The cosines between occurrences as tables: the same numbers, to read and to copy. */

import { h } from "../frame/elements.js";
import { decimals } from "../frame/numbers.js";
import { letter } from "../figures/letters.js";

/** `panels`: `[title, rows of cosines]`; `words` of the occurrences. */
export function similarityTables(panels, words, open) {
  return h(
    "details",
    { open },
    h("summary", {}, "The numbers as tables"),
    h("div", { class: "sides" }, panels.map(([title, rows]) =>
      h("div", { class: "wide", tabindex: "0", role: "group", "aria-label": title }, table(title, rows, words)))),
  );
}

function table(title, rows, words) {
  return h(
    "table",
    { class: "cosines" },
    h("caption", {}, title),
    h("thead", {}, h("tr", {}, h("td", {}), words.map((_, i) => h("th", { scope: "col" }, letter(i))))),
    h("tbody", {}, rows.map((row, i) => h(
      "tr",
      {},
      h("th", { scope: "row" }, `${letter(i)} `, h("bdi", {}, words[i])),
      row.map((cosine) => h("td", { class: "number" }, decimals(cosine, 4))),
    ))),
  );
}

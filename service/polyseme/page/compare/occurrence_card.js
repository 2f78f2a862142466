/** One occurrence, before and after its context. */

import { thingColour } from "../frame/colours.js";
import { h } from "../frame/elements.js";
import { short } from "../frame/numbers.js";
import { badge } from "./occurrence_field.js";
import { letter } from "../figures/letters.js";

/** How much of a long sentence is shown on each side of the word, in code points. */
const AROUND = 160;

/**
 * The card of the i-th occurrence: `compared` is the service's answer and `text` its sentence;
 * `links` gives the addresses `word(word)` and `attention()` (null while it is not known).
 */
export function occurrenceCard(i, compared, text, links) {
  const { token, shift, static_neighbors: before, contextual_neighbors: after } = compared;
  const both = new Set(shared(before, after));
  const attention = links.attention();
  const unknown = token.resolution === "oov";
  const none = (said) => (unknown ? said : "None were asked for.");
  return h(
    "article",
    { class: "card occurrence-card", "aria-label": `${letter(i)}: ${token.text}` },
    h("h3", {}, badge(i), h("span", { class: "heard" }, ": "), h("bdi", {}, token.text)),
    marked(text, token),
    unknown
      ? h("p", {}, "It had no static vector: all that it is here comes from its context.")
      : h("p", {}, "Context moved it by ", h("strong", { class: "number" }, short(shift)),
        h("span", { class: "muted" }, " (1 − the cosine of its static and its contextual vector).")),
    h(
      "div",
      { class: "sides" },
      side("Nearest, static", before, { i, both, links, none: none("It has no static vector.") }),
      side("Nearest, in context", after, { i, both, links, none: none("It has no vector here either.") }),
    ),
    h("h4", {}, "What it attends to"),
    list(compared.attends_to.map((one) => ({ word: one.text, value: one.weight })), { i, roomy: true }),
    attention && h("p", {}, h("a", { href: attention }, "See its attention")),
  );
}

const shared = (before, after) =>
  before.map(({ word }) => word).filter((word) => after.some((one) => one.word === word));

function marked(text, { start, end }) {
  const letters = [...text];
  return h(
    "blockquote",
    { dir: "auto" },
    start > AROUND ? "… " : "",
    letters.slice(Math.max(start - AROUND, 0), start).join(""),
    h("mark", {}, letters.slice(start, end).join("")),
    letters.slice(end, end + AROUND).join(""),
    letters.length > end + AROUND ? " …" : "",
  );
}

function side(title, neighbours, { none, ...rest }) {
  const rows = neighbours.map(({ word, similarity }) => ({ word, value: similarity }));
  return h("div", {}, h("h4", {}, title), rows.length ? list(rows, rest) : h("p", { class: "muted" }, none));
}

/** Words with a bar each; `links` makes them links, those in `both` lists say so. */
function list(rows, { i, both, links, roomy }) {
  return h("ol", { class: roomy ? "near roomy" : "near" }, rows.map(({ word, value }) => {
    const bar = h("span", { class: "near-bar" });
    bar.style.inlineSize = `${100 * Math.min(Math.max(value, 0), 1)}%`;
    bar.style.background = thingColour(i);
    return h(
      "li",
      {},
      h("span", { class: "near-word" },
        h(links ? "a" : "span", { dir: "auto", href: links?.word(word) }, word),
        both?.has(word) ? h("small", {}, "in both") : null),
      h("span", { class: "near-room", "aria-hidden": "true" }, bar),
      h("span", { class: "number" }, short(value)),
    );
  }));
}

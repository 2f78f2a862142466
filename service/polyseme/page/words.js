/** Sentences with a marked word, the words of a sentence as buttons, lists of words with bars, and the legends of maps. */

import { readJson } from "./client.js";
import { categoryColor, signedColor, textColorOn } from "./colors.js";
import { h, rovingTabindex, s } from "./elements.js";
import { maxTextWidth } from "./text.js";

const STOP_WORDS = await readJson("stop-words.json");

/** Whether a word has a letter and is no English stop word. */
export const isContentWord = (word) => /\p{L}/u.test(word) && !STOP_WORDS.includes(word.toLowerCase());

/** Return a word without what makes no other word of it: capitals, soft hyphens, and accents as letters of their own. */
export const folded = (word) => word.replaceAll("\u00AD", "").normalize().toLowerCase();

/** The maximum number of code points of a sentence that are shown on each side of the word. */
const MAX_CONTEXT = 160;

/**
 * Return a sentence with the word at `{start, end}` marked, and the words `evidence`, `{start, end, weight}`, colored by
 * their signed weight; of a long sentence, the part around the word.
 */
export function quotation(text, { start, end }, evidence = []) {
  const letters = [...text];
  const from = Math.max(start - MAX_CONTEXT, 0), to = Math.min(end + MAX_CONTEXT, letters.length);
  const largest = Math.max(...evidence.map(({ weight }) => Math.abs(weight)), 0);
  const marked = [{ start, end }, ...evidence.filter((part) => part.start !== start)]
    .filter((part) => part.start >= from && part.end <= to)
    .toSorted((a, b) => a.start - b.start);
  const parts = [from > 0 ? "… " : ""];
  let at = from;
  for (const part of marked) {
    const word = letters.slice(part.start, part.end).join("");
    parts.push(letters.slice(at, part.start).join(""),
      part.start === start ? h("mark", {}, word) : coloredWord(word, signedColor(part.weight, largest)));
    at = part.end;
  }
  parts.push(letters.slice(at, to).join(""), to < letters.length ? " …" : "");
  return h("blockquote", { dir: "auto" }, parts);
}

const coloredWord = (text, color) =>
  h("span", { class: "evidence", style: { background: color, color: textColorOn(color) } }, text);

/** The name and meaning of resolutions; a word that is found as it is written has none. */
const OTHER_CASE = ["other case", "found in another case"];
const RESOLUTIONS = {
  lower: OTHER_CASE, capitalised: OTHER_CASE, upper: OTHER_CASE,
  subword: ["subword", "not in the vocabulary: its vector is made of parts of words"],
  oov: ["unknown", "not in the vocabulary: its static vector is zero"],
};

/** Return what is so of a token that is not in the vocabulary; undefined for one that is. */
export const missingMeaning = ({ key, resolution }) => (key === null ? RESOLUTIONS[resolution]?.[1] : undefined);

/** Whether different entries of the vocabulary become one with the case “lower”: one of them is in lower case. */
export const areOneInLower = (keys) => new Set(keys).size > 1 && keys.some((key) => key === key.toLowerCase());

/** The tokens of a sentence with their resolutions as buttons, one tab stop. */
export class WordButtons {
  /** `onpick(i, tokens)` is called for a pressed token. */
  constructor(onpick) {
    this.onpick = onpick;
    this.element = h("div", { class: "words", role: "group", dir: "auto" });
    this.setStop = rovingTabindex(this.element);
  }

  /** Show tokens, and mark the chosen one. */
  show(tokens, chosen) {
    const drawn = JSON.stringify(tokens);
    if (drawn !== this.drawn) this.element.replaceChildren(...tokens.map((token, i) => this.#button(token, () => this.onpick(i, tokens))));
    this.drawn = drawn;
    const buttons = [...this.element.children];
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === chosen)));
    this.setStop(buttons[chosen] ?? buttons[0]);
  }

  #button({ text, key, resolution }, onclick) {
    const [name, meaning] = RESOLUTIONS[resolution] ?? [];
    return h("button", { type: "button", class: `word ${resolution}`, title: meaning, onclick }, h("span", {}, text),
      name && h("small", {}, key !== null && key !== text ? `${name}: ${key}` : name));
  }
}

/**
 * Return a list of words with bars in the color of category i: `value` from 0 to 1, the `text` of the number, and optionally
 * the address of a link and a `note`.
 */
export function wordList(rows, i, name = "near") {
  return h("ol", { class: name }, rows.map(({ word, value, text, href, note }) => {
    const inlineSize = `${100 * Math.min(Math.max(value, 0), 1)}%`;
    return h(
      "li",
      {},
      h("span", { class: "near-word" }, h(href ? "a" : "span", { dir: "auto", href }, word), note && h("small", {}, note)),
      h("span", { class: "near-room", "aria-hidden": "true" },
        h("span", { class: "near-bar", style: { inlineSize, background: categoryColor(i) } })),
      h("span", { class: "number" }, text),
    );
  }));
}

/** The height of a line of a legend. */
const LINE = 22;

/**
 * Draw the entries `{mark, text}` of a legend in lines of some width; the entry at index `newLine` starts a line. Return
 * the `items` and their `height`.
 */
export function legend(entries, width, newLine = 0) {
  let x = 0, y = 0;
  const items = entries.map(({ mark, text }, i) => {
    const itemWidth = 26 + maxTextWidth([text], 12) + 16;
    if (x && (x + itemWidth > width || i === newLine)) {
      x = 0;
      y += LINE;
    }
    const item = s(
      "g",
      { transform: `translate(${x + 11} ${y + LINE / 2})` },
      mark,
      s("text", { x: 15, y: 0, "dominant-baseline": "central" }, text),
    );
    x += itemWidth;
    return item;
  });
  return { items, height: y + LINE + 10 };
}

/** Sentences with a marked word, lists of words with bars, and the legends of maps. */

import { categoryColor, textColorOn, weightColor } from "./colors.js";
import { h, s } from "./elements.js";
import { maxTextWidth } from "./text.js";

/** The maximum number of code points of a sentence that are shown on each side of the word. */
const MAX_CONTEXT = 160;

/**
 * Return a sentence with the word at `{start, end}` marked, and the `attended` tokens `{start, end, weight}` colored by
 * weight; of a long sentence, the part around the word.
 */
export function quotation(text, { start, end }, attended = []) {
  const letters = [...text];
  const from = Math.max(start - MAX_CONTEXT, 0), to = Math.min(end + MAX_CONTEXT, letters.length);
  const largest = Math.max(...attended.map(({ weight }) => weight), 0);
  const marked = [{ start, end }, ...attended]
    .filter((part) => part.start >= from && part.end <= to)
    .toSorted((a, b) => a.start - b.start);
  const parts = [from > 0 ? "… " : ""];
  let at = from;
  for (const part of marked) {
    const word = letters.slice(part.start, part.end).join("");
    parts.push(letters.slice(at, part.start).join(""),
      part.start === start ? h("mark", {}, word) : attendedWord(word, weightColor(part.weight, largest)));
    at = part.end;
  }
  parts.push(letters.slice(at, to).join(""), to < letters.length ? " …" : "");
  return h("blockquote", { dir: "auto" }, parts);
}

function attendedWord(text, color) {
  const element = h("span", { class: "attended" }, text);
  element.style.background = color;
  element.style.color = textColorOn(color);
  return element;
}

/**
 * Return a list of words with bars in the color of category i: `value` from 0 to 1, the `text` of the number, and optionally
 * the address of a link and a `note`.
 */
export function wordList(rows, i, name = "near") {
  return h("ol", { class: name }, rows.map(({ word, value, text, href, note }) => {
    const bar = h("span", { class: "near-bar" });
    bar.style.inlineSize = `${100 * Math.min(Math.max(value, 0), 1)}%`;
    bar.style.background = categoryColor(i);
    return h(
      "li",
      {},
      h("span", { class: "near-word" }, h(href ? "a" : "span", { dir: "auto", href }, word), note && h("small", {}, note)),
      h("span", { class: "near-room", "aria-hidden": "true" }, bar),
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

/** Formatting of numbers and words, and the width of text. */

/** Return a number with `count` decimals and a real minus sign; negative zero is 0. */
export function decimals(number, count) {
  const text = number.toFixed(count);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** Return a weight or a cosine with two decimals. */
export const short = (number) => decimals(number, 2);

/** A fraction as a percentage. */
export const percent = (fraction) => `${decimals(100 * fraction, 0)}%`;

/** A count with thousands separators. */
export const { format: count } = new Intl.NumberFormat("en");

/** A count with its noun: 1 word, 2 words. */
export const counted = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

/** A number of bytes in its decimal unit: 33.4 MB. */
export function bytes(number) {
  const units = ["B", "kB", "MB", "GB"], i = units.findLastIndex((_, power) => !power || number >= 1000 ** power);
  return `${decimals(number / 1000 ** i, i ? 1 : 0)} ${units[i]}`;
}

/** Return the letter of occurrence i. */
export const letter = (i) => String.fromCharCode(65 + i);

/** Join names: "A, B and C". */
export const joinNames = (names) => new Intl.ListFormat("en-GB").format(names);

/** The maximum number of graphemes of a word in figures and in sentences. */
const MAX_IN_FIGURE = 120, MAX_IN_SENTENCE = 40;
const context = document.createElement("canvas").getContext("2d");
const segmenter = new Intl.Segmenter();

/** The font of the figures, `size` in pixels. */
export function font(size, weight = 400) {
  return `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
}

/** Return the width of the widest text in pixels, in bold: a highlighted text is bold. */
export function maxTextWidth(texts, size) {
  context.font = font(size, 700);
  return texts.reduce((widest, text) => Math.max(widest, context.measureText(text).width), 0);
}

/**
 * Return the texts. A text wider than `limit` pixels, or of more than MAX_IN_FIGURE graphemes, is shortened and
 * ends with an ellipsis.
 */
export function fitTexts(texts, size, limit) {
  context.font = font(size, 700);
  const fits = (text) => context.measureText(text).width <= limit;
  return texts.map((text) => {
    if (text.length <= MAX_IN_FIGURE && fits(text)) return text;
    const parts = graphemes(text, MAX_IN_FIGURE);
    if (parts.join("") === text && fits(text)) return text;
    while (parts.length > 1 && !fits(`${parts.join("")}…`)) parts.pop();
    return `${parts.join("")}…`;
  });
}

/** Return a text shortened to `limit` graphemes, for headings and sentences. */
export function shorten(text, limit = MAX_IN_SENTENCE) {
  if (text.length <= limit) return text;
  const parts = graphemes(text, limit + 1);
  return parts.length > limit ? `${parts.slice(0, limit - 1).join("")}…` : text;
}

/** Return the first `limit` graphemes of a text, without segmenting the rest. */
function graphemes(text, limit) {
  const parts = [];
  for (const { segment } of segmenter.segment(text)) {
    if (parts.push(segment) === limit) break;
  }
  return parts;
}

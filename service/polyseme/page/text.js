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

/** A number of bytes in megabytes: 33.4 MB. */
export const bytes = (number) => `${decimals(number / 1e6, 1)} MB`;

/** Return the letter of occurrence i. */
export const letter = (i) => String.fromCharCode(65 + i);

/** Join names: "A, B and C". */
export const joinNames = (names) => new Intl.ListFormat("en-GB").format(names);

/** The maximum number of graphemes of a word in figures and in sentences. */
const MAX_IN_FIGURE = 120, MAX_IN_SENTENCE = 40;
const context = document.createElement("canvas").getContext("2d");
const segmenter = new Intl.Segmenter();

/** Return the width in pixels of the widest text in a figure, in bold (a highlighted text is bold), with a font of `size` pixels. */
export function maxTextWidth(texts, size) {
  context.font = `700 ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return Math.max(0, ...texts.map((text) => context.measureText(text).width));
}

/** Return texts shortened to `limit` pixels, and to MAX_IN_FIGURE graphemes; a shortened text ends with an ellipsis. */
export function fitTexts(texts, size, limit) {
  return texts.map((text) => {
    let fitted = shorten(text, MAX_IN_FIGURE), { length } = graphemes(fitted, MAX_IN_FIGURE);
    while (length > 2 && maxTextWidth([fitted], size) > limit) {
      length -= 1;
      fitted = shorten(text, length);
    }
    return fitted;
  });
}

/** Return a text shortened to `limit` graphemes, for headings and sentences. */
export function shorten(text, limit = MAX_IN_SENTENCE) {
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

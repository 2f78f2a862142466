/** Numbers and words as text, and how wide text is. */

const { format } = globalThis.d3;

const formats = new Map();

/** A number with `count` decimals and a real minus sign; there is no −0. */
export function decimals(number, count) {
  if (!formats.has(count)) formats.set(count, format(`.${count}f`));
  const text = formats.get(count)(number);
  return /^−[0.]*$/.test(text) ? text.slice(1) : text;
}

/** A weight or a cosine, with two decimals. */
export const short = (number) => decimals(number, 2);

/** A fraction as a percentage. */
export const percent = format(".0%");

/** A count with thousands separators. */
export const count = format(",");

/** A number of bytes in its decimal unit: 33.4 MB. */
export function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) {
    number /= 1000;
    unit += 1;
  }
  return `${unit ? decimals(number, 1) : number} ${units[unit]}`;
}

/** The letter that names occurrence i. */
export const letter = (i) => String.fromCharCode(65 + i);

/** A, B and C. */
export function joinNames(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** The most graphemes of a word that are measured in a figure, and that are named in a sentence. */
const MEASURED = 120, NAMED = 40;
const context = document.createElement("canvas").getContext("2d");
const segmenter = new Intl.Segmenter();

/** The font of the figures, `size` in pixels. */
export function font(size, weight = 400) {
  return `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
}

/** The width of the widest text in pixels; texts may become bold when they are highlighted. */
export function maxTextWidth(texts, size) {
  context.font = font(size, 700);
  return texts.reduce((most, text) => Math.max(most, context.measureText(text).width), 0);
}

/** The texts, shortened with an ellipsis where they are wider than `room` pixels. */
export function fitTexts(texts, size, room) {
  context.font = font(size, 700);
  const fits = (text) => context.measureText(text).width <= room;
  return texts.map((text) => {
    if (text.length <= MEASURED && fits(text)) return text;
    const parts = graphemes(text, MEASURED);
    if (parts.join("") === text && fits(text)) return text;
    while (parts.length > 1 && !fits(`${parts.join("")}…`)) parts.pop();
    return `${parts.join("")}…`;
  });
}

/** A text of at most `most` graphemes, for headings and sentences. */
export function shorten(text, most = NAMED) {
  if (text.length <= most) return text;
  const parts = graphemes(text, most + 1);
  return parts.length > most ? `${parts.slice(0, most - 1).join("")}…` : text;
}

/** The first graphemes of a text; the rest is not looked at, however long it is. */
function graphemes(text, most) {
  const parts = [];
  for (const { segment } of segmenter.segment(text)) {
    if (parts.push(segment) === most) break;
  }
  return parts;
}

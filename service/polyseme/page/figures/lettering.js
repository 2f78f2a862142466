/** How wide words are, and as much of them as there is room for. */

const context = document.createElement("canvas").getContext("2d");
const CUT = 120;
const LONGEST_NAME = 40;
const segmenter = new Intl.Segmenter();

/** The font of the figures, at so many pixels. */
export function font(size, weight = 400) {
  return `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
}

/** The width of the widest text, in pixels, also when it is lit and so bold. */
export function widest(texts, size) {
  context.font = font(size, 700);
  return texts.reduce((most, text) => Math.max(most, context.measureText(text).width), 0);
}

/** The texts, those that are wider than `room` with an ellipsis. */
export function fitted(texts, size, room) {
  context.font = font(size, 700);
  const fits = (text) => context.measureText(text).width <= room;
  return texts.map((text) => (text.length <= CUT && fits(text) ? text : cut(text, fits)));
}

/** A text of at most so many letters: as a word is named in a heading or in a sentence. */
export function shortened(text, most = LONGEST_NAME) {
  if (text.length <= most) return text;
  const letters = lettersOf(text, most + 1);
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

/** The first letters as people count them; of a text of any length, only these are looked at. */
function lettersOf(text, most) {
  const letters = [];
  for (const { segment } of segmenter.segment(text)) {
    if (letters.push(segment) === most) break;
  }
  return letters;
}

function cut(text, fits) {
  const letters = lettersOf(text, CUT);
  if (letters.join("") === text && fits(text)) return text;
  while (letters.length > 1 && !fits(`${letters.join("")}…`)) letters.pop();
  return `${letters.join("")}…`;
}

/** How wide words are, and as much of them as fits. */

const context = document.createElement("canvas").getContext("2d");
const CUT = 120;
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

/** The texts, those that are too wide with an ellipsis. */
export function fitted(texts, size, room) {
  context.font = font(size, 700);
  const fits = (text) => context.measureText(text).width <= room;
  return texts.map((text) => (text.length <= CUT && fits(text) ? text : cut(text, fits)));
}

function cut(text, fits) {
  const letters = Array.from(segmenter.segment(text.slice(0, CUT)), ({ segment }) => segment);
  while (letters.length > 1 && !fits(`${letters.join("")}…`)) letters.pop();
  return `${letters.join("")}…`;
}

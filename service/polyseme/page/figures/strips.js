/** Vectors as strips of cells, one cell for each dimension, all on the same scale. */

import { signedColour } from "../frame/colours.js";
import { h, s } from "../frame/elements.js";
import { decimals } from "../frame/numbers.js";

const { max } = globalThis.d3;
const STRIP = 34;
const LABEL = 18;
const STEPS = 24;
const FOOT = 34;

/** The vector divided by its length; as it is where that is zero. */
export function unit(vector) {
  const length = Math.hypot(...vector);
  return length ? vector.map((number) => number / length) : vector;
}

/**
 * Strips of `[{name, vector}]`, `width` wide: `drawing`, and `cursor`, an element to lay over it,
 * which the pointer and the arrows move; `onlight(sentence, aloud)` is given the
 * numbers there, `aloud` where the cursor, without the focus, does not say them itself.
 */
export function strips(vectors, { width, label, onlight }) {
  const most = max(vectors, ({ vector }) => max(vector, Math.abs)) || 1;
  const size = vectors[0].vector.length;
  const tall = vectors.length * (LABEL + STRIP), height = tall + FOOT;
  const cell = width / size;
  const drawing = s(
    "svg",
    { class: "strips", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
    vectors.flatMap(({ name, vector }, i) => strip(name, vector, { y: i * (LABEL + STRIP), cell, most })),
    legend(tall + 12, Math.min(120, width / 3), most),
  );
  const say = (at) => `Dimension ${at}: ${vectors
    .map(({ name, vector }) => `${name} ${decimals(vector[at], 4)}`).join(", ")}`;
  return { drawing, cursor: cursor({ size, cell, tall, label, say, onlight }) };
}

function strip(name, vector, { y, cell, most }) {
  return [
    s("text", { x: 0, y: y + LABEL / 2, "dominant-baseline": "central" }, name),
    ...Array.from(vector, (number, i) => s("rect", {
      x: i * cell, y: y + LABEL, width: cell, height: STRIP - 6, fill: signedColour(number, most),
      "shape-rendering": "crispEdges",
    })),
  ];
}

function legend(y, wide, most) {
  const said = decimals(most, 2), left = 44;
  return [
    s("text", { class: "muted", x: 0, y: y + 5, "dominant-baseline": "central" }, `−${said}`),
    ...Array.from({ length: STEPS }, (_, i) => s("rect", {
      x: left + (i * wide) / STEPS, y, width: wide / STEPS, height: 10,
      fill: signedColour((2 * i) / (STEPS - 1) - 1), "shape-rendering": "crispEdges",
    })),
    s("text", { class: "muted", x: left + wide + 6, y: y + 5, "dominant-baseline": "central" }, said),
  ];
}

function cursor({ size, cell, tall, label, say, onlight }) {
  const mark = h("div", { class: "mark", "aria-hidden": "true", hidden: true });
  const element = h(
    "div",
    {
      class: "dimensions", role: "slider", tabindex: "0", "aria-label": label,
      "aria-valuemin": "0", "aria-valuemax": size - 1,
    },
    mark,
  );
  let at = 0;
  const move = (to) => {
    at = Math.min(Math.max(to, 0), size - 1);
    mark.hidden = false;
    element.setAttribute("aria-valuenow", at);
    element.setAttribute("aria-valuetext", say(at));
    mark.style.left = `${at * cell}px`;
    mark.style.width = `${Math.max(cell, 2)}px`;
    onlight(say(at), document.activeElement !== element);
  };
  element.style.height = `${tall}px`;
  element.addEventListener("pointermove", (event) => {
    const { left, width } = element.getBoundingClientRect();
    move(Math.floor(((event.clientX - left) / width) * size));
  });
  element.addEventListener("keydown", (event) => {
    const to = { ...STEP, PageUp: at + 10, PageDown: at - 10, Home: 0, End: size - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(event.key.startsWith("Arrow") ? at + to : to);
  });
  element.setAttribute("aria-valuenow", at);
  element.setAttribute("aria-valuetext", say(at));
  return element;
}

const STEP = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };

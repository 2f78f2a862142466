/** The map: the contexts of the occurrences as points, with a color and a shape for each sense. */

import { frame } from "../compare/map.js";
import { categoryColor } from "../colors.js";
import { rovingTabindex, s, svgDrawing } from "../elements.js";
import { fitTexts } from "../text.js";
import { legend } from "../words.js";

/** The maximum number of occurrences that are drawn; more elements make a browser slow. */
export const MAX_POINTS = 2000;
/** The radius of a mark, and of one among more than MANY marks. */
const RADIUS = 7, SMALL = 5, MANY = 300;
/** The distance in pixels up to which the pointer is on a mark. */
const REACH = 16;
const MAX_KEYWORDS = 4;

/** Return the corners of a regular shape; with `inner`, every second corner is at this distance from the middle. */
function corners(count, angle = 0, inner = 1.25) {
  return Array.from({ length: count }, (_, i) => {
    const r = i % 2 ? inner : 1.25, turned = angle + (2 * Math.PI * i) / count;
    return [r * Math.sin(turned), -r * Math.cos(turned)];
  });
}

/** The corners of the shapes, for a radius of 1. The first shape is a circle. */
const SHAPES = [
  null, corners(4, Math.PI / 4), corners(3), corners(4), corners(3, Math.PI), corners(8, 0, 0.45), corners(8, Math.PI / 4, 0.45),
  corners(10, 0, 0.55),
];

/** Return the mark of a sense at 0, 0: eight colors and eight shapes, in pairs that differ for up to 64 senses. */
export function senseMark(sense, r = RADIUS, attributes = {}) {
  const shape = SHAPES[(sense + Math.floor(sense / 8)) % 8];
  const all = { class: "mark", fill: categoryColor(sense), ...attributes };
  return shape
    ? s("polygon", { ...all, points: shape.map(([x, y]) => `${(x * r).toFixed(2)},${(y * r).toFixed(2)}`).join(" ") })
    : s("circle", { ...all, r });
}

/** Return the indices of the occurrences that are drawn, evenly spaced if there are too many. */
function sample(count) {
  if (count <= MAX_POINTS) return Array.from({ length: count }, (_, i) => i);
  return Array.from({ length: MAX_POINTS }, (_, i) => Math.floor((i * count) / MAX_POINTS));
}

/** The drawing of the occurrences; each mark is a button, and all are one tab stop. */
export class SensesMap {
  /**
   * Draw the occurrences of a response, `width` pixels wide. `describe(i)` returns the name of occurrence i;
   * `onpoint(i)` is called for a pointed or focused mark, `onpick(i)` for a chosen one.
   */
  constructor({ senses, occurrences }, { width, describe, onpoint, onpick }) {
    Object.assign(this, { onpoint, onpick });
    const shown = sample(occurrences.length);
    const pointOf = (i) => [occurrences[i].x, occurrences[i].y];
    const { items, height: top } = legend(legendEntries(senses, width), width);
    const { height, project } = frame(shown.map((i) => ({ position: pointOf(i) })), width);
    const r = shown.length > MANY ? SMALL : RADIUS;
    // The arrow keys move from left to right.
    this.points = shown.map((i) => ({ i, ...project(pointOf(i)) })).toSorted((a, b) => a.x - b.x || a.y - b.y);
    for (const point of this.points) {
      point.mark = senseMark(occurrences[point.i].sense, r, {
        class: "mark point", role: "button", "aria-label": describe(point.i), "aria-pressed": "false",
        transform: `translate(${point.x.toFixed(1)} ${point.y.toFixed(1)})`,
        // On the whole drawing, these listeners would make it a tab stop in Chromium.
        onfocus: () => {
          place(this.focusRing, point.mark.matches(":focus-visible") ? point : null);
          onpoint(point.i);
        },
        onblur: () => place(this.focusRing, null),
      });
    }
    this.chosenRing = s("circle", { class: "chosen", r: r + 3, display: "none" });
    this.focusRing = s("circle", { class: "ring unsaved", r: r + 5, display: "none" });
    this.plane = s("g", { transform: `translate(0 ${top})` },
      this.points.map(({ mark }) => mark), this.chosenRing, this.focusRing);
    this.drawing = svgDrawing(
      "senses-map",
      width,
      top + height,
      { role: "group", "aria-label": "Map of the occurrences; the arrow keys move between them, Enter shows the sentence" },
      items,
      this.plane,
    );
    this.setStop = rovingTabindex(this.drawing);
    this.setStop(this.points[0].mark);
    this.#listen();
  }

  /** Mark occurrence i as the chosen one; null for none. */
  choose(i) {
    const point = this.points.find((each) => each.i === i);
    this.chosen?.mark.setAttribute("aria-pressed", "false");
    point?.mark.setAttribute("aria-pressed", "true");
    if (point && this.focused() === null) this.setStop(point.mark);
    place(this.chosenRing, point);
    this.chosen = point;
  }

  /** Return the focused occurrence, else null. */
  focused() {
    return this.#of(document.activeElement)?.i ?? null;
  }

  /** Focus occurrence i if it is drawn. */
  focus(i) {
    const point = this.points.find((each) => each.i === i);
    if (!point) return;
    this.setStop(point.mark);
    point.mark.focus({ preventScroll: true });
  }

  #of(element) {
    return this.points.find(({ mark }) => mark === element);
  }

  /** Return the point whose mark is under the pointer, else the nearest point within REACH, else null. */
  #near(event) {
    let nearest = this.#of(event.target) ?? null, least = REACH;
    if (nearest) return nearest;
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.plane.getScreenCTM().inverse());
    for (const point of this.points) {
      const distance = Math.hypot(point.x - x, point.y - y);
      if (distance < least) [nearest, least] = [point, distance];
    }
    return nearest;
  }

  #listen() {
    const pick = (point) => {
      this.setStop(point.mark);
      this.onpick(point.i);
    };
    this.drawing.addEventListener("pointermove", (event) => {
      const point = this.#near(event);
      this.drawing.classList.toggle("near", point !== null);
      if (point) this.onpoint(point.i);
    });
    this.drawing.addEventListener("click", (event) => {
      const point = this.#near(event);
      if (point) pick(point);
    });
    this.drawing.addEventListener("keydown", (event) => {
      const point = this.#of(event.target);
      if (!point || (event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault();
      pick(point);
    });
  }
}

/** Put a ring around a point; hide it if there is none. */
function place(ring, point) {
  if (point) ring.setAttribute("transform", `translate(${point.x} ${point.y})`);
  ring.setAttribute("display", point ? "inline" : "none");
}

/** Return the entries of the legend: the senses with their first keywords. */
function legendEntries(senses, width) {
  const texts = senses.map(({ keywords }, i) =>
    [`${i + 1}`, keywords.slice(0, MAX_KEYWORDS).map(({ word }) => word).join(", ")].filter(Boolean).join(": "));
  return fitTexts(texts, 12, width - 30).map((text, i) => ({ mark: senseMark(i), text }));
}

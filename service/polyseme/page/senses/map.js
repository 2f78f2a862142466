/** The map: the contexts of the occurrences as points, with a color and a shape for each sense. */

import { frame } from "../compare/map.js";
import { categoryColor } from "../colors.js";
import { pressable, rovingTabindex, s, svgDrawing } from "../elements.js";
import { fitTexts } from "../text.js";
import { legend } from "../words.js";

const { least } = globalThis.d3;

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

/** The drawing of the occurrences; each mark is a button, and all are one tab stop. */
export class SensesMap {
  /**
   * Draw the occurrences of a response, `width` pixels wide. `describe(i)` returns the name of occurrence i;
   * `onpoint(i)` is called for a pointed or focused mark, `onpick(i)` for a chosen one.
   */
  constructor({ senses, occurrences }, { width, describe, onpoint, onpick }) {
    // If there are too many, evenly spaced ones are drawn.
    const length = Math.min(occurrences.length, MAX_POINTS);
    const shown = Array.from({ length }, (_, i) => Math.floor((i * occurrences.length) / length));
    const pointOf = (i) => [occurrences[i].x, occurrences[i].y];
    const { items, height: top } = legend(legendEntries(senses, width), width);
    const { height, project } = frame(shown.map((i) => ({ position: pointOf(i) })), width);
    const r = shown.length > MANY ? SMALL : RADIUS;
    // The arrow keys move from left to right.
    const points = shown.map((i) => ({ i, ...project(pointOf(i)) })).toSorted((a, b) => a.x - b.x || a.y - b.y);
    /** The marks by the index of their occurrence. */
    this.marks = new Map(points.map(({ i, x, y }) => [i, senseMark(occurrences[i].sense, r, {
      class: "mark point", "aria-label": describe(i), transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
      onfocus: () => onpoint(i),
      ...pressable(() => onpick(i)),
    })]));
    const plane = s("g", { transform: `translate(0 ${top})` }, [...this.marks.values()]);
    const near = ({ clientX, clientY }) => {
      const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(plane.getScreenCTM().inverse());
      const distance = (point) => Math.hypot(point.x - x, point.y - y), nearest = least(points, distance);
      return distance(nearest) < REACH ? nearest.i : null;
    };
    this.drawing = svgDrawing("senses-map", width, top + height,
      {
        role: "group", "aria-label": "Map of the occurrences; the arrow keys move between them, Enter shows the sentence",
        onpointermove: (event) => near(event) !== null && onpoint(near(event)),
        onclick: (event) => event.target.closest(".point") || (near(event) !== null && onpick(near(event))),
      },
      items,
      plane,
    );
    this.setStop = rovingTabindex(this.drawing);
    this.setStop(this.marks.get(points[0].i));
  }

  /** Mark occurrence i as the chosen one; null for none. */
  choose(i) {
    for (const [each, mark] of this.marks) mark.setAttribute("aria-pressed", String(each === i));
    if (this.marks.has(i)) this.setStop(this.marks.get(i));
  }
}

/** Return the entries of the legend: the senses with their first keywords. */
function legendEntries(senses, width) {
  const texts = senses.map(({ keywords }, i) =>
    [`${i + 1}`, keywords.slice(0, MAX_KEYWORDS).map(({ word }) => word).join(", ")].filter(Boolean).join(": "));
  return fitTexts(texts, 12, width - 30).map((text, i) => ({ mark: senseMark(i), text }));
}

/** A matrix of weights between words, as a drawing. */

import { inkOn, weightColour } from "../frame/colours.js";
import { s } from "../frame/elements.js";
import { short } from "../frame/numbers.js";
import { labelsOf, largest, layoutOf, legendOf } from "./heatmap_layout.js";

const ROOM_FOR_NUMBERS = 30;

/**
 * A heatmap of the rows of weights, at most `width` wide: `drawing`, its `layout`, and
 * `light(row, column)`, which marks the labels of a cell.
 */
export function heatmap(words, rows, width) {
  const layout = layoutOf(words, width), most = largest(rows);
  const labels = labelsOf(layout).map((label) => ({ ...label, element: lettered(label, layout.size) }));
  const legend = legendOf(layout, most);
  const drawing = s(
    "svg",
    {
      class: "heatmap", viewBox: `0 0 ${layout.width} ${layout.height}`,
      width: layout.width, height: layout.height, "aria-hidden": "true",
    },
    ...cells(rows, layout, most),
    ...(layout.cell >= ROOM_FOR_NUMBERS ? numbers(rows, layout, most) : []),
    ...labels.map(({ element }) => element),
    ...legend.boxes.map((box) => s("rect", { ...box, "shape-rendering": "crispEdges" })),
    ...legend.texts.map(({ text, x, y }) =>
      s("text", { class: "muted", x, y, "dominant-baseline": "central" }, text)),
  );
  return { drawing, layout, light: lighter(labels) };
}

/** One path for each colour: 150 words have 22,500 cells, and so many elements would be slow. */
function cells(rows, { left, top, cell }, most) {
  const paths = new Map(), size = cell - (cell >= 12 ? 1 : 0);
  rows.forEach((row, i) => row.forEach((weight, j) => {
    const colour = weightColour(weight, most);
    if (!paths.has(colour)) paths.set(colour, []);
    paths.get(colour).push(`M${left + j * cell} ${top + i * cell}h${size}v${size}h${-size}z`);
  }));
  return Array.from(paths, ([fill, parts]) =>
    s("path", { fill, d: parts.join(""), "shape-rendering": "crispEdges" }));
}

function numbers(rows, { left, top, cell }, most) {
  const inks = new Map();
  const ink = (colour) => {
    if (!inks.has(colour)) inks.set(colour, inkOn(colour));
    return inks.get(colour);
  };
  return rows.flatMap((row, i) => Array.from(row, (weight, j) => {
    const x = left + (j + 0.5) * cell - 0.5, y = top + (i + 0.5) * cell - 0.5;
    const text = s("text", { class: "in-cell", x, y, "text-anchor": "middle", "dominant-baseline": "central" });
    text.textContent = short(weight);
    text.style.fill = ink(weightColour(weight, most));
    return text;
  }));
}

function lettered({ text, x, y, turned }, size) {
  const element = s(
    "text",
    {
      class: "label", x: turned ? 0 : x, y: turned ? 0 : y, "text-anchor": turned ? "start" : "end",
      "dominant-baseline": "central", transform: turned && `translate(${x} ${y}) rotate(-90)`,
    },
    text,
  );
  element.style.fontSize = `${size}px`;
  return element;
}

function lighter(labels) {
  let lit = [];
  return (row, column) => {
    lit.forEach(({ element }) => element.classList.remove("lit"));
    lit = labels.filter((label) => label.row === row || label.column === column);
    lit.forEach(({ element }) => element.classList.add("lit"));
  };
}

/** The map: where occurrences are before and after context, and which words are near. */

import { thingColour } from "../frame/colours.js";
import { s } from "../frame/elements.js";
import { labelPlaces } from "./label_places.js";
import { fitted, widest } from "./lettering.js";
import { markOf, REACH } from "./map_marks.js";

const { extent } = globalThis.d3;
const EDGE = 26, LINE = 22, LEAST = 200, MOST = 620, LONGEST = 180;
const RANK = ["contextual", "static"];
const KINDS = [
  ["static", "static vector"],
  ["contextual", "contextual vector"],
  ["before", "word near the static vector"],
  ["after", "word near the contextual vector"],
  ["both", "word near both"],
];

/**
 * `points` of mapPoints in `width` pixels. `onname(sentence)` says a point that is pointed at or
 * focused, `onpick(word)` opens a neighbour.
 */
export function flatMap(points, { width, words, onname, onpick }) {
  const { items, height: top } = legend(points, words, width);
  const { height, at } = frame(points, width);
  const placed = points.map((point) => ({ ...point, ...at(point.place), r: REACH[point.kind] }));
  const lines = moves(placed);
  const order = placed.toSorted(byRank);
  const labels = labelPlaces(order.map(lettered), { width, height, lines: lines.map(({ ends }) => ends) });
  const marks = order.map((point, i) => mark(point, labels[i], { width, onname, onpick }));
  // What matters most is drawn last, and so on top.
  const drawn = marks.toReversed();
  const svg = s(
    "svg",
    {
      class: "flat-map", viewBox: `0 0 ${width} ${top + height}`, width, height: top + height,
      role: "group", "aria-label": "Map of the occurrences and the words near them; the arrow keys go from point to point",
    },
    items,
    s("g", { transform: `translate(0 ${top})` }, lines.map(({ shape }) => shape), drawn),
  );
  walk(svg, order.map((point, i) => [point.x, marks[i]]).toSorted(([a], [b]) => a - b).map(([, one]) => one));
  return svg;
}

function byRank(a, b) {
  const rank = ({ kind }) => RANK.indexOf(kind);
  return rank(b) - rank(a) || (b.nearest ?? 1) - (a.nearest ?? 1);
}

const isOccurrence = ({ kind }) => RANK.includes(kind);

function lettered(point) {
  const [word] = fitted([point.label], 12, LONGEST);
  if (!isOccurrence(point)) return { ...point, label: word };
  const label = point.kind === "static" || point.owners.length > 1 ? `${point.letters}: ${word}` : word;
  return { ...point, label, bold: true };
}

/** One scale for both axes, so that what looks far is far. */
function frame(points, width) {
  const [left, right] = extent(points, ({ place }) => place[0]);
  const [low, high] = extent(points, ({ place }) => place[1]);
  const wide = right - left || 1, tall = high - low || 1e-9;
  const height = Math.min(Math.max((width - 2 * EDGE) * (tall / wide) + 2 * EDGE, LEAST), MOST);
  const scale = Math.min((width - 2 * EDGE) / wide, (height - 2 * EDGE) / tall);
  return {
    height,
    at: ([x, y]) => ({
      x: width / 2 + scale * (x - (left + right) / 2),
      y: height / 2 - scale * (y - (low + high) / 2),
    }),
  };
}

/** A line from each static vector to its contextual one. */
function moves(placed) {
  const of = (kind, i) => placed.find((point) => point.kind === kind && point.owners.includes(i));
  const all = [...new Set(placed.filter(isOccurrence).flatMap(({ owners }) => owners))];
  return all.flatMap((i) => {
    const from = of("static", i), to = of("contextual", i);
    if (!from || !to) return [];
    const long = Math.hypot(to.x - from.x, to.y - from.y);
    if (long < from.r + to.r + 2) return [];
    const [ux, uy] = [(to.x - from.x) / long, (to.y - from.y) / long];
    const start = [from.x + (from.r + 2) * ux, from.y + (from.r + 2) * uy];
    const end = [to.x - (to.r + 2) * ux, to.y - (to.r + 2) * uy];
    const back = ([x, y], along, across) => [x - along * ux - across * uy, y - along * uy + across * ux];
    const shape = s(
      "g",
      {},
      s("line", {
        class: "move", x1: start[0], y1: start[1], x2: end[0], y2: end[1],
        stroke: thingColour(i), "stroke-width": 2,
      }),
      s("polygon", { points: [end, back(end, 9, 4.5), back(end, 9, -4.5)].join(" "), fill: thingColour(i) }),
    );
    return [{ shape, ends: [start, end] }];
  });
}

function mark(point, label, { width, onname, onpick }) {
  const occurrence = isOccurrence(point);
  const open = () => onpick(point.word);
  return s(
    "g",
    {
      class: `point ${point.kind}`, role: occurrence ? "img" : "link", tabindex: "-1",
      transform: `translate(${point.x} ${point.y})`,
      "aria-label": point.name,
      onpointerenter: () => onname(point.name),
      onfocus: () => onname(point.name),
      ...(!occurrence && {
        onclick: open,
        onkeydown: (event) => event.key === "Enter" && open(),
      }),
    },
    s("circle", { class: "ring unsaved", r: point.r + 5 }),
    markOf(point.kind, point.owners),
    lettering(point, label, width),
  );
}

/** A label that found no place is seen while its point is pointed at or focused. */
function lettering(point, label, width) {
  const text = lettered(point).label;
  const inward = point.x > width / 2;
  const { x, y, anchor } = label
    ?? { x: point.x + (inward ? -1 : 1) * (point.r + 3), y: point.y, anchor: inward ? "end" : "start" };
  return s(
    "text",
    {
      class: `${isOccurrence(point) ? "title" : "muted"}${label ? "" : " unplaced unsaved"}`,
      x: x - point.x, y: y - point.y, "text-anchor": anchor, "dominant-baseline": "central",
    },
    text,
  );
}

/** One point is in the order of the Tab key; arrows go to its neighbours from left to right. */
function walk(svg, marks) {
  marks[0]?.setAttribute("tabindex", "0");
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const from = marks.indexOf(document.activeElement);
    if (!step || from < 0) return;
    event.preventDefault();
    const to = marks[(from + step + marks.length) % marks.length];
    marks[from].setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
  });
}

/** What marks mean, of the kinds there are, in lines as wide as the picture. */
function legend(points, words, width) {
  const there = new Set(points.map(({ kind }) => kind));
  const entries = [
    ...fitted(words, 12, LONGEST).map((word, i) => ({ kind: "contextual", owners: [i], text: word })),
    ...KINDS.filter(([kind]) => there.has(kind)).map(([kind, text]) => ({ kind, owners: [], text })),
  ];
  let x = 0, y = 0;
  const items = entries.map(({ kind, owners, text }, i) => {
    const long = 26 + widest([text], 12) + 16;
    if (x && (x + long > width || i === words.length)) {
      x = 0;
      y += LINE;
    }
    const item = s(
      "g",
      { transform: `translate(${x + 11} ${y + LINE / 2})` },
      markOf(kind, owners),
      s("text", { x: 15, y: 0, "dominant-baseline": "central" }, text),
    );
    x += long;
    return item;
  });
  return { items, height: y + LINE + 10 };
}

/** The map: static and contextual vectors of occurrences and their neighbors as points. */

import { categoryColor, textColorOn } from "../colors.js";
import { s } from "../elements.js";
import { fitTexts, joinNames, letter, maxTextWidth, short } from "../text.js";

const { extent } = globalThis.d3;

const EDGE = 26, LINE = 22, LEAST = 200, MOST = 620, LONGEST = 180;
/** The kinds of points of occurrences, the most important first. */
const RANK = ["contextual", "static"];
const KINDS = [
  ["static", "static vector"],
  ["contextual", "contextual vector"],
  ["before", "word near the static vector"],
  ["after", "word near the contextual vector"],
  ["both", "word near both"],
];

/**
 * The drawing of `points`, `width` pixels wide; `words` are the occurrences'. `onpoint(name)` is called for
 * a pointed or focused point, `onpick(word)` for a chosen neighbor.
 */
export function mapDrawing(points, { width, words, onpoint, onpick }) {
  const { items, height: top } = legend(points, words, width);
  const { height, at } = frame(points, width);
  const placed = points.map((point) => ({ ...point, ...at(point.place), r: REACH[point.kind] }));
  const lines = moves(placed);
  const order = placed.toSorted(byRank);
  const labels = labelPlaces(order.map(withLabel), { width, height, lines: lines.map(({ ends }) => ends) });
  const marks = order.map((point, i) => pointElement(point, labels[i], { width, onpoint, onpick }));
  const svg = s(
    "svg",
    {
      class: "flat-map", viewBox: `0 0 ${width} ${top + height}`, width, height: top + height,
      role: "group", "aria-label": "Map of the occurrences and their neighbors; the arrow keys move between points",
    },
    items,
    // The most important points are drawn last, on top.
    s("g", { transform: `translate(0 ${top})` }, lines.map(({ shape }) => shape), marks.toReversed()),
  );
  addArrowKeys(svg, order.map((point, i) => [point.x, marks[i]]).toSorted(([a], [b]) => a - b).map(([, one]) => one));
  return svg;
}

function byRank(a, b) {
  const rank = ({ kind }) => RANK.indexOf(kind);
  return rank(b) - rank(a) || (b.nearest ?? 1) - (a.nearest ?? 1);
}

const isOccurrence = ({ kind }) => RANK.includes(kind);

/** A point with its label as it is drawn. */
function withLabel(point) {
  const [word] = fitTexts([point.label], 12, LONGEST);
  if (!isOccurrence(point)) return { ...point, label: word };
  const label = point.kind === "static" || point.owners.length > 1 ? `${point.letters}: ${word}` : word;
  return { ...point, label, bold: true };
}

/** The height and the place of coordinates, with one scale for both axes. */
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

/** Arrows from static vectors to contextual ones. */
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
        stroke: categoryColor(i), "stroke-width": 2,
      }),
      s("polygon", { points: [end, back(end, 9, 4.5), back(end, 9, -4.5)].join(" "), fill: categoryColor(i) }),
    );
    return [{ shape, ends: [start, end] }];
  });
}

function pointElement(point, label, { width, onpoint, onpick }) {
  const occurrence = isOccurrence(point);
  const open = () => onpick(point.word);
  return s(
    "g",
    {
      class: `point ${point.kind}`, role: occurrence ? "img" : "link", tabindex: "-1",
      transform: `translate(${point.x} ${point.y})`,
      "aria-label": point.name,
      onpointerenter: () => onpoint(point.name),
      onfocus: () => onpoint(point.name),
      ...(!occurrence && {
        onclick: open,
        onkeydown: (event) => event.key === "Enter" && open(),
      }),
    },
    s("circle", { class: "ring unsaved", r: point.r + 5 }),
    markOf(point.kind, point.owners),
    labelElement(point, label, width),
  );
}

/** A label; one without a free place is shown while its point is pointed at or focused. */
function labelElement(point, label, width) {
  const text = withLabel(point).label;
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

/** Make the points one tab stop; arrows move between them from left to right. */
function addArrowKeys(svg, marks) {
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

/** The legend of the occurrences and of the kinds of points, in lines of the map's width. */
function legend(points, words, width) {
  const there = new Set(points.map(({ kind }) => kind));
  const entries = [
    ...fitTexts(words, 12, LONGEST).map((word, i) => ({ kind: "contextual", owners: [i], text: word })),
    ...KINDS.filter(([kind]) => there.has(kind)).map(([kind, text]) => ({ kind, owners: [], text })),
  ];
  let x = 0, y = 0;
  const items = entries.map(({ kind, owners, text }, i) => {
    const long = 26 + maxTextWidth([text], 12) + 16;
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

/** The radius of each kind of mark. */
const REACH = { static: 8, contextual: 10, before: 4, after: 3.5, both: 4.5 };

/** The mark of a kind at 0, 0. A mark of several occurrences has a neutral color. */
function markOf(kind, owners) {
  const alone = owners.length === 1;
  const r = REACH[kind];
  const square = (width) => s("rect", {
    class: alone ? "hollow" : "hollow shared", x: -r, y: -r, width: 2 * r, height: 2 * r,
    "stroke-width": width, stroke: alone ? categoryColor(owners[0]) : null,
  });
  if (kind === "static") return [square(2.5)];
  if (kind === "before") return [square(1.5)];
  const paint = { class: alone ? null : "shared-fill", fill: alone ? categoryColor(owners[0]) : null };
  if (kind === "both") {
    return [s("polygon", { ...paint, points: `0,${-r} ${r},0 0,${r} ${-r},0` })];
  }
  const disc = s("circle", { ...paint, r });
  return kind === "contextual" && alone ? [disc, letterElement(owners[0])] : [disc];
}

function letterElement(i) {
  const text = s(
    "text",
    { class: "letter", x: 0, y: 0, "text-anchor": "middle", "dominant-baseline": "central" },
    letter(i),
  );
  text.style.fill = textColorOn(categoryColor(i));
  return text;
}

/** The height of a label. */
const HIGH = 14;

/**
 * A place `{x, y, anchor}` for the label of each point `{x, y, r, label, bold}`, the most important first,
 * or null. Labels overlap neither points nor other labels nor `lines`, and stay inside the frame.
 */
function labelPlaces(points, { width, height, lines }) {
  const taken = [
    ...points.map(({ x, y, r }) => ({ left: x - r, right: x + r, top: y - r, bottom: y + r })),
    ...lines.flatMap(sampled),
  ];
  const free = ({ left, right, top, bottom }) =>
    left >= 0 && right <= width && top >= 0 && bottom <= height
    && taken.every((box) => right <= box.left || left >= box.right || bottom <= box.top || top >= box.bottom);
  return points.map((point) => {
    const long = maxTextWidth([point.label], 12) * (point.bold ? 1.1 : 1) + 2;
    const found = candidates(point, long).find(({ box }) => free(box));
    if (!found) return null;
    taken.push(found.box);
    return found;
  });
}

/** Places to the right of a point, left, above, below, and on the diagonals. */
function candidates({ x, y, r }, long) {
  const off = r + 3, aslant = 0.7 * r + 2;
  return [
    labelAt(x + off, y, "start", long), labelAt(x - off, y, "end", long),
    labelAt(x, y - off - HIGH / 2, "middle", long), labelAt(x, y + off + HIGH / 2, "middle", long),
    labelAt(x + aslant, y - aslant - 4, "start", long), labelAt(x + aslant, y + aslant + 4, "start", long),
    labelAt(x - aslant, y - aslant - 4, "end", long), labelAt(x - aslant, y + aslant + 4, "end", long),
  ];
}

function labelAt(x, y, anchor, long) {
  const left = x - { start: 0, middle: long / 2, end: long }[anchor];
  return { x, y, anchor, box: { left, right: left + long, top: y - HIGH / 2, bottom: y + HIGH / 2 } };
}

/** Small boxes along a line. */
function sampled([[x, y], [to, down]]) {
  const steps = Math.ceil(Math.hypot(to - x, down - y) / 6);
  return Array.from({ length: steps }, (_, i) => {
    const share = i / steps, along = x + share * (to - x), across = y + share * (down - y);
    return { left: along - 1, right: along + 1, top: across - 1, bottom: across + 1 };
  });
}

/**
 * The points `{kind, place, owners, label, name, …}` of a response with a map; `owners` are indices of
 * occurrences. Equal places of one kind are one point. Zero vectors have no place and are left out.
 */
export function mapPoints({ map, occurrences }) {
  const words = occurrences.map(({ token }) => token.text);
  const grouped = (places, kind, title) => groupsOf(places).map(({ place, owners }) => {
    const label = joinNames([...new Set(owners.map((i) => words[i]))]);
    const letters = joinNames(owners.map(letter));
    return { kind, place, owners, label, letters, name: `${title} of ${letters} (${label})` };
  });
  return [
    ...grouped(map.static, "static", "Static vector"),
    ...grouped(map.contextual, "contextual", "Contextual vector"),
    ...map.neighbors.filter(({ position }) => position).map((one) => neighborPoint(one, occurrences)),
  ];
}

function groupsOf(places) {
  const found = new Map();
  places.forEach((place, i) => {
    if (!place) return;
    const key = place.join();
    if (!found.has(key)) found.set(key, { place, owners: [] });
    found.get(key).owners.push(i);
  });
  return [...found.values()];
}

function neighborPoint({ word, position }, occurrences) {
  const cosines = (list) => occurrences.flatMap((one, i) => {
    const found = one[list].find((near) => near.word === word);
    return found ? [{ i, cosine: found.similarity }] : [];
  });
  const before = cosines("static_neighbors"), after = cosines("contextual_neighbors");
  const kind = before.length && after.length ? "both" : before.length ? "before" : "after";
  const withCosines = (near) => joinNames(near.map(({ i, cosine }) => `${letter(i)} ${short(cosine)}`));
  return {
    kind, place: position, word, label: word,
    owners: [...new Set([...before, ...after].map(({ i }) => i))],
    nearest: Math.max(...[...before, ...after].map(({ cosine }) => cosine)),
    name: [
      `${word}: `,
      before.length ? `near the static vector of ${withCosines(before)}` : "",
      before.length && after.length ? "; " : "",
      after.length ? `near the contextual vector of ${withCosines(after)}` : "",
    ].join(""),
  };
}

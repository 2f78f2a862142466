/** The map: static and contextual vectors of occurrences, and their neighbors, as points. */

import { categoryColor } from "../colors.js";
import { rovingTabindex, s, svgDrawing } from "../elements.js";
import { fitTexts, joinNames, letter, maxTextWidth, short } from "../text.js";
import { legend } from "../words.js";

const { extent } = globalThis.d3;

const EDGE = 26, MIN_HEIGHT = 200, MAX_HEIGHT = 620, MAX_LABEL = 180;
/** The kinds of points of occurrences, most important last. */
const RANK = ["static", "contextual"];
const KINDS = [
  ["static", "static vector"],
  ["contextual", "contextual vector"],
  ["before", "word near the static vector"],
  ["after", "word near the contextual vector"],
  ["both", "word near both"],
];

/**
 * Draw the map of `points`, `width` pixels wide; `words` are the words of the occurrences. `onpoint(name)` is
 * called for a pointed or focused point, `onpick(word)` for a chosen neighbor.
 */
export function mapDrawing(points, { width, words, onpoint, onpick }) {
  const { items, height: top } = legend(legendEntries(points, words), width, words.length);
  const { height, project } = frame(points, width);
  const placed = points.map((point) => ({ ...point, ...project(point.position), r: RADII[point.kind] }));
  const lines = shiftArrows(placed);
  const order = placed.toSorted(byRank).map(withLabel);
  const labels = placeLabels(order, { width, height, lines: lines.map(({ ends }) => ends) });
  const marks = order.map((point, i) => pointElement(point, labels[i], { width, onpoint, onpick }));
  const svg = svgDrawing(
    "flat-map",
    width,
    top + height,
    { role: "group", "aria-label": "Map of the occurrences and their neighbors; the arrow keys move between points" },
    items,
    // The most important points are drawn last, on top.
    s("g", { transform: `translate(0 ${top})` }, lines.map(({ shape }) => shape), marks.toReversed()),
  );
  const fromLeft = order.map(({ x }, i) => [x, marks[i]]).toSorted(([a], [b]) => a - b).map(([, mark]) => mark);
  rovingTabindex(svg, () => 1, () => fromLeft)(fromLeft[0]);
  return svg;
}

function byRank(a, b) {
  const rank = ({ kind }) => RANK.indexOf(kind);
  return rank(b) - rank(a) || (b.nearest ?? 1) - (a.nearest ?? 1);
}

const isOccurrence = ({ kind }) => RANK.includes(kind);

/** Return a point with the label to draw. */
function withLabel(point) {
  const [word] = fitTexts([point.label], 12, MAX_LABEL);
  if (!isOccurrence(point)) return { ...point, label: word };
  const label = point.kind === "static" || point.owners.length > 1 ? `${point.letters}: ${word}` : word;
  return { ...point, label, bold: true };
}

/** Return the height of the map, and `project`, which maps coordinates to pixels, with one scale for both axes. */
export function frame(points, width) {
  const [left, right] = extent(points, ({ position }) => position[0]);
  const [low, high] = extent(points, ({ position }) => position[1]);
  const spanX = right - left || 1, spanY = high - low || 1e-9;
  const height = Math.min(Math.max((width - 2 * EDGE) * (spanY / spanX) + 2 * EDGE, MIN_HEIGHT), MAX_HEIGHT);
  const scale = Math.min((width - 2 * EDGE) / spanX, (height - 2 * EDGE) / spanY);
  return {
    height,
    project: ([x, y]) => ({
      x: width / 2 + scale * (x - (left + right) / 2),
      y: height / 2 - scale * (y - (low + high) / 2),
    }),
  };
}

/** Draw an arrow from the static to the contextual point of each occurrence that has both, unless they touch. */
function shiftArrows(placed) {
  const of = (kind, i) => placed.find((point) => point.kind === kind && point.owners.includes(i));
  const all = [...new Set(placed.filter(isOccurrence).flatMap(({ owners }) => owners))];
  return all.flatMap((i) => {
    const from = of("static", i), to = of("contextual", i);
    if (!from || !to) return [];
    const length = Math.hypot(to.x - from.x, to.y - from.y);
    if (length < from.r + to.r + 2) return [];
    const angle = Math.atan2(to.y - from.y, to.x - from.x) * (180 / Math.PI), end = length - to.r - 2;
    const shape = s(
      "g",
      { transform: `translate(${from.x} ${from.y}) rotate(${angle})` },
      s("line", { class: "arrow", x1: from.r + 2, x2: end, stroke: categoryColor(i), "stroke-width": 2 }),
      s("polygon", { points: `${end},0 ${end - 9},4.5 ${end - 9},-4.5`, fill: categoryColor(i) }),
    );
    return [{ shape, ends: [[from.x, from.y], [to.x, to.y]] }];
  });
}

function pointElement(point, label, { width, onpoint, onpick }) {
  const occurrence = isOccurrence(point);
  const open = () => onpick(point.word);
  let tapped = false;
  return s(
    "g",
    {
      class: `point ${point.kind}`, role: occurrence ? "img" : "link", tabindex: "-1",
      transform: `translate(${point.x} ${point.y})`,
      "aria-label": point.name,
      onpointerenter: () => onpoint(point.name),
      onfocus: () => onpoint(point.name),
      ...(!occurrence && {
        // The first tap shows the name, as pointing does, and the second one opens the link.
        onclick: ({ pointerType }) => {
          if (pointerType !== "touch" || tapped) open();
          tapped = true;
        },
        onkeydown: (event) => event.key === "Enter" && open(),
      }),
    },
    s("circle", { class: "ring unsaved", r: point.r + 5 }),
    markOf(point.kind, point.owners),
    labelElement(point, label, width),
  );
}

/** Draw a label. A label without a free position is shown only if its point is hovered or focused. */
function labelElement(point, label, width) {
  const inward = point.x > width / 2;
  const { x, y, anchor } = label
    ?? { x: point.x + (inward ? -1 : 1) * (point.r + 3), y: point.y, anchor: inward ? "end" : "start" };
  return s(
    "text",
    {
      class: `${isOccurrence(point) ? "title" : "muted"}${label ? "" : " unplaced unsaved"}`,
      x: x - point.x, y: y - point.y, "text-anchor": anchor, "dominant-baseline": "central",
    },
    point.label,
  );
}

/** Return the entries of the legend: the occurrences, and the kinds of points. */
function legendEntries(points, words) {
  const present = new Set(points.map(({ kind }) => kind));
  return [
    ...fitTexts(words, 12, MAX_LABEL).map((text, i) => ({ mark: markOf("contextual", [i]), text })),
    ...KINDS.filter(([kind]) => present.has(kind)).map(([kind, text]) => ({ mark: markOf(kind, []), text })),
  ];
}

/** The radius of each kind of mark. */
const RADII = { static: 8, contextual: 10, before: 4, after: 3.5, both: 4.5 };

/** Draw the mark of a kind at 0, 0. The mark of one occurrence has its color; others are neutral. */
function markOf(kind, owners) {
  const alone = owners.length === 1;
  const r = RADII[kind];
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
  if (kind !== "contextual" || !alone) return [disc];
  const middle = { x: 0, y: 0, "text-anchor": "middle", "dominant-baseline": "central" };
  return [disc, s("text", { class: "letter on-category", ...middle }, letter(owners[0]))];
}

/** The height of a label. */
const LABEL_HEIGHT = 14;

/**
 * Return a position `{x, y, anchor}`, or null, for the label of each point `{x, y, r, label, bold}`. Labels do
 * not overlap points, `lines` or each other, and stay inside the frame. Earlier points are placed first.
 */
function placeLabels(points, { width, height, lines }) {
  const taken = [
    ...points.map(({ x, y, r }) => ({ left: x - r, right: x + r, top: y - r, bottom: y + r })),
    ...lines.flatMap(sampled),
  ];
  const free = ({ left, right, top, bottom }) =>
    left >= 0 && right <= width && top >= 0 && bottom <= height
    && taken.every((box) => right <= box.left || left >= box.right || bottom <= box.top || top >= box.bottom);
  return points.map((point) => {
    const length = maxTextWidth([point.label], 12) * (point.bold ? 1.1 : 1) + 2;
    const place = candidates(point, length).find(({ box }) => free(box)) ?? null;
    if (place) taken.push(place.box);
    return place;
  });
}

/** Return label positions right of a point, left, above, below, and on the diagonals. */
function candidates({ x, y, r }, length) {
  const off = r + 3, diagonal = r + 1;
  return [
    labelAt(x + off, y, "start", length), labelAt(x - off, y, "end", length),
    labelAt(x, y - off - LABEL_HEIGHT / 2, "middle", length), labelAt(x, y + off + LABEL_HEIGHT / 2, "middle", length),
    labelAt(x + diagonal, y - diagonal - 4, "start", length), labelAt(x + diagonal, y + diagonal + 4, "start", length),
    labelAt(x - diagonal, y - diagonal - 4, "end", length), labelAt(x - diagonal, y + diagonal + 4, "end", length),
  ];
}

function labelAt(x, y, anchor, length) {
  const left = x - { start: 0, middle: length / 2, end: length }[anchor];
  return { x, y, anchor, box: { left, right: left + length, top: y - LABEL_HEIGHT / 2, bottom: y + LABEL_HEIGHT / 2 } };
}

/** Return small boxes along a line. */
function sampled([[x1, y1], [x2, y2]]) {
  const steps = Math.ceil(Math.hypot(x2 - x1, y2 - y1) / 6);
  return Array.from({ length: steps }, (_, i) => {
    const x = x1 + (i / steps) * (x2 - x1), y = y1 + (i / steps) * (y2 - y1);
    return { left: x - 1, right: x + 1, top: y - 1, bottom: y + 1 };
  });
}

/**
 * Return the points `{kind, position, owners, label, name, …}` of a response with a map; `owners` are indices
 * of occurrences. Equal static positions are one point, as are equal contextual ones. Zero vectors have no
 * position and no point.
 */
export function mapPoints({ map, occurrences }) {
  const words = occurrences.map(({ token }) => token.text);
  const grouped = (positions, kind, title) => {
    const known = [...positions.keys()].filter((i) => positions[i]);
    return [...Map.groupBy(known, (i) => positions[i].join()).values()].map((owners) => {
      const label = joinNames([...new Set(owners.map((i) => words[i]))]);
      const letters = joinNames(owners.map(letter));
      return { kind, position: positions[owners[0]], owners, label, letters, name: `${title} of ${letters} (${label})` };
    });
  };
  return [
    ...grouped(map.static, "static", "Static vector"),
    ...grouped(map.contextual, "contextual", "Contextual vector"),
    ...map.neighbors.filter(({ position }) => position).map((neighbor) => neighborPoint(neighbor, occurrences)),
  ];
}

function neighborPoint({ word, position }, occurrences) {
  const cosines = (list) => occurrences.flatMap((occurrence, i) =>
    occurrence[list].filter((near) => near.word === word).map(({ similarity }) => ({ i, cosine: similarity })));
  const before = cosines("static_neighbors"), after = cosines("contextual_neighbors");
  const kind = before.length && after.length ? "both" : before.length ? "before" : "after";
  const withCosines = (near) => joinNames(near.map(({ i, cosine }) => `${letter(i)} ${short(cosine)}`));
  return {
    kind, position, word, label: word,
    owners: [...new Set([...before, ...after].map(({ i }) => i))],
    nearest: Math.max(...[...before, ...after].map(({ cosine }) => cosine)),
    name: `${word}: ${[
      before.length && `near the static vector of ${withCosines(before)}`,
      after.length && `near the contextual vector of ${withCosines(after)}`,
    ].filter(Boolean).join("; ")}`,
  };
}

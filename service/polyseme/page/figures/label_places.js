/** Places for labels beside their points, so that none covers another. */

import { widest } from "./lettering.js";

const HIGH = 14;

/**
 * For each of `[{x, y, r, label, bold}]`, the most important first, `{x, y, anchor}` or null where no
 * place is free. Labels keep off all points, off each other, off `lines` and inside the frame.
 */
export function labelPlaces(points, { width, height, lines }) {
  const taken = [
    ...points.map(({ x, y, r }) => ({ left: x - r, right: x + r, top: y - r, bottom: y + r })),
    ...lines.flatMap(sampled),
  ];
  const free = ({ left, right, top, bottom }) =>
    left >= 0 && right <= width && top >= 0 && bottom <= height
    && taken.every((box) => right <= box.left || left >= box.right || bottom <= box.top || top >= box.bottom);
  return points.map((point) => {
    const long = widest([point.label], 12) * (point.bold ? 1.1 : 1) + 2;
    const found = candidates(point, long).find(({ box }) => free(box));
    if (!found) return null;
    taken.push(found.box);
    return found;
  });
}

/** Right of the point, left, above, below, and aslant. */
function candidates({ x, y, r }, long) {
  const off = r + 3, aslant = 0.7 * r + 2;
  return [
    at(x + off, y, "start", long), at(x - off, y, "end", long),
    at(x, y - off - HIGH / 2, "middle", long), at(x, y + off + HIGH / 2, "middle", long),
    at(x + aslant, y - aslant - 4, "start", long), at(x + aslant, y + aslant + 4, "start", long),
    at(x - aslant, y - aslant - 4, "end", long), at(x - aslant, y + aslant + 4, "end", long),
  ];
}

function at(x, y, anchor, long) {
  const left = x - { start: 0, middle: long / 2, end: long }[anchor];
  return { x, y, anchor, box: { left, right: left + long, top: y - HIGH / 2, bottom: y + HIGH / 2 } };
}

function sampled([[x, y], [to, down]]) {
  const steps = Math.ceil(Math.hypot(to - x, down - y) / 6);
  return Array.from({ length: steps }, (_, i) => {
    const share = i / steps, along = x + share * (to - x), across = y + share * (down - y);
    return { left: along - 1, right: along + 1, top: across - 1, bottom: across + 1 };
  });
}

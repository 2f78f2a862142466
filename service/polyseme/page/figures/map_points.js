/** The points of a map of occurrences: what each is, whose it is, and how it is said. */

import { short } from "../frame/numbers.js";
import { letter, listed } from "./letters.js";

/**
 * `[{kind, place, owners, words, label, name, …}]` of an answer with a map. Equal places of one
 * kind are one point with all its owners; what has no place, being zero, is left out.
 */
export function mapPoints({ map, occurrences }) {
  const words = occurrences.map(({ token }) => token.text);
  const together = (places, kind, said) => grouped(places).map(({ place, owners }) => {
    const spelt = listed([...new Set(owners.map((i) => words[i]))]);
    const letters = listed(owners.map(letter));
    return { kind, place, owners, label: spelt, letters, name: `${said} of ${letters} (${spelt})` };
  });
  return [
    ...together(map.static, "static", "Static vector"),
    ...together(map.contextual, "contextual", "Contextual vector"),
    ...map.neighbors.filter(({ position }) => position).map((one) => neighbour(one, occurrences)),
  ];
}

function grouped(places) {
  const found = new Map();
  places.forEach((place, i) => {
    if (!place) return;
    const key = place.join();
    if (!found.has(key)) found.set(key, { place, owners: [] });
    found.get(key).owners.push(i);
  });
  return [...found.values()];
}

function neighbour({ word, position }, occurrences) {
  const cosines = (list) => occurrences.flatMap((one, i) => {
    const found = one[list].find((near) => near.word === word);
    return found ? [{ i, cosine: found.similarity }] : [];
  });
  const before = cosines("static_neighbors"), after = cosines("contextual_neighbors");
  const kind = before.length && after.length ? "both" : before.length ? "before" : "after";
  const said = (near) => listed(near.map(({ i, cosine }) => `${letter(i)} ${short(cosine)}`));
  return {
    kind, place: position, word, label: word,
    owners: [...new Set([...before, ...after].map(({ i }) => i))],
    nearest: Math.max(...[...before, ...after].map(({ cosine }) => cosine)),
    name: [
      `${word}: `,
      before.length ? `near the static vector of ${said(before)}` : "",
      before.length && after.length ? "; " : "",
      after.length ? `near the contextual vector of ${said(after)}` : "",
    ].join(""),
  };
}

/** The service's notes, which name occurrences by number, with their letters. */

import { letter } from "./occurrences.js";

const PAIR = /^Occurrences (\d+) and (\d+) (.*)$/s;

/** Notes to read: of pairs that say the same, one for all that hang together. */
export function lettered(notes) {
  const groups = [];
  const others = [];
  for (const note of notes) {
    const [, a, b, said] = note.match(PAIR) ?? [];
    if (said === undefined) others.push(note.replace(/^Occurrence (\d+)/, (_, i) => letter(Number(i))));
    else join(groups, said, Number(a), Number(b));
  }
  return [...groups.map(({ members, said }) => `${listed([...members].map(letter))} ${said}`), ...others];
}

function join(groups, said, a, b) {
  const group = groups.find((one) => one.said === said && (one.members.has(a) || one.members.has(b)));
  if (group) group.members.add(a).add(b);
  else groups.push({ said, members: new Set([a, b]) });
}

/** A, B and C. */
export function listed(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

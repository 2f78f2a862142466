/** The service's notes, which name occurrences by number, with their letters. */

import { letter, listed } from "../figures/letters.js";
import { told } from "./parted.js";

const PAIR = /^Occurrences (\d+) and (\d+) (.*)$/s;

/** An answer's notes to read: of pairs that say the same, one for all that hang together. */
export function lettered(answer) {
  const groups = [];
  const others = [];
  for (const note of answer.notes) {
    const [, a, b, said] = note.match(PAIR) ?? [];
    if (said === undefined) others.push(note.replace(/^Occurrence (\d+)/, (_, i) => letter(Number(i))));
    else join(groups, told(said, [a, b], answer), Number(a), Number(b));
  }
  return [...groups.map(({ members, said }) => `${listed([...members].toSorted((a, b) => a - b).map(letter))} ${said}`), ...others];
}

function join(groups, said, a, b) {
  const group = groups.find((one) => one.said === said && (one.members.has(a) || one.members.has(b)));
  if (group) group.members.add(a).add(b);
  else groups.push({ said, members: new Set([a, b]) });
}

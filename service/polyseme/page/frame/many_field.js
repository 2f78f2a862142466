/** The choice of how many are asked for. */

import { choice, labelled, offer } from "./elements.js";

/**
 * A choice among `usual` numbers, changing `k`: `element`, and `show(k)`. What an address made by
 * hand says stays to be seen beside them: the service says where it is wrong.
 */
export function manyField(page, label, usual) {
  const select = choice([], "", (k) => page.go({ k }));
  return {
    element: labelled(label, select),
    show(k) {
      const all = [...new Set([...usual, k])].toSorted((a, b) => rank(a) - rank(b));
      offer(select, all.map((each) => [each, each]), k);
    },
  };
}

/** What is no number comes after all that are. */
const rank = (k) => (Number.isFinite(Number(k)) ? Number(k) : Number.MAX_VALUE);

/** The number to ask for; what is none as it is, for the service to say so. */
export function manyOf(k) {
  return k.trim() && Number.isFinite(Number(k)) ? Number(k) : k;
}

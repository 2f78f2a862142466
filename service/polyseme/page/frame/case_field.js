/** The choice of how upper and lower case are treated. */

import { choice, labelled, offer } from "./elements.js";

const CASES = [
  ["auto", "as written, else another"],
  ["exact", "as written"],
  ["lower", "lower"],
];

/** `element`, and `show(name)`; what an address made by hand says is left to the service. */
export function caseField(page) {
  const select = choice(CASES, "auto", (chosen) => page.go({ case: chosen }));
  return {
    element: labelled("Case", select),
    show(name) {
      const listed = CASES.some(([value]) => value === name);
      offer(select, listed ? CASES : [...CASES, [name, name]], name);
    },
  };
}

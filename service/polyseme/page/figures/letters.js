/** The letters that name occurrences, and names in a row. */

/** The letter of the i-th occurrence. */
export const letter = (i) => String.fromCharCode(65 + i);

/** A, B and C. */
export function listed(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

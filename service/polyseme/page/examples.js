/**
 * The built-in examples of the views: `{name, state, open, note}`. `state` has the fields of the address that make the
 * example, `open` those that it opens with, and `note` says what to look at. A view opens with its first example.
 */

import examples from "./examples.json" with { type: "json" };

export const { sentences: SENTENCES, neighbors: NEIGHBORS } = examples;

export const OCCURRENCES = examples.occurrences.map(({ state, occurrences, ...example }) =>
  ({ ...example, state: { ...state, occurrences: JSON.stringify(occurrences) } }));

export const TEXTS = examples.texts.map(({ state, sentences, ...example }) =>
  ({ ...example, state: { ...state, text: sentences.join("\n"), file: "" } }));

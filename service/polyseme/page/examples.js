/**
 * The built-in examples of the views: `{name, state, open, note}`. `state` has the fields of the address that make the
 * example, `open` those that it opens with, and `note` says what to look at. A view opens with its first example.
 */

import { readJson } from "./client.js";

const { sentences, neighbors, occurrences, texts } = await readJson("examples.json");

export const SENTENCES = sentences, NEIGHBORS = neighbors;

export const OCCURRENCES = occurrences.map(({ state, ...example }) =>
  ({ ...example, state: { ...state, occurrences: JSON.stringify(example.occurrences) } }));

export const TEXTS = texts.map(({ state, ...example }) =>
  ({ ...example, state: { ...state, text: example.sentences.join("\n"), long: "" } }));

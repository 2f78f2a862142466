/** The models that answer, asked for once and shared by all views. */

import { ask } from "./service.js";

/** So long is a refusal believed: each view asks, and a rate may be small. */
const PATIENCE = 30_000;
let asked = null;

/** What `/v1/models` lists; nothing where it did not answer. */
export function listed() {
  asked ??= ask("v1/models").then((text) => {
    const { data } = JSON.parse(text);
    return Array.isArray(data) ? data : [];
  }).catch(() => {
    setTimeout(forget, PATIENCE);
    return [];
  });
  return asked;
}

/** Ask again next time: with another key, others may answer. */
export function forget() {
  asked = null;
}

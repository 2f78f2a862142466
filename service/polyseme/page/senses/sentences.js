/** The reader's sentences: from typed text and from files, and the frequent words in them. */

import STOP_WORDS from "../stop-words.json" with { type: "json" };
import { bytes } from "../text.js";

/** The maximum size of the chosen files; the service accepts request bodies of about this size. */
const MAX_BYTES = 4_000_000;
/**
 * The maximum length and number of lines of a text in the address and in the text field. Browsers accept
 * addresses of about 1 MB, where a letter may need 9 characters, and edit thousands of lines slowly.
 */
const MAX_LENGTH = 100_000, MAX_LINES = 2000;
/** The number of lines of a long text that are shown. */
const MAX_SHOWN = 100;

/** Whether a text is too long for the address and for the text field. */
export function isLong(text) {
  return text.length > MAX_LENGTH || text.split("\n", MAX_LINES + 1).length > MAX_LINES;
}

/** Return the beginning of a long text. */
export const beginningOf = (text) => `${text.slice(0, MAX_LENGTH).split("\n", MAX_SHOWN).join("\n")}\n…`;

/** Return the lines of a text that are not empty: `sentence` without the white space around it, and `number` from 1. */
export function linesOf(text) {
  return text.split(/\r\n|[\r\n\u2028\u2029]/)
    .map((line, i) => ({ sentence: line.trim(), number: i + 1 }))
    .filter(({ sentence }) => sentence);
}

/** Return the sentences of a text; a line end also ends a sentence. */
export function sentencesOf(text) {
  const segmenter = new Intl.Segmenter(undefined, { granularity: "sentence" });
  return linesOf(text).flatMap(({ sentence }) =>
    Array.from(segmenter.segment(sentence), ({ segment }) => segment.trim())).filter(Boolean);
}

/** An error in a chosen file; the message is a sentence for the reader. */
export class FileError extends Error {}

/** Return the text of files, one after the other. Throw a FileError if they are too large, unreadable or not text. */
export async function readFiles(files) {
  const size = files.reduce((sum, file) => sum + file.size, 0);
  if (size > MAX_BYTES) {
    throw new FileError(`${namesOf(files)}: ${bytes(size)} is too large. The page reads at most ${bytes(MAX_BYTES)};`
      + " the command polyseme senses reads files of any size.");
  }
  const texts = await Promise.all(files.map(readFile));
  return texts.join("\n");
}

/** Return the names of files for the reader. */
export const namesOf = (files) => files.map(({ name }) => name).join(", ");

async function readFile(file) {
  let content;
  try {
    content = new Uint8Array(await file.arrayBuffer());
  } catch {
    throw new FileError(`${file.name} could not be read.`);
  }
  // The byte order mark of UTF-16.
  const encoding = { 65279: "utf-16le", 65534: "utf-16be" }[256 * content[1] + content[0]] ?? "utf-8";
  try {
    const text = new TextDecoder(encoding, { fatal: true }).decode(content);
    if (!text.includes("\0")) return text;
  } catch {
    // It is another encoding, or not text.
  }
  throw new FileError(`${file.name} is not a text file in UTF-8 or UTF-16.`);
}

/** Web and mail addresses, handles and hashtags: each is one token, so the words in them do not occur. */
const UNSPLIT = /(?:(?:https?|ftp):\/\/|www\.)\S+|[\w.+-]{1,64}@[\w-]{1,63}\.\S+|(?<![\p{L}\p{N}_&])[@#][\p{L}\p{N}\p{M}_]+/giu;
const WORD = /(?<![\p{L}\p{M}\p{N}])\p{L}[\p{L}\p{M}\p{N}]*(?:[-‐'’][\p{L}\p{N}][\p{L}\p{M}\p{N}]*)*/gu;
const NEGATION = /n['’]t$/i, CONTRACTION = /['’](?:s|re|ve|ll|d|m)$/i;
const MAX_FREQUENT = 12;

/**
 * Return the most frequent words of a text as `[word, count]`, without English stop words, single letters and
 * words that occur once. Upper and lower case count together; a word is returned in its most frequent form.
 */
export function frequentWords(text) {
  const forms = new Map();
  for (const [match] of text.replaceAll(UNSPLIT, " ").matchAll(WORD)) {
    const word = NEGATION.test(match) ? "" : match.replace(CONTRACTION, "");
    forms.set(word, (forms.get(word) ?? 0) + 1);
  }
  const words = new Map();
  for (const [form, count] of forms) {
    const key = form.toLowerCase();
    if (STOP_WORDS.includes(key) || key.length < 2) continue;
    const known = words.get(key) ?? { total: 0, best: 0 };
    const better = count > known.best ? { form, best: count } : {};
    words.set(key, { ...known, ...better, total: known.total + count });
  }
  return [...words.values()]
    .filter(({ total }) => total > 1)
    .toSorted((a, b) => b.total - a.total || (a.form < b.form ? -1 : 1))
    .slice(0, MAX_FREQUENT)
    .map(({ form, total }) => [form, total]);
}

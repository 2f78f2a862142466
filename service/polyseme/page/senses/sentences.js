/** The reader's sentences: from typed text and from files, and the frequent words in them. */

import { bytes } from "../text.js";
import { isContentWord } from "../words.js";

/** The maximum size of the chosen files; the service accepts request bodies of about this size. */
const MAX_BYTES = 4_000_000;

/** Return the lines of a text that are not empty: `sentence` without the white space around it, and `number` from 1. */
export function linesOf(text) {
  return text.split(/\r\n|[\r\n\u2028\u2029]/)
    .map((line, i) => ({ sentence: line.trim().normalize(), number: i + 1 }))
    .filter(({ sentence }) => sentence);
}

/** Titles, which never end a sentence; initials, abbreviations with dots and ordinals, which seldom do. */
const TITLE = /(?<!\p{L})(?:Dr|Mrs?|Ms|Mme|Mlle|Prof|St|Sen|Rep|Gov|Gen|Col|Capt|Lt|Sgt|Rev|Hon|Mt|Ft|vs|cf|Nr|Hr|Fr|bzw|Sra?)\.$/u;
const INITIALS = /(?<![\p{L}\p{N}.])(?:\p{L}(?:\. ?\p{L})*|\d{1,2})\.$/u;
const LIST_NUMBER = /^\d{1,3}\.$/;
/** Words that begin a sentence more often than they follow an abbreviation. */
const STARTS = /^["“‘(]?(?:The|A|An|I|He|She|It|We|They|You|This|That|These|Those|There|In|On|At|But|And|When|If|As|For|His|Her|Its|Their|Our|My|Der|Die|Das|Er|Es|Ein|Eine|Le|La|Les|Il|Elle|El|Los)(?!\p{L})/u;

/** Return the sentences of a text; a line end also ends a sentence. */
export function sentencesOf(text) {
  const segmenter = new Intl.Segmenter(undefined, { granularity: "sentence" });
  return linesOf(text).flatMap(({ sentence }) => {
    const sentences = [];
    for (const segment of Array.from(segmenter.segment(sentence), (part) => part.segment.trim()).filter(Boolean)) {
      const before = sentences.at(-1) ?? "";
      if (TITLE.test(before) || LIST_NUMBER.test(before) || (INITIALS.test(before) && !STARTS.test(segment))) sentences.push(`${sentences.pop()} ${segment}`);
      else sentences.push(segment);
    }
    return sentences;
  });
}

/** Return the text of files, one after the other. Throw an error with a sentence for the reader if they are too large or not text. */
export async function readFiles(files) {
  const size = files.reduce((sum, file) => sum + file.size, 0);
  if (size > MAX_BYTES) {
    throw new Error(`${files.map(({ name }) => name).join(", ")}: ${bytes(size)} is too large. The page reads at most ${bytes(MAX_BYTES)};`
      + " the command polyseme senses reads files of any size.");
  }
  // Bytes that are not UTF-8 are read as U+FFFD.
  const texts = await Promise.all(files.map((file) => file.text().catch(() => "\uFFFD")));
  const other = files.find((_, i) => /[\0\uFFFD]/.test(texts[i]));
  if (other) throw new Error(`${other.name} is not a text file in UTF-8.`);
  return texts.join("\n");
}

/** Web and mail addresses, handles and hashtags: each is one token, so the words in them do not occur. */
const UNSPLIT = /(?:(?:https?|ftp):\/\/|www\.)\S+|[\w.+-]{1,64}@[\w-]{1,63}\.\S+|(?<![\p{L}\p{N}_&])[@#][\p{L}\p{N}\p{M}_]+/giu;
const WORD = /(?<![\p{L}\p{M}\p{N}])\p{L}[\p{L}\p{M}\p{N}]*(?:[-‐'’][\p{L}\p{N}][\p{L}\p{M}\p{N}]*)*/gu;
const NEGATION = /n['’]t$/i, CONTRACTION = /['’](?:s|re|ve|ll|d|m)$/i;
const MAX_FREQUENT = 12;

/** Return the items in groups of equal `keyOf(item)`, the largest group first. */
const largestGroups = (items, keyOf) => [...Map.groupBy(items, keyOf).values()]
  .toSorted((a, b) => b.length - a.length || a[0].localeCompare(b[0]));

/**
 * Return the most frequent words of a text as `[word, count]`, without English stop words, single letters and
 * words that occur once. Upper and lower case count together; a word is returned in its most frequent form.
 */
export function frequentWords(text) {
  const words = text.normalize().replaceAll(UNSPLIT, " ").match(WORD) ?? [];
  const forms = words.filter((word) => !NEGATION.test(word)).map((word) => word.replace(CONTRACTION, ""));
  return largestGroups(forms, (form) => form.toLowerCase())
    .filter(({ length, [0]: form }) => length > 1 && form.length > 1 && isContentWord(form))
    .slice(0, MAX_FREQUENT)
    .map((group) => [largestGroups(group, (form) => form)[0][0], group.length]);
}

"""Tokenize Wikipedia's text and select the vocabulary: `corpus.txt` and `counts.json`."""

import json
import multiprocessing
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import regex
from tqdm import tqdm

from polyseme.words import splits, word_spans
from polyseme_lab.files import read_lines

VOCABULARY = 100_000
NAME_RATIO = 50
"""A lower-case form more than this many times rarer than the name is excluded from the vocabulary,
so that `german` and `java` in lower-cased text fall back to German and Java."""
_MARKUP = regex.compile(r"formula_\d+")
_CHUNK = 20_000


def paragraphs(corpus: Path) -> Iterator[str]:
    """Yield the lines of all compressed texts in a folder."""
    for file in sorted(corpus.glob("*.txt.zst")):
        yield from read_lines(file)


def chunks(corpus: Path) -> Iterator[list[str]]:
    """Yield the paragraphs in lists that are large enough to send to another process."""
    lines = paragraphs(corpus)
    while chunk := list(islice(lines, _CHUNK)):
        yield chunk


def tokens(paragraph: str) -> list[str]:
    """Tokenize a paragraph like the service; split contractions and possessives, but not names.

    Markup such as `formula_12` is dropped.
    """
    pieces: list[str] = []
    for start, end in word_spans(paragraph):
        word = paragraph[start:end].replace("’", "'")
        if _MARKUP.fullmatch(word):
            continue
        first = next(splits(word), [(0, len(word))])
        # A contraction has two pieces; the apostrophes of Hawai'i and O'Brien are separate pieces.
        contraction = len(first) == len(("stem", "clitic")) and "'" in word[first[1][0] :]
        pieces += [word[a:b] for a, b in first] if contraction else [word]
    return pieces


def count_chunk(chunk: list[str]) -> Counter[str]:
    """Count the words in a list of paragraphs."""
    return Counter(word for line in chunk for word in tokens(line))


def choose(counts: Counter[str]) -> dict[str, int]:
    """Return the vocabulary, most frequent word first."""
    kept = {}
    for word, count in counts.most_common():
        name = max(counts[word.capitalize()], counts[word.upper()]) if word.islower() else 0
        if name <= NAME_RATIO * count:
            kept[word] = count
        if len(kept) == VOCABULARY:
            break
    return kept


_kept: dict[str, int] = {}


def rewrite_chunk(chunk: list[str]) -> tuple[str, int]:
    """Return the paragraphs with only the known parts of unknown words, and the word count.

    A paragraph of fewer than two known words is omitted.
    """
    lines, total = [], 0
    for line in chunk:
        known: list[str] = []
        for word in tokens(line):
            if word in _kept:
                known.append(word)
            else:
                finest = [[], *splits(word)][-1]
                known += [word[a:b] for a, b in finest if word[a:b] in _kept]
        if len(known) > 1:
            lines.append(" ".join(known))
            total += len(known)
    return "\n".join(lines) + "\n", total


def prepare(corpus: Path, work: Path) -> None:
    """Write `corpus.txt` and `counts.json` into the work folder."""
    global _kept  # noqa: PLW0603 - inherited by the forked processes below
    counts: Counter[str] = Counter()
    with multiprocessing.Pool() as pool:
        for part in tqdm(
            pool.imap(count_chunk, chunks(corpus)), desc="count", unit="chunk", disable=None
        ):
            counts.update(part)
    _kept = choose(counts)
    total, lines = 0, 0
    final: Counter[str] = Counter()
    with multiprocessing.Pool() as pool, (work / "corpus.part").open("w") as out:
        for text, number in tqdm(
            pool.imap(rewrite_chunk, chunks(corpus)), desc="rewrite", disable=None
        ):
            out.write(text)
            final.update(text.split())
            total, lines = total + number, lines + text.count("\n")
    (work / "corpus.part").rename(work / "corpus.txt")
    vocabulary = dict(final.most_common())
    summary = {"tokens": total, "lines": lines, "counts": vocabulary}
    (work / "counts.json").write_text(json.dumps(summary, ensure_ascii=False))

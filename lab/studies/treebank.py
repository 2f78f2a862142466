"""Sentences of a treebank of Universal Dependencies, and pronouns with their antecedents.

CoNLL-U has one token per line, in ten columns (https://universaldependencies.org/format.html).
GUM annotates coreference in the last column (https://wiki.gucorpling.org/gum/conllu): `(3-person-…`
opens a mention of entity 3, `3)` closes it, and `(3-person-…)` is a mention of one token.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

BRACKETS = re.compile(r"\((?P<opened>[^()-]+)[^()]*(?P<single>\))?|(?P<closed>[^()]+)\)")
"""One mention of a value of `Entity`: opened, of one token, or closed."""
PRONOUNS = {
    "it": "it",
    "its": "its",
    **dict.fromkeys(("he", "him", "his", "she", "her"), "he, she"),
    **dict.fromkeys(("they", "them", "their"), "they"),
}
"""The group in which a pronoun of the third person is counted."""
NOUNS = {"NOUN", "PROPN"}
PARTS_OF_NAMES = {"compound", "flat"}
"""Relations of nouns that are part of a longer noun or name, whose head stands for it."""


class Mention(NamedTuple):
    """The tokens from `start` to `stop`, exclusive, that mention an entity."""

    entity: str
    start: int
    stop: int


@dataclass(frozen=True)
class ParsedSentence:
    """The words of a sentence, and for each its part of speech, its head and its relation to it."""

    document: str
    words: list[str]
    tags: list[str]
    heads: list[int]
    """the position of the syntactic head, -1 for the root"""
    relations: list[str]
    mentions: list[Mention]
    """in the order in which they end"""


class Pronoun(NamedTuple):
    """A pronoun, the nouns before it, and those that head a mention of the same entity."""

    place: int
    kind: str
    candidates: list[int]
    antecedents: list[int]


def read_conllu(lines: Iterable[str]) -> Iterator[ParsedSentence]:
    """Yield the sentences of a CoNLL-U file. Raise ValueError if a line has not ten columns.

    Ranges of split words (`1-2`) and empty nodes (`1.1`) are skipped.
    """
    document, rows = "", list[list[str]]()
    for number, line in enumerate(lines, 1):
        if line.startswith("# newdoc id = "):
            document = line.removeprefix("# newdoc id = ").strip()
        elif line.startswith("#"):
            pass
        elif line.strip():
            columns = line.rstrip("\n").split("\t")
            if len(columns) != 10:
                raise ValueError(f"Line {number} has {len(columns)} columns. CoNLL-U has 10.")
            if columns[0].isdecimal():
                rows.append(columns)
        elif rows:
            yield _sentence(document, rows)
            rows = []
    if rows:
        yield _sentence(document, rows)


def _sentence(document: str, rows: list[list[str]]) -> ParsedSentence:
    _, words, _, tags, _, _, heads, relations, _, other = map(list, zip(*rows, strict=True))
    mentions, opened = list[Mention](), dict[str, list[int]]()
    for place, column in enumerate(other):
        values = [part[7:] for part in column.split("|") if part.startswith("Entity=")]
        for bracket in BRACKETS.finditer("".join(values)):
            if bracket["opened"]:
                opened.setdefault(bracket["opened"], []).append(place)
            entity = bracket["closed"] or (bracket["single"] and bracket["opened"])
            if entity and opened.get(entity):
                mentions.append(Mention(entity, opened[entity].pop(), place + 1))
    numbers = [int(head) - 1 for head in heads]
    return ParsedSentence(document, words, tags, numbers, relations, mentions)


def head_of(sentence: ParsedSentence, mention: Mention) -> int:
    """Return the position of the first token of a mention whose syntactic head is outside it."""
    inside = range(mention.start, mention.stop)
    return next(place for place in inside if sentence.heads[place] not in inside)


def pronouns_of(sentence: ParsedSentence) -> Iterator[Pronoun]:
    """Yield the pronouns that have an antecedent and another noun before them.

    Candidates are the nouns before the pronoun, except parts of longer nouns and names.
    Antecedents are the candidates that head a mention of the pronoun's entity.
    """
    nouns = [
        place
        for place, (tag, relation) in enumerate(zip(sentence.tags, sentence.relations, strict=True))
        if tag in NOUNS and relation.partition(":")[0] not in PARTS_OF_NAMES
    ]
    mentioned = {(head_of(sentence, mention), mention.entity) for mention in sentence.mentions}
    for entity, place, stop in sentence.mentions:
        kind = PRONOUNS.get(sentence.words[place].casefold())
        if kind and stop == place + 1 and sentence.tags[place] == "PRON":
            candidates = [noun for noun in nouns if noun < place]
            antecedents = [noun for noun in candidates if (noun, entity) in mentioned]
            if antecedents and len(candidates) > len(antecedents):
                yield Pronoun(place, kind, candidates, antecedents)


def halves(sentences: Sequence[ParsedSentence]) -> list[int]:
    """Return 0 or 1 for each sentence: its document's number modulo 2, in the order of names."""
    names = sorted({sentence.document for sentence in sentences})
    numbers = {name: number % 2 for number, name in enumerate(names)}
    return [numbers[sentence.document] for sentence in sentences]

"""Nouns of SemCor and MASC with one sense or several, and 100 of them that senses are measured on.

The dictionary's senses are finer than contexts show, so a noun counts as having several senses if
at least SEVERAL of its tags are outside its most frequent supersense, the category of a WordNet
sense (Ciaramita and Johnson 2003), and as having one if at least ONE of its tags are the same
dictionary sense. Only tags decide, not what a model finds. `nouns.json` has 50 nouns of both kinds,
drawn at random: half of them for choosing constants, half held out and measured once. Nothing is
fitted to those that are held out.
"""

import json
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.training.config import COARSEWSD
from polyseme_lab.training.corpus import open_decompressed, read_tagged, word_of_lemma

NOUNS = Path(__file__).with_name("nouns.json")
TAGGED, MAX_TAGGED = 40, 300
"""Smallest number of occurrences of a tagged noun; a random sample if there are more than this."""
LENGTHS = (5, 100)
"""The smallest and largest number of tokens of a sentence."""
ONE, SEVERAL = 0.95, 0.1
_MAP = "manual_map.txt"


@dataclass(frozen=True)
class TaggedNoun:
    """The occurrences of a noun with their dictionary senses and supersenses."""

    lemma: str
    occurrences: list[TokenizedOccurrence]
    senses: list[str]
    supersenses: list[str]

    @property
    def several(self) -> bool | None:
        """Whether it has several senses; None for a noun of fine distinctions."""
        if _largest(self.senses) >= ONE:
            return False
        return True if 1 - _largest(self.supersenses) >= SEVERAL else None


def _largest(values: list[str]) -> float:
    return max(Counter(values).values()) / len(values)


def read_nouns(path: Path) -> list[TaggedNoun]:
    """Read the nouns with at least TAGGED tags, except words of CoarseWSD-20, in order."""
    supersense_of = _read_supersenses(path)
    found: dict[str, list[tuple[TokenizedOccurrence, str]]] = {}
    for sentence in read_tagged(path):
        if LENGTHS[0] <= len(sentence.tokens) <= LENGTHS[1]:
            for tag in sentence.tags:
                if tag.lemma.endswith("/noun") and word_of_lemma(tag.lemma) not in COARSEWSD:
                    occurrence = TokenizedOccurrence(tuple(sentence.tokens), tag.token)
                    found.setdefault(tag.lemma, []).append((occurrence, tag.sense))
    rng = np.random.default_rng(0)
    nouns = []
    for lemma, every in sorted(found.items()):
        if len(every) >= TAGGED:
            drawn = rng.choice(len(every), min(len(every), MAX_TAGGED), replace=False)
            occurrences, senses = zip(*(every[number] for number in np.sort(drawn)), strict=True)
            supersenses = [supersense_of.get(sense, sense) for sense in senses]
            nouns.append(TaggedNoun(lemma, list(occurrences), list(senses), supersenses))
    return nouns


def _read_supersenses(path: Path) -> dict[str, str]:
    """Return the supersense of each dictionary sense: `106` of `bank%1:06:00::`."""
    with open_decompressed(path) as opened, tarfile.open(fileobj=opened, mode="r|") as archive:
        for member in archive:
            if member.name.endswith(_MAP) and (file := archive.extractfile(member)):
                lines = file.read().decode().splitlines()
                pairs = (line.split("\t") for line in lines)
                keys = ((sense, keys.split(",")[0].partition("%")[2]) for sense, keys in pairs)
                return {sense: "".join(key.split(":")[:2]) for sense, key in keys}
    raise click.UsageError(f"The archive has no {_MAP}.")


def read_drawn() -> dict[str, list[str]]:
    """Return the lemmas that were drawn: `choosing` and `held_out`."""
    drawn: dict[str, list[str]] = json.loads(NOUNS.read_text())
    return drawn

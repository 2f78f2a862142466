"""What of an evaluation set a vocabulary has."""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from pathlib import PurePosixPath
from typing import TypeAlias

from polyseme.evaluation.coarsewsd import folders_of, occurrence
from polyseme.evaluation.files import Files
from polyseme.evaluation.occurrences import Occurrence
from polyseme.evaluation.refusal import EvaluationError
from polyseme.evaluation.wic import pair_of

Knows: TypeAlias = Callable[[Sequence[str]], list[bool]]
"""Whether words have a vector."""


def known_words(files: Files, knows: Knows) -> Files:
    """CoarseWSD-20 without the words that have no vector, by the first sentence of test."""
    folders = folders_of(files)
    first = [_first(files, f"{folder}/test.data.txt") for folder in folders]
    kept = set(compress(folders, knows(first)))
    return {name: lines for name, lines in files.items() if str(PurePosixPath(name).parent) in kept}


def _first(files: Files, name: str) -> str:
    if not files.get(name):
        raise EvaluationError(f"{name} is missing or empty; get the set again.")
    return occurrence(files[name][0], f"{name}, line 1").word


def known_pairs(files: Files, knows: Knows) -> Files:
    """WiC without the pairs of which a word has no vector."""
    kept = dict(files)
    for name in files:
        if name.endswith(".data.txt"):
            known = pairs_known([pair_of(line, name) for line in files[name]], knows)
            for part in (name, name.replace(".data.", ".gold.")):
                kept[part] = list(compress(files.get(part, []), known))
    return kept


def pairs_known(pairs: Iterable[tuple[Occurrence, Occurrence]], knows: Knows) -> list[bool]:
    """Whether both words of each pair have a vector."""
    found = knows([one.word for pair in pairs for one in pair])
    return [a and b for a, b in zip(found[::2], found[1::2], strict=True)]

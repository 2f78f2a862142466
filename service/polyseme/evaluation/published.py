"""Figures that others published on the same sets: what they wrote, not measured here."""

from collections.abc import Collection
from typing import NamedTuple

from polyseme.evaluation.wish import Split


class Published(NamedTuple):
    """A row of somebody's table, in %."""

    title: str
    source: str
    figures: dict[str, float]


TEN = frozenset(
    ("apple", "bank", "bass", "chair", "club", "digit", "java", "mole", "spring", "trunk")
)
"""The words of CoarseWSD-20 that the archive beside this project has."""
TWENTY = TEN | frozenset(
    ("arm", "bow", "crane", "deck", "hood", "pitcher", "pound", "seal", "square", "yard")
)
_LOUREIRO, _PILEHVAR = "Loureiro et al. 2021", "Pilehvar & Camacho-Collados 2019"


def _coarse(title: str, accuracy: float, f1: float) -> Published:
    return Published(title, _LOUREIRO, {"accuracy": accuracy, "macro_f1": f1})


_OF_TEN = (
    _coarse("fastText classifier on crawl-300d-2M", 93.8, 91.1),
    _coarse("BERT-base, nearest sense centroid", 94.7, 93.3),
    _coarse("BERT-large, nearest sense centroid", 95.9, 94.8),
)
_OF_TWENTY = (
    _coarse("fastText classifier on crawl-300d-2M", 93.8, 86.8),
    _coarse("BERT-base, nearest sense centroid", 94.0, 91.0),
    _coarse("BERT-large, nearest sense centroid", 95.8, 93.2),
)
_OF_WIC_TEST = tuple(
    Published(title, _PILEHVAR, {"accuracy": accuracy})
    for title, accuracy in (
        ("ELMo", 57.7),
        ("context2vec", 59.3),
        ("BERT-large", 65.5),
        ("people", 80.0),
    )
)


def published_coarsewsd(words: Collection[str]) -> tuple[Published, ...]:
    """What was published of exactly these words: of the ten, of all twenty, else nothing."""
    return {TEN: _OF_TEN, TWENTY: _OF_TWENTY}.get(frozenset(words), ())


def published_wic(split: Split) -> tuple[Published, ...]:
    """What was published of this split: of test alone."""
    return _OF_WIC_TEST if split == "test" else ()

"""A model and its parts on CoarseWSD-20 and WiC, as manifests and pages have the figures."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from polyseme.evaluation import coarsewsd as coarse_set
from polyseme.evaluation import wic as pair_set
from polyseme.evaluation.files import Files, evaluation_files
from polyseme.evaluation.readings import LocalSource
from polyseme.evaluation.systems import systems, tabulate
from polyseme.models.model import Model

Figures: TypeAlias = dict[str, dict[str, float]]
PARTS = ("static", "mean", "parameter-free", "no-association", "no-informativeness", "model")
"""The model, what it has to beat, and what becomes of it without a part."""


def quality(model: Model, data: Path) -> Figures:
    """The figures of a model, as its manifest has them; the folder holds both sets."""
    coarse, pairs = (evaluation_files(data, name) for name in ("coarsewsd", "wic"))
    ((_, found),) = figures(model, coarse, pairs, ("model",))
    return found


def figures(
    model: Model, coarse: Files, in_context: Files, names: Sequence[str] = PARTS
) -> Iterator[tuple[str, Figures]]:
    """Yield the title of each system and its figures on these files, in %."""
    chosen = systems(model, names)
    readers = {name: one.readers[0] for name, one in chosen.items()}
    asked = coarse_set.occurrences_in(coarse) + pair_set.occurrences_in(in_context)
    tables = tabulate(LocalSource(model), readers, asked)
    for name, one in chosen.items():
        yield (
            one.title,
            {
                "coarsewsd": coarse_set.coarsewsd(coarse, tables[name]).rounded(),
                "wic": pair_set.wic(in_context, tables[name]).rounded(),
            },
        )

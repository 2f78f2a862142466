"""A model and its parts on CoarseWSD-20 and WiC, as manifests and pages have the figures."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import orjson

from service.evaluation import coarsewsd as coarse_set
from service.evaluation import wic as pair_set
from service.evaluation.files import Files, evaluation_files
from service.evaluation.readings import LocalSource
from service.evaluation.systems import systems, tabulate
from service.store.model import Model

Figures: TypeAlias = dict[str, dict[str, float]]
PARTS = ("static", "mean", "parameter-free", "no-association", "no-informativeness", "model")
"""The model, what it has to beat, and what becomes of it without a part."""


def measure(model: Model, data: Path) -> Iterator[tuple[str, Figures]]:
    """Yield the title of each system and its figures; the folder holds both sets."""
    sets = (evaluation_files(data, name) for name in ("coarsewsd", "wic"))
    yield from figures(model, *sets)


def figures(model: Model, coarse: Files, in_context: Files) -> Iterator[tuple[str, Figures]]:
    """Yield the title of each system and its figures on these files, in %."""
    chosen = systems(model, PARTS)
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


def write_figures(file: Path, model: str, found: Mapping[str, Figures]) -> None:
    """Write what `measure` yields, as docs/generate.py reads it."""
    style = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    file.write_bytes(orjson.dumps({"model": model, "systems": found}, option=style))

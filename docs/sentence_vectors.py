"""The section on the vectors of sentences, from `benchmarks/results/`."""

from typing import Any

from docs.results import benchmark, interval, paragraph, table

DEFAULT = "contextual, informativeness"
"""What `/v1/embeddings` gives where nothing else is asked for."""


def sentence_vectors() -> list[str]:
    """What pooling is worth, and how many dimensions."""
    found = benchmark("sentence-vectors")
    systems = found["systems"]
    whole = ((name, next(iter(widths.values()))) for name, widths in systems.items())
    measured = f"""\
What `/v1/embeddings` gives, by how it is pooled and how many `dimensions` are kept
(`benchmarks/sentence_vectors.py`). Halves: of {found["passages"]:,} passages of two sentences from
the English Wikipedia, which of all the second ones is nearest to a first one, and the other way
round; chance is right in {100 / found["passages"]} %. Senses: which sense the word of a sentence of
CoarseWSD-20 has, by the nearest centroid as above, but by the vector of the whole sentence, which
is not told the word."""
    learned = """\
Weights by how much a word tells do most of the work. A mean takes in the whole sentence anyhow, so
that context adds nothing to it: static vectors with the same weights find a few more halves.
Context pays for the vector of one word, as above."""
    return [
        "## Vectors of sentences",
        *paragraph(measured),
        "",
        *table(("vectors, weights", "halves", "senses"), (_row(*one) for one in whole)),
        "",
        *paragraph(learned),
        "",
        f"Fewer dimensions, {DEFAULT}:",
        "",
        *table(("dimensions", "halves", "senses"), (_row(*o) for o in systems[DEFAULT].items())),
    ]


def _row(name: str, figures: dict[str, Any]) -> list[str]:
    return [name, interval(figures["halves"]), interval(figures["senses"])]

"""A toy model with two topics, which is trained in seconds, and its training data.

The vectors of `riveraa`, `riverab`, … point in one direction and those of `moneyaa`, … in another.
The function words `theaa`, … and the ambiguous words `bankaa`, … have random vectors; the sense of
an ambiguous word is the topic of its sentence.
"""

import json
from string import ascii_lowercase

import numpy as np

from polyseme.importing.closed_form import closed_form, frequencies_by_rank, informativeness
from polyseme.models.reader import read_model
from polyseme.models.writer import write_model

TOPICS = ("river", "money")
COMMON, OWN, AMBIGUOUS, D = 10, 12, 30, 7


def word(kind, number):
    """The word of a kind and a number."""
    return kind + ascii_lowercase[number // 26] + ascii_lowercase[number % 26]


WORDS = [
    *(word("the", n) for n in range(COMMON)),
    *(word(topic, n) for n in range(OWN) for topic in TOPICS),
    *(word("bank", n) for n in range(AMBIGUOUS)),
]


def vectors():
    """Vectors with the topic in the first two columns, and noise in all."""
    rng = np.random.default_rng(5)
    made = rng.standard_normal((len(WORDS), D)).astype(np.float32)
    made[:, :2] *= 0.3
    for row, one in enumerate(WORDS):
        for column, topic in enumerate(TOPICS):
            made[row, column] += one.startswith(topic)
    return made


def world_model(folder, *, weights=True, **changes):
    """Write the model in closed form, or without weights, and read it.

    `vectors` replaces the vectors, and `store` converts them to the rows that are written.
    """
    table, store = changes.pop("vectors", vectors()), changes.pop("store", lambda rows: rows)
    p = frequencies_by_rank(len(WORDS))
    layers, bias = [], None
    if weights:
        layers, bias = [closed_form(table, p)], informativeness(p)
    given = {"cased": True, "licence": "CC0-1.0", **changes}
    write_model(folder / "world", WORDS, store(table), *((layers, bias) if layers else ()), **given)
    return read_model(folder / "world")


def tagged_sentences(count=600, seed=1):
    """Sentences of a topic, with an ambiguous word whose sense is that topic."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        topic, lemma = TOPICS[rng.integers(2)], word("bank", rng.integers(AMBIGUOUS))
        context = [word("the", rng.integers(COMMON)) for _ in range(6)]
        context += [word(topic, rng.integers(OWN)) for _ in range(3)]
        place = int(rng.integers(10))
        tokens = list(rng.permutation(context))
        tokens.insert(place, lemma)
        yield tokens, [{"token": place, "lemma": f"{lemma}/noun", "sense": topic}]


def write_tags(path, **options):
    """The sentences as JSON lines."""
    lines = (
        json.dumps({"tokens": tokens, "tags": tags}) + "\n"
        for tokens, tags in tagged_sentences(**options)
    )
    path.write_text("".join(lines))
    return path


def write_corpus(path, **options):
    """The same sentences as plain text, one a line."""
    path.write_text("".join(" ".join(tokens) + "\n" for tokens, _ in tagged_sentences(**options)))
    return path

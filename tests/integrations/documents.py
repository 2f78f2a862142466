"""Pipelines of spaCy that end with the component, and a document with values by hand."""

import numpy as np
import spacy

from tests.tiny import VECTORS, WORDS

H, D = 3, 5
TEXT = "Apple  bank\n\nriver qzx"
WRITTEN = ["Apple", " ", "bank", "\n\n", "river", "qzx"]
APPLE, BANK, RIVER = (VECTORS[WORDS.index(word)] for word in ("Apple", "bank", "river"))
STATIC = np.array([APPLE, [0] * D, BANK, [0] * D, RIVER, [0] * D])
"""Of `TEXT`: white space and what the vocabulary lacks have no vector."""


SETTINGS = {"vectors": "contextual", "hooks": False}


def attention_by_hand():
    """Of `TEXT`, without weights: no token attends to white space or to `qzx`. [n, n]"""
    words = STATIC[[0, 2, 4, 5]].astype(np.float64)
    scores = np.exp(words @ words[:3].T)
    weights = np.zeros((6, 6))
    weights[np.ix_([0, 2, 4, 5], [0, 2, 4])] = scores / scores.sum(axis=-1, keepdims=True)
    return weights


def pipeline(*before, **config):
    """A pipeline of spaCy with the component behind some others.

    `doc.tensor` is contextual. There are no hooks, so that documents are stored without a warning.
    """
    nlp = spacy.blank("en")
    for name in before:
        nlp.add_pipe(name)
    nlp.add_pipe("polyseme", config={"model": "tiny", **SETTINGS, **config})
    return nlp


def as_before(left, right):
    """Whether two documents have the same arrays."""
    return all(
        np.array_equal(one, other)
        for one, other in [
            (left.tensor, right.tensor),
            (left._.attention, right._.attention),
            *((a._.static, b._.static) for a, b in zip(left, right, strict=True)),
        ]
    )

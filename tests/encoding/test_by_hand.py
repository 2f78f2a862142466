"""What encoding gives for a model whose numbers can be found on paper."""

from math import e, exp, sqrt

import numpy as np
import pytest

from polyseme.engine.attention import Scoring
from polyseme.engine.layers import Layer
from polyseme.errors import InvalidError, UnknownWordError
from tests.encoding.asking import EVERY, ask, ask_one, same_bits
from tests.tiny import VECTORS, tiny_model

NEAR = {"rtol": 0, "atol": 1e-6}


def test_static_rows_are_the_rows_of_the_table(plain):
    one = ask_one(plain, "bank Apple money")
    assert [t.key for t in one.tokens] == ["bank", "Apple", "money"]
    assert one.arrays["static"].tolist() == VECTORS[[3, 1, 5]].tolist()
    assert one.arrays["static"].dtype == np.float32


def test_attention_of_two_words_by_hand(plain):
    # The dot products of apple and Apple are the identity; softmax of (1, 0) is (e, 1)/(e + 1).
    one = ask_one(plain, "apple Apple")
    more, less = e / (e + 1), 1 / (e + 1)
    assert one.arrays["attention"].shape == (1, 1, 2, 2)
    np.testing.assert_allclose(one.arrays["attention"][0, 0], [[more, less], [less, more]], **NEAR)
    expected = [[more, less, 0, 0, 0], [less, more, 0, 0, 0]]
    np.testing.assert_allclose(one.arrays["contextual"], expected, **NEAR)


def test_scaling_divides_by_the_root_of_the_width(tmp_path):
    model = tiny_model(tmp_path, layers=[Layer()])
    one = ask_one(model, "apple Apple", include=EVERY)
    peak = exp(1 / sqrt(5))
    assert one.arrays["scores"][0, 0].tolist() == [[1, 0], [0, 1]]
    expected = [peak / (peak + 1), 1 / (peak + 1)]
    np.testing.assert_allclose(one.arrays["attention"][0, 0, 0], expected, **NEAR)


def test_a_lone_word_looks_at_itself(plain):
    one = ask_one(plain, "river")
    assert one.arrays["attention"].tolist() == [[[[1]]]]
    assert one.arrays["contextual"].tolist() == [VECTORS[4].tolist()]


def test_queries_keys_and_values_without_weights_are_the_vectors(plain):
    one = ask_one(plain, "bank river end", include=EVERY)
    for part in ("queries", "keys", "values"):
        assert one.arrays[part].tolist() == [[VECTORS[[3, 4, 10]].tolist()]]
    assert one.arrays["scores"].tolist() == [[[[2, 1, 2], [1, 5, 2], [2, 2, 5]]]]


def test_an_unknown_word_is_zero_and_is_never_looked_at(plain):
    one = ask_one(plain, "apple zebra Apple")
    attention = one.arrays["attention"][0, 0]
    assert [t.resolution for t in one.tokens] == ["exact", "oov", "exact"]
    assert one.arrays["static"][1].tolist() == [0] * 5
    assert attention[:, 1].tolist() == [0, 0, 0]
    # Its query is zero, so it looks at the two others alike.
    np.testing.assert_allclose(attention[1], [0.5, 0, 0.5], **NEAR)
    np.testing.assert_allclose(one.arrays["contextual"][1], [0.5, 0.5, 0, 0, 0], **NEAR)
    np.testing.assert_allclose(attention.sum(axis=1), 1, **NEAR)


def test_a_sentence_of_unknown_words_is_zero(plain):
    one = ask_one(plain, "zebra gnu")
    assert one.arrays["attention"].tolist() == [[[[1, 0], [0, 1]]]]
    assert not one.arrays["contextual"].any()
    assert not one.arrays["static"].any()


def test_an_empty_sentence_has_empty_arrays(deep):
    for text in ("", "   \n", []):
        one = ask_one(deep, text, include=EVERY)
        shapes = {part: array.shape for part, array in one.arrays.items()}
        assert one.tokens == []
        assert shapes == {
            "static": (0, 5),
            "contextual": (0, 5),
            "attention": (2, 3, 0, 0),
            "scores": (2, 3, 0, 0),
            "queries": (2, 3, 0, 2),
            "keys": (2, 3, 0, 2),
            "values": (2, 3, 0, 7),
        }
    mean = ask_one(deep, "", mean_of_heads=True, layers="last")
    assert mean.arrays["attention"].shape == (1, 0, 0)


def test_shapes_are_those_of_the_contract(deep):
    one = ask_one(deep, "bank river zebra", include=EVERY)
    shapes = {part: array.shape for part, array in one.arrays.items()}
    assert shapes == {
        "static": (3, 5),
        "contextual": (3, 5),
        "attention": (2, 3, 3, 3),
        "scores": (2, 3, 3, 3),
        "queries": (2, 3, 3, 2),
        "keys": (2, 3, 3, 2),
        "values": (2, 3, 3, 7),
    }


def test_the_mean_of_heads_by_hand(tmp_path):
    # One head for each column: the first sees 1·1, the second 0·0, the others zeros alone.
    model = tiny_model(tmp_path, layers=[Layer(heads=5, scoring=Scoring(scale=False))])
    every = ask_one(model, "apple Apple").arrays["attention"]
    np.testing.assert_allclose(every[0, 0], [[e / (e + 1), 1 / (e + 1)], [0.5, 0.5]], **NEAR)
    np.testing.assert_allclose(every[0, 1], [[0.5, 0.5], [1 / (e + 1), e / (e + 1)]], **NEAR)
    mean = ask_one(model, "apple Apple", mean_of_heads=True).arrays["attention"]
    more = (e / (e + 1) + 4 * 0.5) / 5
    assert mean.shape == (1, 2, 2)
    np.testing.assert_allclose(mean[0], [[more, 1 - more], [1 - more, more]], **NEAR)


def test_the_mean_is_of_attention_and_scores_alone(deep):
    text = "bank river money"
    every = ask_one(deep, text, include=EVERY).arrays
    mean = ask_one(deep, text, include=EVERY, mean_of_heads=True).arrays
    for part, array in mean.items():
        expected = every[part].mean(axis=1) if part in {"attention", "scores"} else every[part]
        assert array.dtype == np.float32
        assert array.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("all", [0, 1]),
        ("last", [1]),
        ([0], [0]),
        ([1], [1]),
        ([0, 1], [0, 1]),
        ([1, 0], [0, 1]),
        ([1, 1], [1]),
    ],
)
def test_layers_are_chosen_and_keep_their_order(deep, layers, expected):
    text = "bank zebra river"
    every = ask_one(deep, text, include=EVERY).arrays
    chosen = ask_one(deep, text, include=EVERY, layers=layers).arrays
    for part, array in chosen.items():
        whole = part in {"static", "contextual"}
        assert array.tobytes() == (every[part] if whole else every[part][expected]).tobytes()


@pytest.mark.parametrize(("layers", "wrong"), [([2], [0]), ([0, 7, 1, -1], [1, 3])])
def test_a_layer_that_is_not_there_is_named_by_its_place(deep, layers, wrong):
    with pytest.raises(InvalidError) as caught:
        ask(deep, ["bank"], layers=layers)
    assert [error.pointer for error in caught.value.errors] == [f"/layers/{p}" for p in wrong]
    assert {error.message for error in caught.value.errors} == {"the model's layers are 0 to 1"}


def test_every_choice_of_arrays_gives_those_arrays_and_the_same_bits(deep):
    text = "Bank of the river didn't"
    every = ask_one(deep, text, include=EVERY).arrays
    parts = sorted(EVERY)
    for number in range(1 << len(parts)):
        include = [part for bit, part in enumerate(parts) if number >> bit & 1]
        for order in (include, include[::-1]):
            arrays = ask_one(deep, text, include=frozenset(order)).arrays
            assert set(arrays) == set(include)
            assert all(array.tobytes() == every[part].tobytes() for part, array in arrays.items())


def test_rows_of_attention_sum_to_one_and_columns_of_unknown_words_are_zero(deep):
    one = ask_one(deep, "zebra bank bank gnu river didn't APPLE emu")
    attention = one.arrays["attention"]
    unknown = [t.row is None for t in one.tokens]
    assert sum(unknown) == 3
    np.testing.assert_allclose(attention.sum(axis=-1), 1, **NEAR)
    known_rows = attention[:, :, [not u for u in unknown]]
    assert not known_rows[..., unknown].any()


def test_spellings_of_one_word_are_one_word_to_attention(deep):
    one = ask_one(deep, "Apple bank apple APPLE Bank")
    looked_at = one.arrays["attention"][0, 0] > 0
    assert looked_at.astype(int).tolist() == [
        [0, 1, 0, 0, 1],
        [1, 0, 1, 1, 0],
        [0, 1, 0, 0, 1],
        [0, 1, 0, 0, 1],
        [1, 0, 1, 1, 0],
    ]


def test_pieces_of_words_are_tokens(plain):
    one = ask_one(plain, "didn't high-end")
    assert [(t.text, t.start, t.end, t.key) for t in one.tokens] == [
        ("did", 0, 3, "did"),
        ("n't", 3, 6, "n't"),
        ("high", 7, 11, "high"),
        ("-", 11, 12, "-"),
        ("end", 12, 15, "end"),
    ]


def test_words_that_are_already_cut_stay_as_they_are(plain):
    one = ask_one(plain, ["didn't", "bank"])
    assert [(t.text, t.start, t.end, t.key) for t in one.tokens] == [
        ("didn't", None, None, None),
        ("bank", None, None, "bank"),
    ]


def test_the_case_chooses_the_spelling(plain):
    auto = ask_one(plain, "Bank APPLE aPPle")
    assert [t.key for t in auto.tokens] == ["bank", "APPLE", "apple"]
    assert [t.resolution for t in auto.tokens] == ["lower", "exact", "lower"]
    exact = ask_one(plain, "Bank APPLE aPPle", case="exact")
    assert [t.key for t in exact.tokens] == [None, "APPLE", None]
    lower = ask_one(plain, "Bank APPLE", case="lower")
    assert [t.key for t in lower.tokens] == ["bank", "apple"]


def test_words_that_are_lacking_are_listed_once_and_by_their_place(plain):
    texts = ["bank zebra", "river", "gnu zebra apple"]
    with pytest.raises(UnknownWordError) as caught:
        ask(plain, texts, oov="error")
    assert caught.value.words == ["zebra", "gnu"]
    assert [(error.pointer, error.message) for error in caught.value.errors] == [
        ("/input/0", "token 1 is not in the vocabulary"),
        ("/input/2", "token 0 is not in the vocabulary"),
        ("/input/2", "token 1 is not in the vocabulary"),
    ]
    assert same_bits(ask_one(plain, "bank", oov="error"), ask_one(plain, "bank"))


def test_half_precision_vectors_give_float32_answers(tmp_path):
    model = tiny_model(tmp_path, vectors=VECTORS.astype(np.float16))
    one = ask_one(model, "apple Apple zebra", include=EVERY)
    assert {array.dtype for array in one.arrays.values()} == {np.dtype(np.float32)}
    assert one.arrays["static"][:2].tolist() == VECTORS[:2].tolist()


def test_an_answer_does_not_change_the_model(deep):
    before = deep.vectors.tobytes()
    one = ask_one(deep, "bank zebra river")
    for array in one.arrays.values():
        array[...] = 7
    assert deep.vectors.tobytes() == before
    assert ask_one(deep, "bank").arrays["static"].tolist() == [VECTORS[3].tolist()]

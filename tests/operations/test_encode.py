"""Encoding with a tiny model whose numbers can be derived by hand, and rejected requests."""

from dataclasses import replace
from math import e, exp, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.engine.arrays import NonFiniteError
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import FeatureProjection, Layer, Projection, Residual
from polyseme.errors import InvalidError, TooLargeError, UnknownWordError
from polyseme.operations.encode import (
    STACK_TOKENS,
    TokenCounts,
    encode,
    encode_each,
    stacks,
    tokenize,
)
from polyseme.operations.options import EncodeOptions
from tests.operations.calls import EVERY, as_bits, ask, ask_one, same_bits, trace_text
from tests.test_stages import recording
from tests.tiny import LIMITS, VECTORS, WORDS, full_layer, normal, tiny_model

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


def test_a_lone_word_attends_to_itself(plain):
    one = ask_one(plain, "river")
    assert one.arrays["attention"].tolist() == [[[[1]]]]
    assert one.arrays["contextual"].tolist() == [VECTORS[4].tolist()]


def test_queries_keys_and_values_without_weights_are_the_vectors(plain):
    one = ask_one(plain, "bank river end", include=EVERY)
    for part in ("queries", "keys", "values"):
        assert one.arrays[part].tolist() == [[VECTORS[[3, 4, 10]].tolist()]]
    assert one.arrays["scores"].tolist() == [[[[2, 1, 2], [1, 5, 2], [2, 2, 5]]]]


def test_an_unknown_word_is_zero_and_never_attended_to(plain):
    one = ask_one(plain, "apple zebra Apple")
    attention = one.arrays["attention"][0, 0]
    assert [t.resolution for t in one.tokens] == ["exact", "oov", "exact"]
    assert one.arrays["static"][1].tolist() == [0] * 5
    assert attention[:, 1].tolist() == [0, 0, 0]
    # Its query is zero, so its weights on the two others are equal.
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
            "features": (0, 10),
            "attention": (2, 3, 0, 0),
            "contributions": (2, 0, 3),
            "scores": (2, 3, 0, 0),
            "queries": (2, 3, 0, 2),
            "keys": (2, 3, 0, 2),
            "values": (2, 3, 0, 7),
        }
    mean = ask_one(deep, "", heads="mean", layers="last")
    assert mean.arrays["attention"].shape == (1, 0, 0)


def test_shapes_are_those_of_the_contract(deep):
    one = ask_one(deep, "bank river zebra", include=EVERY)
    shapes = {part: array.shape for part, array in one.arrays.items()}
    assert shapes == {
        "static": (3, 5),
        "contextual": (3, 5),
        "features": (3, 10),
        "attention": (2, 3, 3, 3),
        "contributions": (2, 3, 6),
        "scores": (2, 3, 3, 3),
        "queries": (2, 3, 3, 2),
        "keys": (2, 3, 3, 2),
        "values": (2, 3, 3, 7),
    }


def test_contributions_by_hand(plain):
    # Without a residual, the context is the sum of the weighted vectors: c = w·x₀ + v·x₁.
    one = ask_one(plain, "apple Apple", include=["attention", "contributions", "contextual"])
    (shares,), (weights,) = one.arrays["contributions"], one.arrays["attention"][0]
    x = plain.static(one.tokens)
    for row, weight, context in zip(shares, weights, one.arrays["contextual"], strict=True):
        expected = weight * (x @ context) / (context @ context)
        np.testing.assert_allclose(row, expected, **NEAR)
        assert row.sum() == pytest.approx(1)


def test_mean_heads_by_hand(tmp_path):
    # One head for each column: apple is 1 in the first column, Apple in the second.
    model = tiny_model(tmp_path, layers=[Layer(heads=5, scoring=Scoring(scale=False))])
    every = ask_one(model, "apple Apple").arrays["attention"]
    np.testing.assert_allclose(every[0, 0], [[e / (e + 1), 1 / (e + 1)], [0.5, 0.5]], **NEAR)
    np.testing.assert_allclose(every[0, 1], [[0.5, 0.5], [1 / (e + 1), e / (e + 1)]], **NEAR)
    mean = ask_one(model, "apple Apple", heads="mean").arrays["attention"]
    more = (e / (e + 1) + 4 * 0.5) / 5
    assert mean.shape == (1, 2, 2)
    np.testing.assert_allclose(mean[0], [[more, 1 - more], [1 - more, more]], **NEAR)


def test_mean_heads_changes_attention_and_scores_only(deep):
    text = "bank river money"
    every = ask_one(deep, text, include=EVERY).arrays
    mean = ask_one(deep, text, include=EVERY, heads="mean").arrays
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
def test_the_requested_layers_are_returned_in_their_order(deep, layers, expected):
    text = "bank zebra river"
    every = ask_one(deep, text, include=EVERY).arrays
    chosen = ask_one(deep, text, include=EVERY, layers=layers).arrays
    for part, array in chosen.items():
        whole = part in {"static", "contextual", "features"}
        assert array.tobytes() == (every[part] if whole else every[part][expected]).tobytes()


@pytest.mark.parametrize(("layers", "wrong"), [([2], [0]), ([0, 7, 1, 2], [1, 3])])
def test_a_missing_layer_is_named_by_its_index(deep, layers, wrong):
    with pytest.raises(InvalidError) as caught:
        ask(deep, ["bank"], layers=layers)
    assert [error.pointer for error in caught.value.errors] == [f"/layers/{p}" for p in wrong]
    assert {error.message for error in caught.value.errors} == {"the model's layers are 0 to 1"}


def test_exactly_the_requested_arrays_are_returned_with_the_same_bits(deep):
    text = "Bank of the river didn't"
    every = ask_one(deep, text, include=EVERY).arrays
    parts = sorted(EVERY)
    for number in range(1 << len(parts)):
        include = [part for bit, part in enumerate(parts) if number >> bit & 1]
        arrays = ask_one(deep, text, include=include).arrays
        assert set(arrays) == {*include}
        assert all(array.tobytes() == every[part].tobytes() for part, array in arrays.items())


def test_spellings_of_a_word_do_not_attend_to_each_other(deep):
    one = ask_one(deep, "Apple bank apple APPLE Bank")
    attended = one.arrays["attention"][0, 0] > 0
    assert attended.astype(int).tolist() == [
        [0, 1, 0, 0, 1],
        [1, 0, 1, 1, 0],
        [0, 1, 0, 0, 1],
        [0, 1, 0, 0, 1],
        [1, 0, 1, 1, 0],
    ]


def test_a_word_that_is_unknown_because_of_its_case_attends_to_the_known_word(deep):
    one = ask_one(deep, "bAnk bank BANK", case="exact", oov="zero")
    assert [token.key for token in one.tokens] == [None, "bank", None]
    assert one.arrays["attention"][0, 0].tolist() == [[0, 1, 0]] * 3


def test_tokenized_words_are_not_split(plain):
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


def test_unknown_words_are_listed_once_and_by_sentence(plain):
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


def test_half_precision_vectors_give_float32_results(tmp_path):
    model = tiny_model(tmp_path, vectors=VECTORS.astype(np.float16))
    one = ask_one(model, "apple Apple zebra", include=EVERY)
    assert {array.dtype for array in one.arrays.values()} == {np.dtype(np.float32)}
    assert one.arrays["static"][:2].tolist() == VECTORS[:2].tolist()


def test_changing_a_result_does_not_change_the_model(deep):
    before = deep.vectors.tobytes()
    one = ask_one(deep, "bank zebra river")
    for array in one.arrays.values():
        array[...] = 7
    assert deep.vectors.tobytes() == before
    assert ask_one(deep, "bank").arrays["static"].tolist() == [VECTORS[3].tolist()]


@pytest.fixture(scope="module")
def broad(tmp_path_factory):
    """A model as wide as real ones, where BLAS has different kernels for different shapes."""
    rng = np.random.default_rng(5)
    words = [f"w{n}" for n in range(211)]
    layers = [full_layer(n, d=101, heads=2, k=53, v=47) for n in range(2)]
    folder = tmp_path_factory.mktemp("broad")
    bias = normal(rng, 211)
    return tiny_model(
        folder, words=words, vectors=normal(rng, 211, 101), layers=layers, word_bias=bias
    )


SENTENCE = st.lists(st.sampled_from([*WORDS, "zebra", "BANK"]), min_size=1, max_size=12)


OPTIONS = st.fixed_dictionaries(
    {"include": st.sampled_from([EVERY, ["contextual"], ["features", "attention"]])},
    optional={
        "layers": st.sampled_from(["last", [1]]),
        "heads": st.just("mean"),
        "oov": st.sampled_from(["zero", "subword"]),
        "case": st.sampled_from(["lower", "exact"]),
        "phrases": st.booleans(),
        "share": st.sampled_from([0.0, 1.5]),
    },
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(texts=st.lists(SENTENCE, min_size=1, max_size=40), options=OPTIONS)
def test_a_sentence_gets_the_same_bits_in_any_batch(deep_composing, texts, options):
    model = deep_composing
    alone = [ask_one(model, text, **options) for text in texts]
    batch = ask(model, texts, **options)
    reverse = ask(model, texts[::-1], **options)[::-1]
    tokenized = tokenize(model, texts, EncodeOptions(**options), LIMITS)
    each = list(encode_each(model, tokenized, EncodeOptions(**options)))
    for one, *others in zip(alone, batch, reverse, each, strict=True):
        assert all(same_bits(one, other) for other in others)


def test_stacks_have_sentences_of_equal_length_and_a_bounded_number_of_tokens():
    lengths = [*np.random.default_rng(0).integers(0, 40, 2000).tolist(), 500, 500]
    found = list(stacks(lengths))
    assert sorted(number for numbers in found for number in numbers) == [*range(2002)]
    for numbers in found:
        assert len({lengths[number] for number in numbers}) == 1
        assert len(numbers) == 1 or len(numbers) * lengths[numbers[0]] <= STACK_TOKENS
    assert len(found) < 400


def test_sentences_before_an_overflow_are_yielded(deep):
    overflowing = replace(deep, rows=np.full_like(deep.vectors, 3e38))
    tokens = tokenize(deep, ["", "", "bank river", ""], EncodeOptions(), LIMITS)
    found = encode_each(overflowing, tokens, EncodeOptions())
    assert [len(next(found).tokens) for _ in range(2)] == [0, 0]
    with pytest.raises(NonFiniteError):
        next(found)


def test_a_wide_model_gives_the_same_bits_in_any_batch(broad):
    rng = np.random.default_rng(11)
    texts = [[f"w{n}" for n in rng.integers(0, 220, size)] for size in (1, 2, 3, 7, 17, 64, 301, 1)]
    alone = [ask_one(broad, text, include=EVERY) for text in texts]
    batch = ask(broad, texts[::-1], include=EVERY)[::-1]
    assert all(same_bits(a, b) for a, b in zip(alone, batch, strict=True))


def test_a_batch_with_empty_sentences_is_float32(deep):
    texts = ["bank river", "", "apple", []]
    for one, text in zip(ask(deep, texts, include=EVERY), texts, strict=True):
        assert same_bits(one, ask_one(deep, text, include=EVERY))
        assert {array.dtype for array in one.arrays.values()} == {np.dtype(np.float32)}


def test_two_occurrences_of_a_word_differ_where_the_model_has_positions(deep):
    contextual = ask_one(deep, "bank river bank").arrays["contextual"]
    assert not np.array_equal(contextual[0], contextual[2])


TEXTS = ["bank river money", "bank", "river apple"]
TIGHT = replace(LIMITS, max_sentence_tokens=7, max_tokens=11, max_trace_tokens=5)
LONG = "bank river " * 50_000


@pytest.mark.parametrize(
    ("setting", "limit", "size"),
    [("max_sentences", 2, 3), ("max_sentence_tokens", 2, 3), ("max_tokens", 5, 6)],
)
def test_one_over_a_limit_is_rejected_before_any_vector_is_made(deep, setting, limit, size):
    with pytest.raises(TooLargeError) as caught, recording() as record:
        ask(deep, TEXTS, replace(LIMITS, **{setting: limit}))
    assert caught.value.extra == {"setting": setting, "limit": limit, "size": size}
    assert f"over the limit {setting} of {limit}." in caught.value.detail
    assert record.stages == {}
    assert ask(deep, TEXTS, replace(LIMITS, **{setting: size}))


def test_truncation_removes_words_over_the_limit_and_counts_them(deep):
    limits = replace(LIMITS, max_sentence_tokens=2)
    encoded = ask(deep, ["bank river money apple", "bank river"], limits, truncate=True)
    assert [one.truncated for one in encoded] == [2, 0]
    assert [[t.text for t in one.tokens] for one in encoded] == [["bank", "river"]] * 2
    assert same_bits(encoded[0], ask_one(deep, "bank river"))


def test_truncated_words_may_be_unknown(deep):
    limits = replace(LIMITS, max_sentence_tokens=1)
    assert ask(deep, ["bank zebra"], limits, truncate=True, oov="error")[0].truncated == 1


def test_the_limit_on_tokens_applies_after_truncation(deep):
    limits = replace(LIMITS, max_sentence_tokens=2, max_tokens=4)
    assert len(ask(deep, ["bank river money", "river apple end"], limits, truncate=True)) == 2


@pytest.mark.parametrize("setting", ["max_sentence_tokens", "max_tokens"])
def test_limits_count_the_tokens_before_they_are_joined_to_phrases(tmp_path, setting):
    words = ["river_bank" if word == "high" else word for word in WORDS]
    model, texts = tiny_model(tmp_path, words=words), ["money river bank"]
    (one,) = ask(model, texts, replace(LIMITS, **{setting: 3}), phrases=True)
    assert [token.key for token in one.tokens] == ["money", "river_bank"]
    with pytest.raises(TooLargeError) as caught:
        ask(model, texts, replace(LIMITS, **{setting: 2}), phrases=True)
    assert caught.value.extra == {"setting": setting, "limit": 2, "size": 3}


def test_tokens_are_counted_by_resolution(composing):
    counts = TokenCounts(
        tokenize(composing, ["Bank bank zebra", "APPLE ."], EncodeOptions(), LIMITS)
    )
    found = (counts.tokens, counts.oov, counts.subword, counts.case_fallbacks, counts.truncated)
    assert found == (5, 0, 2, 1, 0)


@pytest.mark.parametrize("text", [LONG, LONG.split()], ids=["text", "words"])
def test_a_text_over_the_limit_is_rejected_with_its_size_after_a_few_lookups(counting, text):
    with pytest.raises(TooLargeError) as caught:
        tokenize(counting, [text], EncodeOptions(), TIGHT)
    assert caught.value.extra == {"limit": 7, "size": 100_000, "setting": "max_sentence_tokens"}
    assert counting.vocabulary.lookups < 20


@pytest.mark.parametrize("text", [LONG, LONG.split()], ids=["text", "words"])
def test_a_text_is_truncated_and_the_rest_counted_after_a_few_lookups(counting, text):
    (one,) = tokenize(counting, [text], EncodeOptions(truncate=True), TIGHT)
    assert [token.text for token in one.tokens] == ["bank", "river"] * 3 + ["bank"]
    assert one.truncated == 100_000 - 7
    assert counting.vocabulary.lookups < 20


def test_words_after_truncation_are_counted_up_to_a_limit_of_the_request(plain):
    """Each text that is truncated counts at least one word, so that it is not taken as whole."""
    texts = [LONG, LONG, LONG, "bank river", LONG]
    limits = replace(TIGHT, max_tokens=100)
    sentences = tokenize(plain, texts, EncodeOptions(truncate=True), limits)
    # LONG has 100,000 words, and 100,000 are counted in a request.
    assert [one.truncated for one in sentences] == [99_993, 7, 1, 0, 1]
    assert [len(one.tokens) for one in sentences] == [7, 7, 7, 2, 7]


def test_a_trace_has_its_own_limit(counting):
    assert len(trace_text(counting, "bank river money bank river", limits=TIGHT).tokens) == 5
    counting.vocabulary.lookups = 0
    with pytest.raises(TooLargeError) as caught:
        trace_text(counting, LONG, limits=TIGHT)
    assert caught.value.extra == {"limit": 5, "size": 100_000, "setting": "max_trace_tokens"}
    assert counting.vocabulary.lookups < 20


def test_texts_at_their_limits_pass(counting):
    found = tokenize(counting, ["bank " * 7, "river " * 4], EncodeOptions(), TIGHT)
    assert [(len(one.words), one.truncated) for one in found] == [(7, 0), (4, 0)]


def test_no_limits_apply_by_default(deep):
    assert len(encode(deep, ["bank"] * 1001)) == 1001
    (one,) = encode(deep, ["bank " * 1001], EncodeOptions(include=[]))
    assert len(one.tokens) == 1001


def unit_residual(share=0.5, **changes):
    return Layer(scoring=Scoring(scale=False), residual=Residual("unit", share), **changes)


def test_features_are_the_unit_static_vector_beside_the_unit_context(tmp_path):
    model = tiny_model(tmp_path, layers=[unit_residual()])
    one = ask_one(model, "apple Apple", include=["features", "static", "contextual"])
    more, less = e / (e + 1), 1 / (e + 1)
    context = np.array([[more, less, 0, 0, 0], [less, more, 0, 0, 0]]) / np.hypot(more, less)
    static = one.arrays["static"]
    np.testing.assert_allclose(one.arrays["features"], np.hstack([static, context]), **NEAR)
    np.testing.assert_allclose(one.arrays["contextual"], context + 0.5 * static, **NEAR)


def test_features_of_another_residual_have_the_contextual_vector(plain):
    one = ask_one(plain, "bank river apple", include=["features", "static", "contextual"])
    halves = [one.arrays[part] for part in ("static", "contextual")]
    expected = np.hstack([half / np.linalg.norm(half, axis=1, keepdims=True) for half in halves])
    np.testing.assert_allclose(one.arrays["features"], expected, **NEAR)


def with_neighbors():
    """Columns 1, 0 and 2 of the context, and one column for each neighbor."""
    context = np.eye(5, 3, dtype=np.float32)[[1, 0, 2, 3, 4]]
    neighbors = Projection(np.array([[2], [4], [0], [0], [0]], np.float32), np.float32([1]))
    return FeatureProjection(context, neighbors)


def test_features_have_the_neighbors_of_a_token(tmp_path):
    layer = unit_residual(features=with_neighbors())
    model = tiny_model(tmp_path, layers=[layer])
    one = ask_one(model, "apple Apple zebra apple", include=["features", "contextual"])
    # 2·column 0 + 4·column 1 + 1: apple 3, Apple 5, an unknown word 0.
    neighbors = np.array([[0, 5], [3, 0], [5, 3], [0, 0]])
    context = one.arrays["contextual"] - 0.5 * one.arrays["features"][:, :5]
    expected = np.hstack([context[:, [1, 0, 2]], neighbors])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(one.arrays["features"][:, 5:], expected, **NEAR)
    without = ask_one(
        tiny_model(tmp_path / "without", layers=[unit_residual()]),
        "apple Apple zebra apple",
        include=["contextual"],
    )
    assert as_bits(without.arrays["contextual"]) == as_bits(one.arrays["contextual"])


def test_features_of_a_sentence_do_not_know_the_next_sentence(tmp_path):
    model = tiny_model(tmp_path, layers=[unit_residual(features=with_neighbors())])
    alone = ask_one(model, "bank", include=["features"])
    together = ask(model, ["apple", "bank", "Apple"], include=["features"])
    assert as_bits(together[1].arrays["features"]) == as_bits(alone.arrays["features"])
    assert not alone.arrays["features"][0, 8:].any()


def test_neighbors_that_overflow_are_rejected(tmp_path):
    features = with_neighbors()
    huge = Projection(np.full((5, 1), 3e38, np.float32))
    layer = unit_residual(features=replace(features, neighbors=huge))
    with pytest.raises(NonFiniteError):
        ask_one(tiny_model(tmp_path, layers=[layer]), "bank bank", include=["features"])


def test_a_half_of_features_without_a_direction_is_zero(tmp_path):
    model = tiny_model(tmp_path, layers=[unit_residual()])
    one = ask_one(model, "zebra apple", include=["features"])
    assert not one.arrays["features"][0, :5].any()
    assert one.arrays["features"][0, 5:].tolist() == [1, 0, 0, 0, 0]
    alone = ask_one(model, "zebra", include=["features"])
    assert not alone.arrays["features"].any()


@pytest.mark.parametrize("share", [0.0, 0.25, 4.0])
def test_a_share_replaces_that_of_the_model(tmp_path, share):
    model = tiny_model(
        tmp_path / "a",
        word_bias=VECTORS[:, 0],
        layers=[full_layer(heads=1, k=5, v=5), unit_residual()],
    )
    other = tiny_model(
        tmp_path / "b",
        word_bias=VECTORS[:, 0],
        layers=[full_layer(heads=1, k=5, v=5), unit_residual(share)],
    )
    text, include = "the bank apple Apple zebra", ["contextual", "features"]
    given = ask_one(model, text, include=include, share=share)
    assert same_bits(given, ask_one(other, text, include=include))
    # The context in features is the one before the share of the static vector is added.
    own = ask_one(model, text, include=include)
    assert as_bits(given.arrays["features"]) == as_bits(own.arrays["features"])


def test_a_share_of_a_model_without_one_is_rejected(plain):
    with pytest.raises(InvalidError) as caught:
        ask(plain, ["apple"], share=0.5)
    assert [one.pointer for one in caught.value.errors] == ["/share"]


def test_a_context_that_overflows_is_rejected(tmp_path):
    huge = Projection(np.eye(5, dtype=np.float32) * np.float32(3e38))
    model = tiny_model(tmp_path, layers=[unit_residual(value=huge, output=huge)])
    with pytest.raises(NonFiniteError):
        ask_one(model, "apple Apple", include=["features"])

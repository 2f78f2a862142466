"""Encoding with a tiny model whose numbers can be derived by hand, and rejected requests."""

from dataclasses import replace
from math import e

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.engine import NonFiniteError
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import FeatureProjection, Layer, Projection, Residual
from polyseme.errors import InvalidError, TooLargeError, UnknownWordError
from polyseme.operations.encode import (
    STACK_TOKENS,
    TokenCounts,
    encode,
    encode_each,
    stack_indices,
    tokenize,
)
from polyseme.operations.schema import EncodeOptions
from tests.operations.calls import (
    EVERY,
    as_bits,
    ask,
    ask_one,
    rejected,
    same_bits,
    too_large,
    trace_text,
)
from tests.test_stages import recording
from tests.tiny import LIMITS, VECTORS, WORDS, full_layer, tiny_model

NEAR = {"rtol": 0, "atol": 1e-6}


def test_attention_of_two_words_by_hand(plain):
    # The dot products of apple and Apple are the identity; softmax of (1, 0) is (e, 1)/(e + 1).
    one = ask_one(plain, "apple Apple")
    more, less = e / (e + 1), 1 / (e + 1)
    assert one.arrays["attention"].shape == (1, 1, 2, 2)
    np.testing.assert_allclose(one.arrays["attention"][0, 0], [[more, less], [less, more]], **NEAR)
    expected = [[more, less, 0, 0, 0], [less, more, 0, 0, 0]]
    np.testing.assert_allclose(one.arrays["contextual"], expected, **NEAR)


def test_unknown_word_is_zero_and_never_attended_to(plain):
    one = ask_one(plain, "apple zebra Apple")
    attention = one.arrays["attention"][0, 0]
    assert [t.resolution for t in one.tokens] == ["exact", "oov", "exact"]
    assert one.arrays["static"][1].tolist() == [0] * 5
    assert attention[:, 1].tolist() == [0, 0, 0]
    # Its query is zero, so its weights on the two others are equal.
    np.testing.assert_allclose(attention[1], [0.5, 0, 0.5], **NEAR)
    np.testing.assert_allclose(one.arrays["contextual"][1], [0.5, 0.5, 0, 0, 0], **NEAR)
    np.testing.assert_allclose(attention.sum(axis=1), 1, **NEAR)
    nothing = ask_one(plain, "zebra gnu")
    assert nothing.arrays["attention"].tolist() == [[[[1, 0], [0, 1]]]]
    assert not nothing.arrays["contextual"].any()


@pytest.mark.parametrize(("text", "n"), [("bank river zebra", 3), ("", 0), ("   \n", 0), ([], 0)])
def test_shapes_are_those_of_the_contract(deep, text, n):
    one = ask_one(deep, text, include=EVERY)
    assert len(one.tokens) == n
    assert {part: array.shape for part, array in one.arrays.items()} == {
        "static": (n, 5),
        "contextual": (n, 5),
        "features": (n, 10),
        "attention": (2, 3, n, n),
        "contributions": (2, n, n + 3),
        "scores": (2, 3, n, n),
        "queries": (2, 3, n, 2),
        "keys": (2, 3, n, 2),
        "values": (2, 3, n, 7),
    }
    mean = ask_one(deep, text, heads="mean", layers="last")
    assert mean.arrays["attention"].shape == (1, n, n)


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
    [("all", [0, 1]), ("last", [1]), ([0], [0]), ([1, 0], [0, 1]), ([1, 1], [1])],
)
def test_the_requested_layers_are_returned_in_their_order(deep, layers, expected):
    text = "bank zebra river"
    every = ask_one(deep, text, include=EVERY).arrays
    chosen = ask_one(deep, text, include=EVERY, layers=layers).arrays
    for part, array in chosen.items():
        whole = part in {"static", "contextual", "features"}
        assert array.tobytes() == (every[part] if whole else every[part][expected]).tobytes()


def test_options_that_a_model_lacks_are_rejected(deep, plain):
    with pytest.raises(InvalidError) as caught:
        ask(deep, ["bank"], layers=[0, 7, 1, 2])
    message = "the model's layers are 0 to 1"
    errors = [(error.pointer, error.message) for error in caught.value.errors]
    assert errors == [("/layers/1", message), ("/layers/3", message)]
    with rejected("/share", "the last residual of this model is not `unit`"):
        ask(plain, ["apple"], share=0.5)
    with rejected("/oov", "this model has no subword vectors"):
        ask(plain, ["bank"], oov="subword")


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
    # A word that is unknown because of its case attends to the known word.
    one = ask_one(deep, "bAnk bank BANK", case="exact", oov="zero")
    assert [token.key for token in one.tokens] == [None, "bank", None]
    assert one.arrays["attention"][0, 0].tolist() == [[0, 1, 0]] * 3


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


SENTENCE = st.lists(st.sampled_from([*WORDS, "zebra", "BANK"]), max_size=12)


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


def test_stacks_have_sentences_of_one_length_and_bounded_tokens():
    lengths = [*np.random.default_rng(0).integers(0, 40, 2000).tolist(), 500, 500]
    found = list(stack_indices(lengths))
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
    limits = replace(LIMITS, max_sentence_tokens=2, max_tokens=4)
    texts = ["bank river zebra apple", "bank river"]  # truncated words may be unknown
    encoded = ask(deep, texts, limits, truncate=True, oov="error")
    assert [one.truncated for one in encoded] == [2, 0]
    assert [[t.text for t in one.tokens] for one in encoded] == [["bank", "river"]] * 2
    assert same_bits(encoded[0], ask_one(deep, "bank river"))


@pytest.mark.parametrize("setting", ["max_sentence_tokens", "max_tokens"])
def test_limits_count_the_tokens_before_they_are_joined_to_phrases(tmp_path, setting):
    words = ["river_bank" if word == "high" else word for word in WORDS]
    model, texts = tiny_model(tmp_path, words=words), ["money river bank"]
    (one,) = ask(model, texts, replace(LIMITS, **{setting: 3}), phrases=True)
    tokens = [(token.key, token.start, token.end) for token in one.tokens]
    assert tokens == [("money", 0, 5), ("river_bank", 6, 16)]
    with too_large(setting=setting, limit=2, size=3):
        ask(model, texts, replace(LIMITS, **{setting: 2}), phrases=True)


def test_tokens_are_counted_by_resolution(composing):
    counts = TokenCounts(
        tokenize(composing, ["Bank bank zebra", "APPLE ."], EncodeOptions(), LIMITS)
    )
    found = (counts.tokens, counts.oov, counts.subword, counts.case_fallbacks, counts.truncated)
    assert found == (5, 0, 2, 1, 0)
    for phrases, text, notes in (
        (False, "银行" * 30, 1),
        (True, "银行" * 30, 1),
        (True, "zebra", 0),
    ):
        options = EncodeOptions(phrases=phrases, oov="zero")
        assert len(TokenCounts(tokenize(composing, [text], options, LIMITS)).notes) == notes


@pytest.mark.parametrize("text", [LONG, LONG.split()], ids=["text", "words"])
def test_long_text_is_rejected_or_truncated_after_a_few_lookups(counting, work, text):
    with too_large(limit=7, size=100_000, setting="max_sentence_tokens"):
        tokenize(counting, [text], EncodeOptions(), TIGHT)
    (one,) = tokenize(counting, [text], EncodeOptions(truncate=True), TIGHT)
    assert [token.text for token in one.tokens] == ["bank", "river"] * 3 + ["bank"]
    assert one.truncated == 100_000 - 7
    assert work.lookups < 40


def test_a_trace_has_its_own_limit(counting, work):
    assert len(trace_text(counting, "bank river money bank river", limits=TIGHT).tokens) == 5
    work.lookups = 0
    with too_large(limit=5, size=100_000, setting="max_trace_tokens"):
        trace_text(counting, LONG, limits=TIGHT)
    assert work.lookups < 20


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
    # A half without a direction is zero.
    both = ask_one(model, "zebra apple", include=["features"]).arrays["features"]
    assert both.tolist() == [[0] * 5 + [1, 0, 0, 0, 0], [1, 0, 0, 0, 0] * 2]
    assert not ask_one(model, "zebra", include=["features"]).arrays["features"].any()


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


HUGE = Projection(np.eye(5, dtype=np.float32) * np.float32(3e38))
NEIGHBORS = Projection(np.full((5, 1), 3e38, np.float32))


@pytest.mark.parametrize(
    "layer",
    [
        unit_residual(value=HUGE, output=HUGE),
        unit_residual(features=replace(with_neighbors(), neighbors=NEIGHBORS)),
    ],
    ids=["context", "neighbors"],
)
def test_features_that_overflow_are_rejected(tmp_path, layer):
    with pytest.raises(NonFiniteError):
        ask_one(tiny_model(tmp_path, layers=[layer]), "bank bank", include=["features"])


@pytest.mark.parametrize("share", [0.0, 0.25, 4.0])
def test_a_share_replaces_that_of_the_model(tmp_path, share):
    model, other = (
        tiny_model(
            tmp_path / name,
            word_bias=VECTORS[:, 0],
            layers=[full_layer(heads=1, k=5, v=5), layer],
        )
        for name, layer in (("a", unit_residual()), ("b", unit_residual(share)))
    )
    text, include = "the bank apple Apple zebra", ["contextual", "features"]
    given = ask_one(model, text, include=include, share=share)
    assert same_bits(given, ask_one(other, text, include=include))
    # The context in features is the one before the share of the static vector is added.
    own = ask_one(model, text, include=include)
    assert as_bits(given.arrays["features"]) == as_bits(own.arrays["features"])

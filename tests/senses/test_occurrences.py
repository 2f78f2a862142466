"""Occurrences of a word: their surroundings, and the projection that is stored or estimated."""

import gc
import weakref
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.engine import unit
from polyseme.engine.attention import Scoring
from polyseme.engine.layers import IDENTITY, Layer, Projection, Residual, contextualize
from polyseme.errors import FieldError, TooLargeError
from polyseme.models.reader import read_model
from polyseme.models.vocabulary import Vocabulary
from polyseme.models.weights import ContextProjection
from polyseme.operations.compare import match_forms, may_occur, word_places
from polyseme.operations.limits import Limits
from polyseme.senses import occurrences
from polyseme.senses.find import SensesRequest, find_senses
from polyseme.senses.inventory import ApplySensesRequest, apply_senses
from polyseme.senses.occurrences import (
    REACH,
    encode_occurrences,
    estimate_projection,
    explain,
    find_projection,
    project,
    recenter,
    surround,
)
from tests.operations.calls import senses_in
from tests.tiny import VECTORS, WORDS, full_layer, tiny_model, write_tiny
from tests.tokenizer.vocabularies import resolve_all, tokenize


def expected_occurrence(model, tokens, place):
    """The surroundings and the attended words of a token, by definition."""
    inputs = model.inputs(tokens)
    last = len(model.layers) - 1
    result = contextualize(inputs, model.layers, ("weights",), (last,))
    names = [token.text.casefold() for token in tokens]
    informative = np.exp(np.minimum(inputs.word_bias, 0))
    static = unit(inputs.vectors).astype(np.float64)
    means, attended = np.zeros((2, static.shape[1])), {}
    weights = result.records[last]["weights"].mean(axis=0)[place]
    for other, name in enumerate(names):
        if name != names[place]:
            means[0] += informative[other] * static[other]
            means[1] += informative[other] * np.exp(-abs(other - place) / REACH) * static[other]
            if name.isalnum():
                weight = float(weights[other] * informative[other])
                attended[name] = attended.get(name, 0) + weight
    return unit(means), attended


WITH_BIAS = Layer(scoring=Scoring(scale=False, word_bias=True))


@pytest.mark.parametrize("layer", [full_layer(1), WITH_BIAS])
def test_all_occurrences_of_a_text_have_their_own_words_and_means(tmp_path, layer):
    bias = np.linspace(-2, 0.5, len(WORDS), dtype=np.float32)
    tiny = tiny_model(tmp_path, layers=[layer], word_bias=bias)
    words = ["bank", "River", "-", "absent", "Bank", "money", "river", "end", "bank"] * 20
    tokens = resolve_all(words, tiny.vocabulary)
    places = [at for at, word in enumerate(words) if word != "-"]  # more than one block
    # The other sentences have the same length, so that all are computed together.
    others = [tokens[::-1], tokens]
    found = encode_occurrences(tiny, [tokens, *others], [places, [], []])
    for one, place in zip(found, places, strict=True):
        means, attended = expected_occurrence(tiny, tokens, place)
        d = len(one.context)
        np.testing.assert_allclose(one.surroundings[d:].reshape(2, d), means, atol=1e-6)
        shares = {w: s for w, s in zip(one.words, one.attended.tolist(), strict=True) if s}
        assert shares == pytest.approx({word: one for word, one in attended.items() if one})
    for sentences, where in (
        ([tokens], [places[70:71]]),
        ([*others, tokens], [[0], [], places[70:71]]),
    ):
        alone = encode_occurrences(tiny, sentences, where)[-1]
        assert alone.sentence == len(sentences) - 1
        assert np.array_equal(alone.surroundings, found[70].surroundings)
        assert np.array_equal(alone.attended, found[70].attended)
    together = surround(tiny, [tokens, *others], [places, [0, 3], [1]])
    np.testing.assert_allclose(together[:-3], [one.surroundings for one in found], atol=1e-6)
    assert np.array_equal(surround(tiny, [tokens], [places[70:71]])[0], together[70])
    assert np.array_equal(surround(tiny, others, [[0, 3], [1]]), together[-3:])


FEW = 0.3  # the scale of the word bias of a head for grammar


@pytest.mark.parametrize("output", [None, 5])
@pytest.mark.parametrize("scales", [None, [1, FEW, 1, FEW, 1]])
def test_what_the_words_say_sums_to_the_product_with_the_context(tmp_path, output, scales):
    rng = np.random.default_rng(3)
    layer = Layer(
        heads=5,
        output=Projection(rng.normal(size=(5, 5)).astype(np.float32)) if output else IDENTITY,
        scoring=Scoring(
            word_bias=True, word_bias_scale=None if scales is None else np.float32(scales)
        ),
        residual=Residual("unit", 0.2),
    )
    bias = np.linspace(-2, 0.5, len(WORDS), dtype=np.float32)
    tiny = tiny_model(tmp_path, layers=[layer], word_bias=bias)
    tokens = resolve_all(["bank", "river", "absent", "money", "end"], tiny.vocabulary)
    direction = rng.normal(size=5)
    (said,) = explain(tiny, tokens, [(0, direction)])
    (found,) = encode_occurrences(tiny, [tokens], [[0]])
    assert said.sum() == pytest.approx(found.context @ direction, abs=1e-6)
    assert said[2] == 0  # an unknown word says nothing
    # A word alone says everything, so that its part is the whole product.
    pair = resolve_all(["bank", "river"], tiny.vocabulary)
    masked = replace(layer, scoring=replace(layer.scoring, mask="others"))
    (alone,) = explain(replace(tiny, layers=[masked]), pair, [(0, direction)])
    assert alone[0] == pytest.approx(0) and alone[1] != 0


def test_random_sentences_give_the_mean_and_the_whitening(tmp_path):
    # A word without a vector attends to all words equally, so its context is their mean.
    drawn = np.random.default_rng(5).integers(0, len(WORDS), (20_000, 20))
    contexts = unit(VECTORS[drawn].mean(axis=1).astype(np.float64))
    covariance = np.cov(contexts.T)
    found = estimate_projection(tiny_model(tmp_path))
    np.testing.assert_allclose(found.mean, contexts.mean(axis=0), atol=0.03)
    shrunk = covariance + np.trace(covariance) / 5 * np.eye(5)
    np.testing.assert_allclose(found.directions.T @ shrunk @ found.directions, np.eye(5), atol=0.15)


def test_a_projection_is_centered_by_random_sentences_of_tokens(tmp_path):
    model = tiny_model(tmp_path)
    words = [WORDS[0]] * 3 + [WORDS[4]]
    tokens = resolve_all(words, model.vocabulary)
    projection = estimate_projection(model)
    found = recenter(model, projection, tokens)
    chosen = VECTORS[np.random.default_rng(5).choice([0, 0, 0, 4], (20_000, 20))]
    expected = unit(chosen.mean(axis=1).astype(np.float64)).mean(axis=0)
    np.testing.assert_allclose(found.mean, expected, atol=0.03)
    assert np.array_equal(found.directions, projection.directions)
    assert np.array_equal(recenter(model, projection, tokens[::-1]).mean, found.mean)


def drawn(model, monkeypatch):
    """Return how often each word occurs in the random sentences, as a fraction."""
    seen = Counter()

    def count(model, sentences, places):
        seen.update(token.row for token in sentences[0] if token.row is not None)
        return surround(model, sentences, places)

    monkeypatch.setattr(occurrences, "surround", count)
    estimate_projection(model)
    return [seen[row] / seen.total() for row in range(len(WORDS))]


TEXTS = ["the river bank", "bank of money"] * 10


TWO_WORDS = Vocabulary("bank\nstraße\n".encode())
PARTS = [
    "bank",
    "BANK",
    "b\u00adank",
    "ba\u200bnk",
    "Straße",
    "STRASSE",
    "ΣΟΦΟΣ",
    "σοφος",
    "İ",
    "i̇",
    "Е\u0308лка",
    "за\u0301мок",
    "שָׁלוֹם",
    "п’ять",
    "ｶﾞ",
    "\u1112\u1161\u11ab",
]
FILLERS = [" ", "  ", "\u00a0", "\u200b", "-", "'s", "s", ".", "x", "ﬁ", "\x00"]


@given(
    st.lists(st.sampled_from(PARTS + FILLERS), max_size=8).map("".join),
    st.sampled_from([*PARTS, "bank bank", "straße-bank", "\u200b"]),
    st.booleans(),
)
def test_no_text_with_an_occurrence_is_left_out(text, form, exact):
    tokens = tokenize(text, TWO_WORDS)
    spelled = [token.text for token in tokens]
    spelled += [text[a.start : b.end] for a, b in pairwise(tokens)]  # as phrases
    wanted = match_forms([form], exact=exact)
    if word_places(spelled, wanted, exact=exact):
        assert may_occur(text, wanted, exact=exact)


@pytest.mark.parametrize(
    ("word", "exact", "other"),
    [
        ("νόμος", [], ["ΝΟΜΟΣ"]),
        ("ngân", ["nga\u0302n", "ng\u00adân"], ["NGÂN"]),
        ("замок", ["за\u0301мок"], ["ЗАМО\u0301К"]),
        ("п'ять", ["п’ять", "пʼять"], ["П’ЯТЬ"]),
        ("ёлка", ["е\u0308лка"], ["елка", "Елка"]),
        ("שלום", [], ["שָׁלוֹם"]),
        ("كتاب", ["ﻛﺘﺎﺏ"], ["كِتَابٌ", "كتـــاب"]),
        ("ガソリン", ["ｶﾞｿﾘﾝ"], []),
        ("bank", ["ｂａｎｋ"], ["ＢＡＮＫ"]),
        ("한", ["\u1112\u1161\u11ab"], []),
        ("straße", [], ["STRASSE", "STRAẞE"]),
        ("بانکی", [], ["بانكي"]),
        ("ինչ", [], ["ի՞նչ"]),
        ("τράπεζα", [], ["Τράπεζα", "ΤΡΑΠΕΖΑ", "τραπεζα"]),
    ],
)
def test_other_spellings_of_a_word_are_its_occurrences(word, exact, other):
    texts = [word, *exact, *other, f"{word}x", "νομός"]
    for is_exact, count in ((True, 1 + len(exact)), (False, len(texts) - 2)):
        forms = match_forms([word], exact=is_exact)
        assert word_places(texts, forms, exact=is_exact) == [*range(count)]
        assert all(may_occur(f"a {one}.", forms, exact=is_exact) for one in texts[:count])


LONG = "word " * 40


def test_only_texts_that_may_have_the_word_count_against_the_limits(tmp_path):
    model, limits = tiny_model(tmp_path), Limits(max_sentence_tokens=32, max_tokens=40)
    texts = [LONG, "the river bank", LONG, "the bank", LONG * 10]
    request = SensesRequest(word="bank", texts=texts)
    assert [one.text for one in find_senses(model, request, limits).occurrences] == [1, 3]
    with_inventory = SensesRequest(word="bank", texts=texts, inventory=True)
    inventory = find_senses(model, with_inventory).inventory
    applied = apply_senses(model, ApplySensesRequest(inventory=inventory, texts=texts), limits)
    assert [one.text for one in applied.occurrences] == [1, 3]
    with pytest.raises(TooLargeError) as caught:
        find_senses(model, SensesRequest(word="bank", texts=[LONG, LONG + "bank"]), limits)
    assert caught.value.errors == [FieldError(("texts", 1), "has 41 tokens")]
    assert "`truncate: true` of /v1/encode" in caught.value.hint
    with pytest.raises(TooLargeError):
        find_senses(model, SensesRequest(word="bank", texts=texts), Limits(max_sentences=4))


def test_an_occurrence_keeps_no_array_of_its_text(bundled):
    tokens = bundled.tokenizer.tokens("the bank " * 200)
    found = encode_occurrences(bundled, [tokens], [[1]])[0]
    arrays = (found.static, found.surroundings)
    assert all((one if one.base is None else one.base).size == one.size for one in arrays)


def test_surroundings_are_centered_projected_and_scaled():
    # (0.6, 0.8, 0) less the mean is (0, 0.8, 0); a zero row stays zero. As many columns are
    # projected as the mean has.
    surroundings = np.array([[3.0, 4, 0, 7, 7, 7], [0, 0, 0, 7, 7, 7]])
    fitted = ContextProjection(
        np.array([0.6, 0, 0]), np.array([[1.0, 0], [0, 2], [0, 0]]), np.zeros(3)
    )
    assert project(surroundings, fitted).tolist() == [[0, 1], [0, 0]]


def test_the_projection_of_the_folder_is_used_or_one_is_estimated_once(tmp_path):
    fitted = ContextProjection(np.full(5, 0.5), np.eye(5, 2), np.arange(3.0))
    model = read_model(write_tiny(tmp_path / "fitted", senses=lambda _: fitted))
    for read, written in zip(find_projection(model), fitted, strict=True):
        assert np.array_equal(read, written)
    assert model not in occurrences._estimated
    one = tiny_model(tmp_path)
    assert find_projection(one) is find_projection(one)
    other = tiny_model(tmp_path, vectors=VECTORS[::-1].copy())
    assert not np.allclose(find_projection(other).mean, find_projection(one).mean)
    # A projection does not keep its model in memory.
    kept = weakref.ref(one)
    del one
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("frequencies", [[0] * 4 + [0.9, 0.1] + [0] * 5, None])
def test_the_words_of_random_sentences_are_drawn_by_their_frequency(
    tmp_path, monkeypatch, frequencies
):
    bias = None if frequencies is None else np.log(1e-3 / (1e-3 + np.float32(frequencies)))
    layers = [Layer() if bias is None else WITH_BIAS]
    model = tiny_model(tmp_path, layers=layers, word_bias=bias)
    expected = frequencies or [1 / 11] * 11
    assert drawn(model, monkeypatch) == pytest.approx(expected, abs=0.02)


def huge(row, value):
    """The vectors, one of them with another value."""
    vectors = VECTORS.copy()
    vectors[row] = value
    return vectors


EXTREMES = {
    **{f"bias {one}": {"word_bias": np.float32([one] + [0] * 10)} for one in (-800, -50, 2)},
    **{f"vector {one}": {"vectors": huge(WORDS.index("end"), one)} for one in (1e19, 3e38)},
    "layers": {"layers": [full_layer(1), full_layer(2)], "word_bias": VECTORS[:, 0]},
    "one column": {"vectors": VECTORS[:, :1].copy()},
}


@pytest.mark.parametrize("facts", EXTREMES.values(), ids=EXTREMES)
def test_any_model_has_a_finite_projection(tmp_path, facts):
    layers = [WITH_BIAS] if "word_bias" in facts else [Layer()]
    model = tiny_model(tmp_path, **{"layers": layers, **facts})
    assert len(senses_in(model, "bank", TEXTS).occurrences) == 20
    assert np.isfinite(find_projection(model).directions).all()


def test_directions_are_at_most_as_many_as_the_sentences(tmp_path):
    vectors = np.random.default_rng(0).standard_normal((len(WORDS), 500)).astype(np.float32)
    found = estimate_projection(tiny_model(tmp_path, vectors=vectors))
    assert found.directions.shape == (500, 400)


@pytest.mark.parametrize("scale", [0, 1])
def test_vectors_of_one_direction_or_of_zeros_have_one_sense(tmp_path, scale):
    rng = np.random.default_rng(0)
    vectors = np.outer(rng.uniform(0.5, 2, len(WORDS)), rng.standard_normal(5)).astype(np.float32)
    model = tiny_model(tmp_path / "one", vectors=vectors * np.float32(scale))
    assert len(senses_in(model, "bank", TEXTS).senses) == 1
    # What all vectors have in common does not hide the senses.
    model = tiny_model(tmp_path / "two", vectors=VECTORS + 3)
    assert len(senses_in(model, "bank", TEXTS).senses) == 2

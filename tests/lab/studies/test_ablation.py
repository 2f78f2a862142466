"""Ablation: variants that differ in one part, and figures with errors."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra [train] is not installed")
pytest.importorskip("sklearn", reason="needs the extra `evaluate`")

from lab.studies.ablation import (
    OF_LEMMA,
    PAIRS,
    Separation,
    TaggedWord,
    auc_influence,
    by_lemma,
    embed,
    figures,
    held_out,
    pairs_of,
    run,
    sample,
)
from lab.studies.examples import SENTENCES, attention, neighbors
from lab.studies.variants import (
    THE_MODEL,
    only_head,
    variants,
    with_cache,
    with_query_scaled,
)

from polyseme.engine.arrays import unit
from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import Layer, Projection, Residual, contextualize
from polyseme.tokenizer import resolve_all
from polyseme_lab.training.corpus import is_lemma_held_out
from tests.tiny import WORDS, deep_model, full_layer, normal, projection, tiny_model

D, H = 5, 3
BIAS = np.linspace(-2, 0, len(WORDS)).astype(np.float32)


def attention_only(**changes):
    """A layer of three heads without residual, norm and feed-forward network."""
    absent = dict.fromkeys(("attention_norm", "feed_forward", "feed_forward_norm", "skip"))
    plain = {"residual": Residual(), "norm": "none", "final": Projection(), **absent}
    return full_layer(3, **{**plain, **changes})


def sentence(rng, n=7, words=None):
    return SentenceArrays(
        normal(rng, n, D), np.ones(n, np.bool_), np.arange(n) if words is None else words, BIAS[:n]
    )


def outputs(layer, one):
    return contextualize(one, [layer]).contextual


def weights(layer, one):
    return contextualize(one, [layer], ("weights",)).records[0]["weights"]


@pytest.fixture
def three_heads(tmp_path):
    layer = attention_only(residual=Residual("unit", 0.2, 0.01))
    return tiny_model(tmp_path, layers=[layer], word_bias=BIAS)


@pytest.mark.parametrize("with_output", [True, False])
def test_single_heads_add_up_to_all_of_them(with_output):
    rng = np.random.default_rng(1)
    changes = {"output": Projection(normal(rng, 21, D))}
    if not with_output:
        # Without an output projection, the values of all heads must be as wide as the vectors.
        changes = {"output": Projection(), "heads": 1, "value": projection(rng, D, D)}
        changes["scoring"] = replace(
            attention_only().scoring, position_bias=None, word_bias_scale=None
        )
    layer = attention_only(**changes)
    one = sentence(rng)
    parts = [outputs(only_head(layer, head, D), one) for head in range(layer.heads)]
    np.testing.assert_allclose(sum(parts), outputs(layer, one), rtol=1e-4, atol=1e-5)
    if layer.heads > 1:
        assert not np.allclose(parts[0], parts[1])


def test_a_single_head_without_an_output_keeps_its_columns():
    layer = Layer(heads=5, value=Projection(None, np.arange(5, dtype=np.float32)))
    one = sentence(np.random.default_rng(2))
    alone = outputs(only_head(layer, 3, D), one)
    assert not alone[:, [0, 1, 2, 4]].any()
    np.testing.assert_array_equal(alone[:, 3], outputs(layer, one)[:, 3])


def test_without_the_query_weights_do_not_depend_on_the_query_token():
    rng = np.random.default_rng(3)
    layer, one = attention_only(), sentence(rng)
    layer = replace(layer, scoring=replace(layer.scoring, position_bias=None))
    vectors = one.vectors.copy()
    vectors[2] = normal(rng, D)
    # The changed word is a key of all other rows, so only its own row is compared.
    other = replace(one, vectors=vectors)
    for times, same in ((0.0, True), (1.0, False), (2.0, False)):
        changed = with_query_scaled(layer, times, D)
        rows = [weights(changed, each)[:, 2] for each in (one, other)]
        assert np.allclose(rows[0], rows[1], atol=1e-6) == same
    np.testing.assert_allclose(weights(with_query_scaled(layer, 1, D), one), weights(layer, one))
    twice = with_query_scaled(Layer(), 2, D)  # a layer without query weights gets scaled ones
    np.testing.assert_array_equal(twice.query(one.vectors), 2 * one.vectors)


def test_a_cached_projection_changes_no_output(three_heads):
    rng = np.random.default_rng(5)
    (layer,) = three_heads.layers
    cached = with_cache(layer)
    for one in (sentence(rng), sentence(rng), sentence(rng, 4)):
        for _ in range(2):
            assert outputs(cached, one).tobytes() == outputs(layer, one).tobytes()


def test_variants_of_any_model_are_of_parts_that_it_has(tmp_path, three_heads):
    one = sentence(np.random.default_rng(6))
    deep, plain = deep_model(tmp_path / "deep"), tiny_model(tmp_path / "plain")
    for model in (three_heads, deep, plain):
        found = variants(model)
        assert next(iter(found)) == THE_MODEL
        for name, layers in found.items():
            assert contextualize(one, layers).contextual.shape == (7, D), name
        expected = contextualize(one, model.layers).contextual
        assert contextualize(one, found[THE_MODEL]).contextual.tobytes() == expected.tobytes()
    names = set(variants(three_heads))
    assert {"head 1 alone", "head 3 alone", "closed form", "values: closed form"} <= names
    assert {"static share 0", "static share 0.4", "static share 0.8"} <= names
    assert "static share 0.2" not in names  # the model's own
    assert not any(name.startswith("layers") for name in names)
    assert not any("alone" in name or "share" in name for name in variants(plain))
    assert "layers 1 to 1" in variants(deep)


def test_a_variant_differs_only_in_its_part(three_heads):
    one, found = sentence(np.random.default_rng(7)), variants(three_heads)
    (own,), same = found[THE_MODEL], weights(three_heads.layers[0], one)
    for name in ("values: closed form", "values: the static vectors", "static share 0.8"):
        np.testing.assert_array_equal(weights(found[name][0], one), same)
    for name in (
        "no nearness",
        "no informativeness",
        "attends to itself too",
        "scores: closed form",
    ):
        (layer,) = found[name]
        assert not np.allclose(weights(layer, one), same), name
        np.testing.assert_array_equal(layer.value.weight, own.value.weight)
    assert (np.einsum("hii->hi", weights(found["attends to itself too"][0], one)) > 0).all()
    assert found["static share 0.8"][0].residual.share == 0.8
    assert found["no position in the residual"][0].residual == Residual("unit", 0.2, 0.0)
    closed = weights(found["closed form"][0], one)
    for head in weights(found["scores: closed form"][0], one):
        np.testing.assert_allclose(head, closed[0], atol=1e-6)
    mean = same.mean(axis=0) @ one.vectors
    made = outputs(replace(found["values: the static vectors"][0], residual=Residual()), one)
    np.testing.assert_allclose(made, mean, atol=1e-5)


def tags(lemma, counts, begin=0):
    """Occurrences of each sense, each in its own sentence."""
    senses = [str(sense) for sense, count in enumerate(counts) for _ in range(count)]
    return [TaggedWord(begin + n, 0, lemma, sense) for n, sense in enumerate(senses)]


def test_a_sample_has_frequent_senses_in_the_order_of_the_text():
    tagged = [
        *tags("bank/NOUN", (40, 60)),
        *tags("go/VERB", (8, 7), 100),
        *tags("a/X", (9, 9), 200),
    ]
    found = sample(tagged, 60)
    assert found == sorted(found)
    assert set(found) <= set(tagged)
    assert {word.lemma for word in found} == {"bank/NOUN", "a/X"}
    assert len([word for word in found if word.lemma == "bank/NOUN"]) == OF_LEMMA
    assert len(sample(tagged, 1)) in {OF_LEMMA, 18}  # all of one lemma
    assert sample(tagged, 60) == found


def test_only_held_out_lemmas_are_measured_for_a_model_trained_on_tags():
    lemmas = [f"Word{number}/NOUN" for number in range(60)]
    tagged = [one for n, lemma in enumerate(lemmas) for one in tags(lemma, (1,), n)]
    training = {"recipe": {"held_out": 0.2, "split": 3}, "data": {"tags": 60}}
    found = {word.lemma for word in held_out(tagged, training)}
    # Training holds out a word with every part of speech.
    verbs = [f"word{number}/VERB" for number in range(60)]
    for names in (lemmas, verbs):
        kept = [is_lemma_held_out(name, 0.2, 3) for name in names]
        assert found == set(np.array(lemmas)[kept])
    assert 0 < len(found) < 40
    for other in ({}, {**training, "data": {"tags": 0}}, {**training, "recipe": {"held_out": 0}}):
        assert held_out(tagged, other) == tagged


def test_the_vectors_of_every_stack_are_those_of_the_engine(three_heads):
    texts = [["bank", "river", "money"], ["apple", "did", "high"]]
    tagged = [TaggedWord(s, place, "bank/NOUN", "a") for s, place in ((0, 0), (0, 2), (1, 0))]
    stacks = {"model": variants(three_heads)[THE_MODEL], "parameter-free": [Layer()]}
    found = embed(three_heads, texts, tagged, stacks)
    read = [three_heads.sentence(resolve_all(words, three_heads.vocabulary)) for words in texts]
    for name, layers in stacks.items():
        rows = [contextualize(read[s], layers).contextual[[place]] for s, place, _, _ in tagged]
        np.testing.assert_array_equal(found[name], unit(np.concatenate(rows)))


def test_the_auc_is_perfect_with_context_and_chance_without(three_heads):
    near = ("river", "money")
    texts = [["bank", near[n % 2]] for n in range(40)]
    tagged = [TaggedWord(n, 0, "bank/NOUN", near[n % 2]) for n in range(40)]
    static = Layer(residual=Residual("unit", 1e12))  # outweighs the context
    layers = {"parameter-free": Layer(), "static": static}
    found = dict(run(three_heads, texts, tagged, layers))
    assert found["parameter-free"] == {"nouns_macro_f1": 100.0, "pairs_auc": 100.0}
    assert found["static"]["pairs_auc"] == 50.0


def test_examples_have_a_matrix_for_each_head_whose_rows_sum_to_one(three_heads):
    assert len(SENTENCES) == 10
    for text in SENTENCES.values():
        found = attention(three_heads, text)
        n = len(found["tokens"])
        made = np.array(found["weights"])
        assert made.shape == (1, H, n, n)
        np.testing.assert_allclose(made.sum(axis=-1), 1, atol=0.01)


def test_neighbors_of_examples_exclude_words_of_the_sentence(bundled):
    for one in neighbors(bundled):
        own = {word.casefold() for word in one["text"].split()}
        assert not own & {word.casefold() for word, _ in one["contextual"]}
        assert one["word"] not in [word for word, _ in one["static"]]
        assert len(one["static"]) == len(one["contextual"]) == 6


def lemmas_of(rng, count=6):
    tagged = [t for n in range(count) for t in tags(f"w{n}/NOUN", (9, 9), 18 * n)]
    vectors = unit(rng.standard_normal((len(tagged), 3)))
    return vectors, by_lemma(tagged)


@pytest.mark.slow
def test_pairs_are_two_occurrences_of_one_lemma():
    _, lemmas = lemmas_of(np.random.default_rng(8))
    pairs = pairs_of(lemmas)
    assert len(pairs.same) == PAIRS
    assert (pairs.first != pairs.second).all()
    assert (pairs.first // 18 == pairs.lemma).all()
    assert (pairs.second // 18 == pairs.lemma).all()
    assert ((pairs.first % 18 < 9) == (pairs.second % 18 < 9)).tolist() == pairs.same.tolist()


def test_the_error_of_an_auc_follows_its_definition():
    """The structural components of Obuchowski 1997, by comparing all pairs."""
    cosines = np.array([0.9, 0.2, 0.5, 0.5, 0.1, 0.7])
    same = np.array([True, True, True, False, False, False])
    lemma = np.array([0, 1, 2, 0, 1, 2])

    def beats(a, b):
        return 1.0 if a > b else 0.5 if a == b else 0.0

    grid = np.array([[beats(a, b) for b in cosines[~same]] for a in cosines[same]])
    area = grid.mean()
    expected = (grid.mean(axis=1) - area) / 3 + (grid.mean(axis=0) - area) / 3
    found = auc_influence(cosines, same, lemma, 3)
    np.testing.assert_allclose(found, np.sqrt(3 / 2) * expected)
    assert found.sum() == pytest.approx(0)


@pytest.mark.slow
def test_the_error_of_an_auc_agrees_with_resampled_lemmas():
    rng = np.random.default_rng(9)
    count = 60
    lemma = np.repeat(np.arange(count), 40)
    same = rng.random(len(lemma)) < 0.5
    shift = rng.normal(1, 0.8, count)[lemma]  # lemmas differ in their separation
    cosines = rng.standard_normal(len(lemma)) + same * shift
    error = np.sqrt((auc_influence(cosines, same, lemma, count) ** 2).sum())

    from sklearn.metrics import roc_auc_score

    resampled = []
    for _ in range(200):
        rows = np.concatenate(
            [np.flatnonzero(lemma == one) for one in rng.integers(count, size=count)]
        )
        resampled.append(roc_auc_score(same[rows], cosines[rows]))
    assert error == pytest.approx(np.std(resampled), rel=0.25)


def test_a_difference_is_taken_lemma_by_lemma():
    one = Separation(np.array([0.5, 0.7, 0.9]), 0.6, np.array([0.03, -0.04]))
    other = Separation(np.array([0.6, 0.8, 1.0]), 0.65, np.array([0.03, -0.03]))
    found = figures(other, one)
    # Each noun gains 0.1, so the difference has no error although the figures have one.
    assert found["nouns_macro_f1"] == {
        "value": 80.0,
        "error": 11.55,
        "difference": 10.0,
        "difference_error": 0.0,
    }
    assert found["pairs_auc"]["error"] == 4.24
    assert found["pairs_auc"]["difference"] == 5.0
    assert found["pairs_auc"]["difference_error"] == 1.0
    assert str(figures(one, one)["pairs_auc"]["difference"]) == "0.0"

"""The projection and the rule of senses, fitted to hidden words of texts."""

import numpy as np
import pytest

from polyseme import terminal
from polyseme.engine import unit
from polyseme.engine.layers import Layer
from polyseme.senses import fit as fitting
from polyseme.senses.clustering import DEFAULT_RULE
from polyseme.senses.fit import (
    fit_discriminant,
    fit_rule,
    fit_senses,
    logistic_regression,
    similar_pairs,
)
from polyseme.senses.occurrences import estimate_projection, project
from tests.tiny import tiny_model

TOPICS, OF_TOPIC = 12, 4


def word(number):
    """A word of letters; ten of them have the same last two."""
    return "".join("abcdefghij"[int(digit)] for digit in reversed(f"{number:03}"))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A model whose words belong to topics, and texts of one topic each."""
    rng = np.random.default_rng(1)
    centers = rng.standard_normal((TOPICS, 8))
    count = TOPICS * OF_TOPIC
    vectors = centers[np.arange(count) % TOPICS] + 0.5 * rng.standard_normal((count, 8))
    vectors[:, 0] += 3  # what all words have in common
    words = [word(number) for number in range(count)]
    model = tiny_model(
        tmp_path_factory.mktemp("world"),
        words=words,
        vectors=vectors.astype(np.float32),
        layers=[Layer()],
    )
    texts = []
    for _ in range(300):
        topic = int(rng.integers(TOPICS))
        drawn = topic + TOPICS * rng.integers(0, OF_TOPIC, 6)
        texts.append(" ".join(words[number] for number in drawn))
    return model, texts


@pytest.fixture
def small(monkeypatch):
    """Limits that fit the small world."""
    monkeypatch.setattr(fitting, "MIN_WORDS", 2)
    monkeypatch.setattr(fitting, "MIN_PAIRS", 1)
    monkeypatch.setattr(fitting, "MAX_FREQUENCY", 1)
    monkeypatch.setattr(fitting, "SIMILAR", (-1, 1))
    monkeypatch.setattr(fitting, "RATIO", 3)


def test_the_discriminant_keeps_the_directions_in_which_words_differ():
    rng = np.random.default_rng(2)
    within = np.array([0.1, 3, 0.1])  # words differ in the first column, occurrences in the second
    words = [rng.normal([place, 0, 0], within, (40, 3)) for place in range(-5, 6)]
    fitted = fit_discriminant(words)
    first = fitted.directions[:, 0] / np.linalg.norm(fitted.directions[:, 0])
    assert abs(first[0]) > 0.99
    np.testing.assert_allclose(fitted.mean, np.concatenate(words).mean(axis=0), atol=1e-9)


def test_the_logistic_regression_is_that_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(3)
    labels = np.arange(300) % 3 == 0
    values = rng.standard_normal((300, 2)) + labels[:, None] * [1, -0.5]
    fitted = linear_model.LogisticRegression(
        C=1 / (len(values) * fitting.RIDGE), class_weight="balanced", tol=1e-10
    ).fit(values, labels)
    expected = [*fitted.intercept_, *fitted.coef_[0]]
    np.testing.assert_allclose(logistic_regression(values, labels), expected, rtol=1e-3)


def test_classes_that_a_line_separates_have_a_finite_regression():
    values, labels = np.array([[0.0], [1], [2], [3]]), np.array([False, False, True, True])
    intercept, weight = logistic_regression(values, labels)
    assert np.isfinite([intercept, weight]).all()
    assert -intercept / weight == pytest.approx(1.5)


def test_rule_is_fitted_to_words_and_to_mixtures_of_two(monkeypatch, capsys):
    fitted = []

    def fit(values, labels):
        fitted.append((values, labels))
        return logistic_regression(values, labels)

    monkeypatch.setattr(fitting, "MIN_PAIRS", 1)
    monkeypatch.setattr(fitting, "logistic_regression", fit)
    rng = np.random.default_rng(4)
    points = {w: unit(np.eye(6)[w] + 0.1 * rng.standard_normal((20, 6))) for w in range(4)}
    monkeypatch.setattr(terminal, "SECONDS", 0)
    fit_rule(points, [(0, 1), (2, 3)], terminal.Progress())
    assert "pairs of words, 2 of 2" in capsys.readouterr().err
    ((values, labels),) = fitted
    assert labels.tolist() == [False, False, True, True] * 2
    # The smaller cluster of a mixture has the occurrences of the second word.
    assert values[labels, 1].tolist() == list(fitting.SHARES) * 2


def test_similar_words_of_the_same_ending_are_paired(tmp_path):
    words = ["raining", "burning", "singing", "table", "x"]
    vectors = np.array([[1, 0], [0.2, 1], [0, 1], [0.2, 1], [1, 1]], np.float32)
    model = tiny_model(tmp_path, words=words, vectors=vectors, layers=[Layer()])
    sizes = dict.fromkeys(words, 10)
    # Cosines: raining and burning 0.20, raining and singing 0, burning and singing 0.98.
    assert similar_pairs(model, words, sizes) == [("burning", "raining")]
    assert similar_pairs(model, words, {**sizes, "raining": 14}) == []


@pytest.mark.usefixtures("small")
def test_fitted_senses_separate_the_contexts_of_different_words(world):
    model, texts = world
    fitted = fit_senses(model, texts)
    assert fitted.mean.shape == (24,) and fitted.rule.shape == (3,)
    hidden = fitting.encode_hidden_words(model, [word(0), word(1)], texts)
    points = [project(surroundings, fitted) for surroundings in hidden.values()]
    same = [(one @ one.T).mean() for one in points]
    assert min(same) > 0.5 > (points[0] @ points[1].T).mean()


@pytest.mark.usefixtures("small")
def test_the_threshold_gives_most_words_one_sense(world, monkeypatch):
    model, texts = world
    thresholds = []
    for share in (0.1, 0.9):
        monkeypatch.setattr(fitting, "ONE_SENSE", share)
        thresholds.append(fit_senses(model, texts).rule[0])
    assert thresholds[0] > thresholds[1]


@pytest.mark.usefixtures("small")
def test_excluded_words_are_not_fitted_to(world, monkeypatch):
    model, texts = world
    hidden = []

    def no_words(_model, chosen, _texts, _progress):
        hidden.extend(chosen)
        return {}

    monkeypatch.setattr(fitting, "encode_hidden_words", no_words)
    fit_senses(model, texts, exclude={word(0)})
    assert word(0) not in hidden and word(1) in hidden


def test_with_too_few_words_the_projection_is_estimated(world):
    model, texts = world
    estimated = estimate_projection(model)
    for found in (fit_senses(model, texts), fit_senses(model, [])):
        for one, expected in zip(found, estimated, strict=True):
            assert np.array_equal(one, expected)
    assert estimated.rule.tolist() == list(DEFAULT_RULE)

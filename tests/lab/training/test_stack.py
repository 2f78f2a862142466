"""The stack agrees with the engine; training by hidden words, from a corpus to a model."""

import math
import shutil
from collections import defaultdict
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
import pytest
import torch
from scipy.linalg import fractional_matrix_power

from polyseme.engine.attention import SentenceArrays
from polyseme.engine.layers import Projection, contextualize
from polyseme.models.reader import read_model
from polyseme.terminal import SILENT
from polyseme_lab.training import stack
from polyseme_lab.training.config import HiddenWordsConfig
from polyseme_lab.training.hidden_words import UNKNOWN
from polyseme_lab.training.run import write_trained_model
from polyseme_lab.training.stack import (
    Occurrences,
    final_and_skip,
    initial_stack,
    sampled_softmax_loss,
)
from tests.lab.training import runs
from tests.lab.training.runs import digests, encoded
from tests.lab.training.world import WORDS, world_model


def rng():
    return np.random.default_rng(7)


def test_a_hidden_word_begins_with_the_mean_of_its_context():
    """The first layer's values and outputs are the identity plus small random weights."""
    small = HiddenWordsConfig(layers=1, heads=3, value_width=2, feed_forward=5, activation="relu")
    layer = initial_stack(3, small, rng())[0]
    assert (layer.query.weight.shape, layer.value.weight.shape) == ((3, 3), (3, 6))
    assert layer.feed_forward.activation == "relu"
    first = initial_stack(300, HiddenWordsConfig(layers=2), rng())[0]
    for projection in (first.value, first.output):
        assert projection.weight.diagonal().mean() == pytest.approx(1, abs=0.02)
        assert np.abs(projection.weight - np.eye(300)).max() < 0.11


run, hidden_words = (
    partial(function, objective="hidden-words") for function in (runs.run, runs.training)
)


@pytest.mark.slow
def test_hidden_words_are_named_from_their_context(world, corpus):
    """The topic of a sentence makes a part of the vocabulary likely."""
    trained, metrics = run(world, corpus=corpus, steps=50, learning_rate=0.03, score_every=50)
    scores = trained.facts["held_out"]
    assert scores["kept"]["held_out_loss"] < scores["before"]["held_out_loss"] - 0.3
    assert metrics[-1]["loss"] < math.log(len(WORDS)) - 0.3


def test_the_loss_is_that_of_all_classes_if_all_are_sampled():
    torch.manual_seed(1)
    predicted, classes, bias = torch.randn(5, 3), torch.randn(7, 3), torch.randn(7)
    targets = torch.tensor([0, 6, 3, 3, 1])
    found = sampled_softmax_loss(predicted, targets, torch.arange(7), classes, bias, torch.zeros(7))
    expected = torch.nn.functional.cross_entropy(predicted @ classes.T + bias, targets)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    none = targets[:0]  # a batch without hidden words
    assert sampled_softmax_loss(predicted[:0], none, none, classes, bias, torch.zeros(7)) == 0


def test_the_sampled_sum_is_exact_on_average():
    """exp(loss) · exp(score of the target) is the estimate of the sum over the classes."""
    rng = np.random.default_rng(1)
    torch.manual_seed(1)
    predicted, classes, bias = torch.randn(1, 3), torch.randn(7, 3), torch.randn(7)
    chance = np.array([0.9, 0.5, 0.3, 0.3, 0.2, 0.6, 0.4])
    target = torch.tensor([2])
    score = predicted @ classes.T + bias
    sums = []
    for _ in range(1000):
        sample = torch.from_numpy(np.flatnonzero(rng.random(7) < chance))
        log_chance = torch.from_numpy(np.log(chance)).float()
        loss = sampled_softmax_loss(predicted, target, sample, classes, bias, log_chance)
        sums.append(float(torch.exp(loss + score[0, 2])))
    assert np.mean(sums) == pytest.approx(float(score.exp().sum()), rel=0.04)


def test_the_held_out_loss_is_that_of_all_words(tmp_path, corpus):
    """With vectors of zeros, the first prediction depends on the frequencies only."""
    zeros = world_model(tmp_path, vectors=np.zeros((len(WORDS), 7), np.float32))
    trainer = hidden_words(zeros, corpus=corpus).trainer(SILENT)
    targets = np.concatenate([batch.targets.ravel() for batch in trainer.data.held_out()])
    probability = trainer.data.counts / trainer.data.counts.sum()
    scores = trainer.held_out_scores(trainer.tensors)
    assert scores["held_out_loss"] == pytest.approx(-np.log(probability[targets]).mean(), abs=1e-3)
    commonest = (targets == probability.argmax()).mean()
    assert scores["named"] == pytest.approx(100 * commonest, abs=0.01)


def test_the_model_has_pre_norm_layers_over_the_same_vectors(world, corpus, tmp_path):
    trained, _ = run(world, corpus=corpus)
    manifest = write_trained_model(tmp_path / "new", world, trained, replacing=False)
    assert manifest.heads == 3
    assert [(one.norm, one.residual.kind) for one in manifest.layers] == [("before", "add")] * 2
    assert manifest.tensors["layers.1.feed_forward.inner"] == [7, 11]
    assert manifest.tensors["word_bias"] == [len(WORDS)]  # for sentence vectors and senses
    assert digests(tmp_path / "new")["vectors.npy"] == digests(tmp_path / "world")["vectors.npy"]
    model, words = read_model(tmp_path / "new"), ["bankaa", "riveraa", "theaa"]
    expected = encoded(trained.layers, world, words)
    np.testing.assert_array_equal(encoded(model.layers, model, words), expected)


def occurrences(words, results, vectors=None):
    results = np.asarray(results, np.float64)
    vectors = np.zeros_like(results) if vectors is None else vectors
    return Occurrences(np.asarray(words), results, vectors)


def test_the_final_projection_divides_by_the_covariance_within_words():
    normal = rng().standard_normal
    words, noise = np.repeat(np.arange(40), 3), normal((120, 4)) * [1, 2, 5, 10]
    means = 9 * normal((40, 4)) @ normal((4, 4))
    hidden = occurrences(words, means[words] + noise + 7)
    static = normal((500, 4))
    shown = occurrences(np.arange(500), 4 + static @ normal((4, 4)), static)
    final, skip = final_and_skip(hidden, shown, share=0)
    # Each word has three occurrences, so that the covariance is the mean of those of the words.
    within = np.mean([np.cov(hidden.results[words == word].T) for word in range(40)], axis=0)
    shrunk = within + 0.03 * np.trace(within) / 4 * np.eye(4)
    expected = fractional_matrix_power(shrunk, -0.25)
    expected *= final.weight[0, 0] / expected[0, 0]
    np.testing.assert_allclose(final.weight, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(final(hidden.results).mean(axis=0), 0, atol=1e-4)
    assert np.square(final(shown.results)).sum(axis=1).mean() == pytest.approx(1, rel=1e-5)
    assert not skip.any()


def test_the_skip_subtracts_half_of_what_the_static_vector_tells():
    normal = rng().standard_normal
    static, told, other = normal((5000, 4)), normal((4, 4)), normal((5000, 4))
    hidden = occurrences(np.arange(500) % 250, normal((500, 4)) - 3)
    shown = occurrences(np.arange(5000), static @ told + other + 5, static)
    final, skip = final_and_skip(hidden, shown)
    np.testing.assert_allclose(skip, -told @ final.weight / 2, atol=0.02)
    contextual = final(shown.results) + static @ skip
    assert np.square(contextual).sum(axis=1).mean() == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(
    ("words", "results"),
    [([1, 2], [[1, 2], [3, 4]]), ([1, 1, 2, 2], [[1, 2], [1, 2], [3, 5], [3, 5]])],
)
def test_without_a_covariance_results_stay_as_they_are(words, results):
    one = occurrences(words, results)
    assert final_and_skip(one, one) == (Projection(), None)


def test_the_final_projection_is_that_of_hidden_and_shown_words(world, corpus, monkeypatch):
    """Words that stay or are replaced are neither; a few occurrences of each word count."""
    monkeypatch.setattr(stack, "_SENTENCES", 4 * 64)  # four batches
    monkeypatch.setattr(stack, "_PER_WORD", 3)
    trainer = hidden_words(world, corpus=corpus, sentences=64).trainer(SILENT)
    plain = trainer._layers_of(trainer.averaged).to_layers()
    hidden, shown = trainer._occurrences(plain)
    final, skip = final_and_skip(hidden, shown)
    last = trainer.result()[-1]
    np.testing.assert_array_equal(last.final.weight, final.weight)
    np.testing.assert_array_equal(last.skip, skip)
    batches, table = map(trainer.data.batch, range(4)), trainer._table.numpy()
    rows = (zip(one.rows, one.positions, one.targets, strict=True) for one in batches)
    expected = {False: defaultdict(list), True: defaultdict(list)}
    for row, places, targets in chain.from_iterable(rows):
        known, target_at = row != UNKNOWN, dict(zip(places, targets, strict=True))
        sentence = SentenceArrays(table[np.where(known, row, -1)], known, row)
        for place, result in enumerate(contextualize(sentence, plain).contextual):
            target = target_at.get(place, UNKNOWN)
            if known[place] == (target == UNKNOWN):
                expected[bool(known[place])][max(target, row[place])].append(result)
    for found, is_shown in ((hidden, False), (shown, True)):
        of_words = sorted(expected[is_shown].items())
        kept = [(word, result) for word, results in of_words for result in results[:3]]
        words, results = zip(*kept, strict=True)
        assert found.words.tolist() == list(words)
        np.testing.assert_allclose(found.results, results, atol=1e-6)
    assert not hidden.vectors.any()
    np.testing.assert_array_equal(shown.vectors, table[shown.words])


def test_a_model_over_a_bundled_one_does_not_copy_its_tables(world, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("polyseme.models.reader._PACKAGE", tmp_path)
    shutil.copytree(tmp_path / "world", tmp_path / "bundled" / "world")
    trained, _ = run(world, corpus=corpus)
    write_trained_model(tmp_path / "new", world, trained, replacing=False)
    assert set(digests(tmp_path / "new")) == {"attention.safetensors"}
    new = read_model(tmp_path / "new")
    again, _ = run(new, corpus=corpus)
    assert write_trained_model(tmp_path / "again", new, again, replacing=False).base == "world"
    tuned = replace(trained, rows=np.array([3]), vectors=np.ones((1, 7), np.float32))
    assert write_trained_model(tmp_path / "tuned", new, tuned, replacing=False).base is None
    assert read_model(tmp_path / "tuned").rows[3].tolist() == [1] * 7


def test_a_training_can_be_continued_for_longer_and_end_with_a_decay(world, corpus, tmp_path):
    place = tmp_path / "checkpoints"
    run(world, corpus=corpus, checkpoints=place, decay=0)
    longer, metrics = run(
        world, corpus=corpus, checkpoints=place, resume=True, steps=12, decay=0.25
    )
    assert longer.facts["steps"] == 12
    assert [one["step"] for one in metrics] == [9, 10, 11, 12]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"warmup": 4, "decay": 0.0}, [0.25, 0.5, 0.75, 1, 1, 1, 1, 1]),
        ({"warmup": 0, "decay": 0.5}, [1, 1, 1, 1, 1, 0.75, 0.5, 0.25]),
        ({"warmup": 2, "decay": 1.0}, [0.5, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]),
    ],
)
def test_the_learning_rate_rises_stays_and_falls(world, corpus, config, expected):
    trainer = hidden_words(world, corpus=corpus, learning_rate=0.002, **config).trainer(SILENT)
    _, *rates = (trainer._optimizer.param_groups[0]["lr"] for _ in trainer.steps())
    np.testing.assert_allclose(rates, 0.002 * np.array(expected))


def test_the_result_is_an_average_of_the_weights(world, corpus):
    recipe = {"steps": 2, "average": 0.15, "learning_rate": 0.1}
    trainer = hidden_words(world, corpus=corpus, **recipe).trainer(SILENT)
    weight = trainer.tensors["layers.0.query"]
    states = [weight.detach().numpy().copy() for _ in trainer.steps()]
    # The factor of the first step is 1/10, that of the second 0.15.
    first = 0.1 * states[0] + 0.9 * states[1]
    expected = 0.15 * first + 0.85 * states[2]
    np.testing.assert_allclose(trainer.result()[0].query.weight, expected, atol=1e-5)


def test_bfloat16_gives_nearly_the_same_loss(world, corpus):
    (_, exact), (_, rounded) = (
        run(world, corpus=corpus, steps=4, precision=precision)
        for precision in ("float32", "bfloat16")
    )
    losses = [[one["loss"] for one in metrics[1:]] for metrics in (exact, rounded)]
    assert losses[0] != losses[1]
    np.testing.assert_allclose(*losses, rtol=0.02)

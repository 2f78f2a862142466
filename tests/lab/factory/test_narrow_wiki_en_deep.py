"""Layers that are narrowed in closed form, and then learn the results of the wide ones."""

from ast import literal_eval
from dataclasses import replace
from functools import partial
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from polyseme.engine.attention import Scoring, SentenceArrays
from polyseme.engine.layers import FeedForward, Projection, contextualize
from polyseme.models.reader import read_model
from tests.lab.training.world import world_model, write_corpus
from tests.tiny import full_layer, projection

pytest.importorskip("torch", reason="the extra [train] is not installed")
zstandard = pytest.importorskip("zstandard")

from lab.factory.narrow_wiki_en_deep import (  # noqa: E402
    best_units,
    inputs_of,
    low_rank,
    main,
    narrow,
    square_roots,
)

from polyseme_lab.training.run import write_trained_model  # noqa: E402
from tests.lab.training.runs import run  # noqa: E402

D, K, UNITS = 12, 4, 9


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def layer(rng):
    """A pre-norm layer whose biases, keys and hidden units all matter."""
    network = FeedForward(projection(rng, D, UNITS), projection(rng, UNITS, D))
    return full_layer(3, D, 3, K, K, scoring=Scoring(), feed_forward=network)


def sentences(rng, count=300, rank=D):
    """A stack of sentences of ten tokens, of which two are unknown, in a subspace."""
    vectors = rng.standard_normal((count, 10, rank)) @ rng.standard_normal((rank, D))
    known = np.ones((count, 10), np.bool_)
    known[:, [3, 7]] = False
    vectors[~known] = 0
    return SentenceArrays(vectors.astype(np.float32), known, np.tile(np.arange(10), (count, 1)))


def difference(layer, other, stack):
    """The mean squared difference of the results at known tokens, relative to the variance."""
    one, two = (contextualize(stack, [each]).contextual[stack.known] for each in (layer, other))
    return np.square(one - two).sum() / np.square(one - one.mean(axis=0)).sum()


def test_a_layer_of_the_same_widths_computes_the_same(rng, layer):
    stack = sentences(rng)
    (inputs,) = inputs_of([layer], [stack])
    same = narrow(layer, inputs, K, K, UNITS)
    assert difference(layer, same, stack) < 1e-4


def test_narrow_layers_are_nearer_than_cut_ones(rng, layer):
    stack, other = sentences(rng), sentences(rng)
    (inputs,) = inputs_of([layer], [stack])
    found = narrow(layer, inputs, 2, 3, 6)
    assert found.key.weight.shape == (D, 3 * 2)
    assert found.value.weight.shape == (D, 3 * 3)
    assert found.feed_forward.inner.weight.shape == (D, 6)
    keys, values = (np.arange(3 * K).reshape(3, K)[:, :n].ravel() for n in (2, 3))
    inner, outer = layer.feed_forward.inner, layer.feed_forward.outer
    cut = replace(
        layer,
        query=Projection(layer.query.weight[:, keys], layer.query.bias[keys]),
        key=Projection(layer.key.weight[:, keys], layer.key.bias[keys]),
        value=Projection(layer.value.weight[:, values], layer.value.bias[values]),
        output=Projection(layer.output.weight[values], layer.output.bias),
        feed_forward=FeedForward(
            Projection(inner.weight[:, :6], inner.bias[:6]),
            Projection(outer.weight[:6], outer.bias),
        ),
    )
    assert difference(layer, found, other) < 0.8 * difference(layer, cut, other)
    # The mean output of attention stays.
    means = []
    for one in (layer, found):
        weights = np.stack(np.split(one.value.weight, 3, axis=1))
        rows = np.einsum("mhd,hdv->mhv", inputs.mixed, weights).reshape(len(inputs.mixed), -1)
        means.append(one.output(rows + one.value.bias).mean(axis=0))
    np.testing.assert_allclose(*means, atol=1e-3)


def test_factors_are_nearest_in_the_metric_of_the_inputs(rng):
    """The squared distance is the sum of the remaining squared singular values (Eckart–Young)."""
    matrix, x, y = rng.standard_normal((5, 7)), *(rng.standard_normal((50, n)) for n in (5, 7))
    left, right = square_roots(x.T @ x), square_roots(y.T @ y)
    one, other = low_rank(matrix, left, right, 3)
    assert (one.shape, other.shape) == ((5, 3), (3, 7))
    rest = np.linalg.svd(left[0] @ matrix @ right[0], compute_uv=False)[3:]
    distance = np.square(x @ (matrix - one @ other) @ y.T).sum()
    np.testing.assert_allclose(distance, np.square(rest).sum(), rtol=1e-6)


def test_the_units_that_others_replace_best_are_removed(rng):
    """Each time, the unit is the one whose removal costs least if the outer weights are fitted."""
    hidden, outer = rng.standard_normal((400, 9)), rng.standard_normal((9, 4))
    covariance = np.cov((hidden @ rng.standard_normal((9, 9))).T)
    c = covariance + 1e-3 * np.trace(covariance) / 9 * np.eye(9)

    def loss(removed):
        rest = [i for i in range(9) if i not in removed]
        across = c[np.ix_(removed, rest)]
        left = (
            c[np.ix_(removed, removed)] - across @ np.linalg.inv(c[np.ix_(rest, rest)]) @ across.T
        )
        return np.trace(outer[removed].T @ left @ outer[removed])

    removed = []
    for size in range(8, 2, -1):
        removed.append(min(set(range(9)) - {*removed}, key=lambda i: loss([*removed, i])))
        assert {*best_units(covariance, outer, size)} == set(range(9)) - {*removed}


@pytest.mark.slow
def test_a_model_is_narrowed_and_taught(tmp_path, monkeypatch):
    world = world_model(tmp_path)
    text = write_corpus(tmp_path / "text")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "one.txt.zst").write_bytes(zstandard.compress(text.read_bytes()))
    (tmp_path / "left_out").write_text("bankaa\n")
    trained, _ = run(world, corpus=text, objective="hidden-words", value_width=4)
    write_trained_model(tmp_path / "deep", world, trained, replacing=False)
    folders = {"--corpus": "corpus", "--leave-out": "left_out", "--teacher": "deep"}
    options = [part for name, path in folders.items() for part in (name, str(tmp_path / path))]
    widths = {"keys": 1, "values": 2, "units": 5, "minutes": 1.5}
    options += [part for name, width in widths.items() for part in (f"--{name}", str(width))]
    clock = SimpleNamespace(monotonic=partial(next, count()))  # a step takes a second
    monkeypatch.setattr("lab.factory.narrow_wiki_en_deep.time", clock)
    output = ["--output", str(tmp_path / "narrow")]
    done = CliRunner().invoke(main, [*options, *output], catch_exceptions=False)
    lines = done.output.splitlines()
    before, after = (literal_eval(line) for line in (lines[0], lines[-1]))
    assert all(after[name] < 0.9 * before[name] for name in ("vectors", "hidden")), (before, after)
    small = read_model(tmp_path / "narrow")
    assert small.layers[0].key.weight.shape == (7, 3)
    assert small.layers[1].feed_forward.inner.weight.shape == (7, 5)
    assert small.manifest.training["narrowed"] == widths | after

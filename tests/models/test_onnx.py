"""Exported graphs compute in ONNX Runtime what the engine computes."""

from dataclasses import replace

import numpy as np
import pytest

from polyseme.engine.layers import contextualize
from polyseme.engine.similarity import cosines
from polyseme.models.reader import bundled_models, read_model
from tests.cli.conftest import run as run_command
from tests.conftest import BUNDLED_NAMES
from tests.engine.cases import projection, random_case, random_sentence, sentence
from tests.engine.reference import assert_close
from tests.tiny import normal

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
from polyseme.models.onnx_graph import onnx_graph  # noqa: E402 - it imports onnx

TOLERANCE = 1e-5


def run(proto, sentences):
    """Run a graph over sentences of equal length; return its outputs by name."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    names = [entry.name for entry in session.get_inputs()]
    arrays = {name: np.stack([getattr(one, name) for one in sentences]) for name in names}
    outputs = [entry.name for entry in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, arrays), strict=True))


def assert_equal_to_engine(layers, d, sentences):
    outputs = run(onnx_graph(layers, d, "model"), sentences)
    for index, one in enumerate(sentences):
        expected = contextualize(one, layers, ["weights"])
        assert_close(outputs["contextual"][index], expected.contextual, TOLERANCE)
        weights = np.stack([record["weights"] for record in expected.records])
        assert_close(outputs["attention"][index], weights, TOLERANCE)


@pytest.mark.parametrize("seed", range(36))
def test_random_layers(seed):
    case, rng = random_case(seed), np.random.default_rng([seed, 3])
    n, d = max(len(case.sentence.known), 1), case.sentence.vectors.shape[1]
    layers = [layer for layer in case.layers if layer.heads == case.layers[0].heads]
    if seed % 3 == 0:
        skip = normal(rng, d, d) / np.float32(d)
        layers[-1] = replace(layers[-1], final=projection(rng, d, d), skip=skip)
    sentences = [random_sentence(rng, n, d) for _ in range(2)]
    biased = [one._replace(word_bias=normal(rng, n)) for one in sentences]
    assert_equal_to_engine(layers, d, biased)


@pytest.mark.parametrize("name", BUNDLED_NAMES)
def test_bundled_models(name):
    model = read_model(bundled_models() / name)
    texts = ["the bank of the river is the other bank", "an apple qzxvq a day keeps it all away"]
    sentences = [model.inputs(model.tokenizer.tokens(text)) for text in texts]
    assert not sentences[1].known.all() or model.subwords
    assert_equal_to_engine(model.layers, model.manifest.dimension, sentences)


def test_one_token_and_only_unknown_tokens():
    case = random_case(5)
    d = case.sentence.vectors.shape[1]
    for known in ([True], [False], [False, False]):
        vectors = np.outer(known, np.full(d, 0.5)).astype(np.float32)
        start = sentence(vectors, known, word_bias=[0] * len(known))
        assert_equal_to_engine(case.layers[:1], d, [start])


def test_command(tmp_path):
    file = tmp_path / "model.onnx"
    command = ("models", "export", "wiki-en", "--format", "onnx", "--output", file)
    assert run_command(*command).returncode == 0
    model = read_model(bundled_models() / "wiki-en")
    start = model.inputs(model.tokenizer.tokens("the muddy bank of the river"))
    expected = contextualize(start, model.layers).contextual
    outputs = run(onnx.load(file), [start])
    assert_close(outputs["contextual"][0], expected, TOLERANCE)
    size = file.stat().st_size
    assert run_command(*command, "--quantize").returncode == 0
    assert file.stat().st_size < size / 2
    quantized = run(onnx.load(file), [start])["contextual"][0]
    assert (np.diag(cosines(quantized, expected)) > 0.99).all()
    for wrong in (("--limit", "5"), ("--format", "projector", "--quantize")):
        assert run_command(*command, *wrong).returncode == 2

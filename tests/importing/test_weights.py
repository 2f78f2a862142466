"""`--weights`: projections under their usual names, in both conventions."""

import json

import numpy as np
import pytest

from polyseme.models.reader import read_model
from polyseme.operations.options import Part
from tests.importing.weight_files import BIASES, HEADS, ROW, SQUARE, D, H, K, V, save, tiny_vectors
from tests.operations.calls import ask_one
from tests.tiny import VECTORS, WORDS, normal

RNG = np.random.default_rng(13)
PARTS: tuple[Part, ...] = ("static", "contextual", "attention")
TEXT = "apple bank river money high end bank"


@pytest.fixture
def vectors(importer):
    return tiny_vectors(importer)


def import_weights(importer, vectors, tensors, *options, metadata=None):
    """Import with weights and read the model."""
    given = save(importer, tensors, metadata)
    done = importer.run(vectors, "--weights", given, "--replace", "--name", "weighted", *options)
    assert (done.code, "Traceback" in done.err) == (0, False), done.err
    return read_model(importer.models / "weighted")


def arrays(model):
    return ask_one(model, TEXT, include=[*PARTS], case="exact").arrays


def attention(x, weights, heads, biases=None):
    """Multi-head attention in float64, independent of the engine. [n, d] -> [n, d], [h, n, n]"""
    biases = {} if biases is None else biases
    projected = {}
    for name in ("query", "key", "value"):
        y = x @ weights.get(name, np.eye(x.shape[1])) + biases.get(f"{name}_bias", 0)
        projected[name] = y.reshape(len(x), heads, -1)
    scores = np.einsum("ihk,jhk->hij", projected["query"], projected["key"])
    scores /= np.sqrt(projected["query"].shape[2])
    e = np.exp(scores - scores.max(axis=2, keepdims=True))
    a = e / e.sum(axis=2, keepdims=True)
    context = np.einsum("hij,jhv->ihv", a, projected["value"]).reshape(len(x), -1)
    out = context @ weights.get("output", np.eye(context.shape[1]))
    return out + biases.get("output_bias", 0), a


def assert_close(found, contextual, weights):
    np.testing.assert_allclose(found["contextual"], contextual, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["attention"][0], weights, rtol=0, atol=1e-6)


def test_weights_give_multi_head_attention(importer, vectors):
    model = import_weights(importer, vectors, {**ROW, **BIASES}, *HEADS)
    found = arrays(model)
    x = found["static"].astype(np.float64)
    assert x.tolist() == [VECTORS[WORDS.index(word)].tolist() for word in TEXT.split()]
    assert_close(found, *attention(x, ROW, H, BIASES))
    assert (model.manifest.heads, model.key_width, model.value_width) == (H, K, V)


@pytest.mark.parametrize("bias", [True, False])
def test_weights_of_torch_in_the_column_convention_give_what_torch_gives(importer, vectors, bias):
    torch = pytest.importorskip("torch", reason="needs PyTorch to compare with")
    with torch.random.fork_rng():
        torch.manual_seed(3)
        module = torch.nn.MultiheadAttention(D, D, bias=bias, batch_first=True).eval()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(torch.randn_like(parameter))
    query, key, value = module.in_proj_weight.detach().chunk(3)
    tensors = {"q_proj.weight": query, "k_proj.weight": key, "v_proj.weight": value}
    tensors["out_proj.weight"] = module.out_proj.weight.detach()
    if bias:
        parts = module.in_proj_bias.detach().chunk(3)
        tensors |= {f"{name}_proj.bias": part for name, part in zip("qkv", parts, strict=True)}
        tensors["out_proj.bias"] = module.out_proj.bias.detach()
    tensors = {name: tensor.numpy() for name, tensor in tensors.items()}
    options = ["--convention", "column", "--heads", D]
    found = arrays(import_weights(importer, vectors, tensors, *options))
    x = torch.from_numpy(found["static"])[None]
    with torch.no_grad():
        contextual, weights = module(x, x, x, average_attn_weights=False)
    assert_close(found, contextual[0].numpy(), weights[0].numpy())


def test_transposed_weights_in_the_column_convention_give_the_same_model(importer, vectors):
    tensors = {**ROW, **BIASES, "layers.0.feed_forward.inner": normal(RNG, D, 13)}
    tensors["layers.0.feed_forward.outer"] = normal(RNG, 13, D)
    tensors["layers.0.position_bias"] = normal(RNG, H, 5)
    row = import_weights(importer, vectors, tensors, *HEADS)
    transposed = {n: t.T if t.ndim == 2 and "position" not in n else t for n, t in tensors.items()}
    column = import_weights(importer, vectors, transposed, "--convention", "column", *HEADS)
    assert row.manifest.tensors == column.manifest.tensors
    assert row.manifest.files == column.manifest.files
    assert [m.manifest.training["convention"] for m in (row, column)] == ["row", "column"]


def test_a_square_weight_follows_the_declared_convention(importer, vectors):
    for convention, weight in (("row", SQUARE), ("column", SQUARE.T)):
        given = {"query": weight}
        model = import_weights(importer, vectors, given, "--convention", convention)
        assert np.array_equal(model.layers[0].query.weight, SQUARE)
    assert np.array_equal(import_weights(importer, vectors, given).layers[0].query.weight, SQUARE.T)


NAMES = {
    "canonical": "layers.0.{full}",
    "alone": "{full}",
    "weight": "{full}.weight",
    "layer and weight": "layers.0.{full}.weight",
    "W": "W{short}",
    "w": "w{short}",
    "W_": "W_{short}",
    "W and weight": "W{short}.weight",
    "proj": "{short}_proj",
    "proj and weight": "{short}_proj.weight",
    "layer, proj and weight": "layers.0.{short}_proj.weight",
    "capitals": "{upper}",
}


@pytest.mark.parametrize("pattern", NAMES.values(), ids=NAMES)
def test_a_projection_has_many_names(importer, vectors, pattern):
    tensors = {
        pattern.format(full=name, short=name[0], upper=name.upper()): weight
        for name, weight in ROW.items()
    }
    named = import_weights(importer, vectors, tensors, *HEADS).manifest
    assert named.tensors == {f"layers.0.{name}": list(one.shape) for name, one in ROW.items()}
    right = import_weights(importer, vectors, ROW, *HEADS).manifest
    assert named.files == right.files


@pytest.mark.parametrize(
    "pattern", ["{full}_bias", "{full}.bias", "{short}_proj.bias", "W{short}_bias"]
)
def test_a_bias_has_many_names(importer, vectors, pattern):
    tensors = {
        pattern.format(full=name, short=name[0]): BIASES[f"{name}_bias"]
        for name in ("query", "key")
    }
    model = import_weights(importer, vectors, {**ROW, **tensors}, *HEADS)
    assert np.array_equal(model.layers[0].query.bias, BIASES["query_bias"])
    assert np.array_equal(model.layers[0].key.bias, BIASES["key_bias"])
    assert model.layers[0].value.bias is None


def test_a_second_layer_follows_the_first(importer, vectors):
    second = {f"layers.1.{name}": weight + 1 for name, weight in ROW.items()}
    tensors = {**ROW, **second, "layers.1.Q_proj.bias": BIASES["query_bias"]}
    model = import_weights(importer, vectors, tensors, *HEADS)
    found = arrays(model)
    first, a = attention(found["static"].astype(np.float64), ROW, H)
    weights = {name: weight + 1 for name, weight in ROW.items()}
    contextual, b = attention(first, weights, H, {"query_bias": BIASES["query_bias"]})
    scale = np.abs(contextual).max()
    np.testing.assert_allclose(found["contextual"] / scale, contextual / scale, atol=1e-5)
    np.testing.assert_allclose(found["attention"], [a, b], rtol=0, atol=1e-4)
    assert [entry.scale for entry in model.manifest.layers] == [True, True]


def test_absent_projections_are_the_identity(importer, vectors):
    model = import_weights(importer, vectors, {"key": SQUARE})
    found = arrays(model)
    x = found["static"].astype(np.float64)
    assert_close(found, *attention(x, {"key": SQUARE.astype(np.float64)}, 1))


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_floats_of_any_width_become_float32(importer, vectors, dtype):
    given = {name: weight.astype(dtype) for name, weight in ROW.items()}
    model = import_weights(importer, vectors, given, *HEADS)
    layer = model.layers[0]
    for name, weight in given.items():
        stored = getattr(layer, name).weight
        assert stored.dtype == np.float32
        assert np.array_equal(stored, weight.astype(np.float32))


def test_the_option_overrides_the_heads_in_the_metadata(importer, vectors):
    metadata = {"heads": str(H)}
    assert import_weights(importer, vectors, ROW, metadata=metadata).manifest.heads == H
    assert import_weights(importer, vectors, ROW).manifest.heads == 1
    assert (
        import_weights(importer, vectors, ROW, "--heads", 1, metadata=metadata).manifest.heads == 1
    )


def test_the_metadata_may_describe_each_layer(importer, vectors):
    entries = [
        {"scale": False, "looks_at": "others", "word_bias": True},
        {"residual": {"kind": "add"}, "norm": "before", "norm_epsilon": 0.001},
    ]
    tensors = {"query": SQUARE, "word_bias": np.linspace(-1, 1, 11, dtype=np.float32)}
    tensors |= {f"layers.1.attention_norm.{part}": normal(RNG, D) for part in ("gain", "shift")}
    model = import_weights(importer, vectors, tensors, metadata={"layers": json.dumps(entries)})
    first, second = model.layers
    assert (first.scoring.scale, first.scoring.mask) == (False, "others")
    assert (first.scoring.word_bias, second.scoring.word_bias) == (True, False)
    assert (second.norm, second.residual.kind) == ("before", "add")
    assert second.attention_norm.epsilon == 0.001
    assert np.array_equal(model.word_bias, tensors["word_bias"])


def test_a_word_bias_is_added_to_the_scores_of_its_word(importer, vectors):
    bias = normal(RNG, 11)
    found = arrays(import_weights(importer, vectors, {"query": SQUARE, "word_bias": bias}))
    x = found["static"].astype(np.float64)
    rows = [WORDS.index(word) for word in TEXT.split()]
    scores = x @ SQUARE.astype(np.float64) @ x.T / np.sqrt(D) + bias[rows]
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        found["attention"][0, 0], e / e.sum(axis=1, keepdims=True), rtol=0, atol=1e-5
    )


def test_each_head_multiplies_the_word_bias_by_its_own_factor(importer, vectors):
    tensors = {**ROW, "word_bias": normal(RNG, 11)}
    factors = {"layers.0.word_bias_scale": np.array([2, 0, -1], np.float32)}
    plain, scaled = (
        arrays(import_weights(importer, vectors, {**tensors, **more}, *HEADS))
        for more in ({}, factors)
    )
    bias = tensors["word_bias"][[WORDS.index(word) for word in TEXT.split()]].astype(np.float64)
    for head, factor in enumerate((2, 0, -1)):
        unnormalized = plain["attention"][0, head] * np.exp((factor - 1) * bias)
        right = unnormalized / unnormalized.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(scaled["attention"][0, head], right, rtol=0, atol=1e-5)


def test_without_weights_attention_is_parameter_free(importer, vectors):
    """softmax(X·Xᵀ/√d)·X, and the model stores no weights."""
    done = importer.run(vectors, "--no-weights", "--name", "free")
    assert done.code == 0
    model = read_model(importer.models / "free")
    found = arrays(model)
    x = found["static"].astype(np.float64)
    e = np.exp(x @ x.T / np.sqrt(D))
    a = e / e.sum(axis=1, keepdims=True)
    assert_close(found, a @ x, a[None])
    assert model.word_bias is None
    assert (model.manifest.tensors, model.manifest.training["attention"]) == ({}, "parameter-free")
    assert not (importer.models / "free" / "attention.safetensors").exists()


def test_the_manifest_names_the_attention(importer, vectors):
    described = {}
    for name, options in {
        "closed": [],
        "free": ["--no-weights"],
        "stored": ["--weights", save(importer, {"query": SQUARE})],
    }.items():
        assert importer.run(vectors, "--name", name, *options).code == 0
        training = read_model(importer.models / name).manifest.training
        described[name] = {key: value for key, value in training.items() if key != "file"}
    assert described == {
        "closed": {
            "attention": "closed form",
            "informativeness": "none: the file is not known to be sorted by frequency",
        },
        "free": {"attention": "parameter-free"},
        "stored": {"attention": "stored weights", "convention": "row"},
    }


def test_weights_and_parameter_free_attention_exclude_each_other(importer, vectors):
    given = save(importer, {"query": SQUARE})
    done = importer.run(vectors, "--weights", given, "--no-weights")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == "Error: Give --weights or --no-weights, not both."
    assert not any(importer.models.iterdir())


@pytest.mark.parametrize("option", [("--heads", "2"), ("--convention", "column")])
def test_heads_and_convention_require_weights(importer, vectors, option):
    done = importer.run(vectors, *option)
    assert (done.code, done.out) == (2, "")
    assert "--heads and --convention require --weights" in done.err


def test_weights_of_the_wrong_shape_are_rejected_before_rows_are_parsed(importer, tmp_path):
    broken = tmp_path / "late.txt"  # parsing would reject line 2
    broken.write_text("the 0.5 0.25 1\nof 0.5 x 1\n", "utf-8")
    given = save(importer, {"query": np.ones((5, 2), np.float32)})
    done = importer.run(broken, "--weights", given)
    assert done.code == 1
    assert "query" in done.err
    assert "Line 2" not in done.err

"""`--weights`: projections under their usual names, in both conventions."""

import importlib
import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import polyseme
from polyseme.importing import ImportProblem
from polyseme.importing.weights import read_weights
from tests.conftest import ROOT
from tests.importing import files
from tests.importing.conftest import assert_word_bias
from tests.importing.test_attention import ORDERED, zipf
from tests.operations.calls import ask_one
from tests.tiny import VECTORS, WORDS, normal

RNG = np.random.default_rng(11)
D, H, K, V = 5, 3, 2, 7
ROW = {
    "query": normal(RNG, D, H * K),
    "key": normal(RNG, D, H * K),
    "value": normal(RNG, D, H * V),
    "output": normal(RNG, H * V, D),
}
"""The weights of a layer of three heads, in the row convention: x·W."""
BIASES = {f"{name}_bias": normal(RNG, weight.shape[1]) for name, weight in ROW.items()}
SQUARE = normal(RNG, D, D)
HEADS = ("--heads", H)
LACKING = (
    "The weights have no tensor word_bias. It can only be computed if the words are sorted by"
    " frequency; --sorted declares this."
)
TEXT = "apple bank river money high end bank"


@pytest.fixture
def vectors(importer):
    """The tiny model's words and vectors as a GloVe file."""
    return importer.file(files.rows(WORDS, VECTORS), "tiny.txt")


def save(folder, tensors, metadata=None):
    """Write a safetensors file; `save_file` writes wrong values of non-contiguous arrays."""
    path = folder / "given.safetensors"
    save_file({name: np.ascontiguousarray(t) for name, t in tensors.items()}, path, metadata)
    return path


def read(folder, tensors, metadata=None, heads=None):
    """The weights that are read from a file, for the tiny model."""
    return read_weights(save(folder, tensors, metadata), D, len(WORDS), heads, "row")


def problem(folder, tensors, metadata=None):
    """The sentence that rejects weights."""
    with pytest.raises(ImportProblem) as caught:
        read(folder, tensors, metadata)
    return str(caught.value)


def import_weights(importer, vectors, tensors, *options):
    """Import with weights and return the model."""
    return importer.model(vectors, "--weights", save(importer.place, tensors), *options)


def arrays(model):
    include = ["static", "contextual", "attention"]
    return ask_one(model, TEXT, include=include, case="exact").arrays


def attention(x, weights, heads, biases):
    """Multi-head attention in float64, independent of the engine. [n, d] -> [n, d], [h, n, n]"""
    queries, keys, values = (
        (x @ weights[name] + biases[f"{name}_bias"]).reshape(len(x), heads, -1)
        for name in ("query", "key", "value")
    )
    scores = np.einsum("ihk,jhk->hij", queries, keys) / np.sqrt(queries.shape[2])
    e = np.exp(scores - scores.max(axis=2, keepdims=True))
    a = e / e.sum(axis=2, keepdims=True)
    context = np.einsum("hij,jhv->ihv", a, values).reshape(len(x), -1)
    return context @ weights["output"] + biases["output_bias"], a


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


def test_weights_of_torch_in_the_column_convention_give_what_torch_gives(importer, vectors):
    torch = pytest.importorskip("torch", reason="needs PyTorch to compare with")
    with torch.random.fork_rng():
        torch.manual_seed(3)
        module = torch.nn.MultiheadAttention(D, D, batch_first=True).eval()
        with torch.no_grad():
            module.in_proj_bias.copy_(torch.randn(3 * D))
            module.out_proj.bias.copy_(torch.randn(D))
    tensors = {
        "out_proj.weight": module.out_proj.weight.detach().numpy(),
        "out_proj.bias": module.out_proj.bias.detach().numpy(),
    }
    for parameter, end in ((module.in_proj_weight, "weight"), (module.in_proj_bias, "bias")):
        for name, part in zip("qkv", parameter.detach().chunk(3), strict=True):
            tensors[f"{name}_proj.{end}"] = part.numpy()
    options = ["--convention", "column", "--heads", D]
    found = arrays(import_weights(importer, vectors, tensors, *options))
    x = torch.from_numpy(found["static"])[None]
    with torch.no_grad():
        contextual, weights = module(x, x, x, average_attn_weights=False)
    assert_close(found, contextual[0].numpy(), weights[0].numpy())


def test_transposed_weights_in_the_column_convention_give_the_same_model(importer, vectors):
    tensors = {**ROW, **BIASES, "layers.0.feed_forward.inner": normal(RNG, D, 13)}
    tensors["layers.0.feed_forward.outer"] = normal(RNG, 13, D)
    tensors |= {f"layers.0.{name}": normal(RNG, D, D) for name in ("final", "skip")}
    tensors["layers.0.position_bias"] = normal(RNG, H, 5)
    row = import_weights(importer, vectors, tensors, *HEADS)
    transposed = {n: t.T if t.ndim == 2 and "position" not in n else t for n, t in tensors.items()}
    column = import_weights(importer, vectors, transposed, "--convention", "column", *HEADS)
    assert row.manifest.tensors == column.manifest.tensors
    assert row.manifest.files == column.manifest.files
    assert [m.manifest.training["convention"] for m in (row, column)] == ["row", "column"]


def test_bundled_weights_are_selected_by_their_name(importer):
    name = "word2vec-google-news-300"
    table = normal(RNG, len(WORDS), 300)
    file = importer.file(files.rows(WORDS, table), "wide.txt")
    named = importer.model(file, "--sorted", "--weights", name)
    path = ROOT / f"models/weights/{name}.safetensors"
    by_path = polyseme.from_vectors(table, WORDS, by_frequency=True, weights=path)
    by_name = polyseme.from_vectors(table, WORDS, by_frequency=True, weights=name)
    models = by_path.model, by_name.model, named
    assert len({model.manifest.files["attention.safetensors"].sha256 for model in models}) == 1
    assert importer.run(file, "--weights", "absent").code == 2


NAMES = [
    ("layers.0.{full}.weight", "{full}.bias"),
    ("{full}", "{short}_proj.bias"),
    ("{short}_proj", "W{short}_bias"),
    ("w_{short}", "{upper}_BIAS"),
]


@pytest.mark.parametrize(("weight", "bias"), NAMES)
def test_a_projection_and_its_bias_have_many_names(tmp_path, weight, bias):
    tensors = {}
    for name, tensor in ROW.items():
        forms = {"full": name, "short": name[0], "upper": name.upper()}
        tensors[weight.format(**forms)] = tensor
        tensors[bias.format(**forms)] = BIASES[f"{name}_bias"]
    (layer,) = read(tmp_path, tensors, heads=H).layers
    for name, tensor in ROW.items():
        assert np.array_equal(getattr(layer, name).weight, tensor)
        assert np.array_equal(getattr(layer, name).bias, BIASES[f"{name}_bias"])


def test_the_metadata_may_describe_each_layer(tmp_path):
    entries = [
        {"scale": False, "looks_at": "others", "word_bias": True},
        {"residual": {"kind": "add"}, "norm": "before", "norm_epsilon": 0.001},
    ]
    tensors = {"query": SQUARE, "word_bias": np.linspace(-1, 1, 11, dtype=np.float32)}
    tensors |= {f"layers.1.attention_norm.{part}": normal(RNG, D) for part in ("gain", "shift")}
    weights = read(tmp_path, tensors, {"layers": json.dumps(entries)})
    first, second = weights.layers
    assert (first.scoring.scale, first.scoring.mask) == (False, "others")
    assert (first.scoring.word_bias, second.scoring.word_bias) == (True, False)
    assert (second.norm, second.residual.kind) == ("before", "add")
    assert second.attention_norm.epsilon == 0.001
    assert np.array_equal(weights.word_bias, tensors["word_bias"])


KNOWN = (
    "known are query, key, value and output (of a second layer layers.1.query etc.), aliases such"
    " as q_proj.weight, and the names in models/README.md."
)
NO_FIT = "which does not fit vectors of dimension 5 in the row convention"
WIDE = normal(RNG, 7, 6)
INFINITE = "The weights' tensor query has a value that is not finite as float32."
NORMS = {f"layers.0.attention_norm.{part}": SQUARE[0] for part in ("gain", "shift")}
LLAMA = "model.layers.0.self_attn.q_proj.weight"
INVALID = [
    ({"query": ROW["query"].T}, f"tensor layers.0.query is 6 by 5, {NO_FIT}."),
    ({**ROW, "output": ROW["output"].T}, f"layers.0.output is 5 by 21, {NO_FIT}."),
    ({"key": WIDE}, f"The weights' tensor layers.0.key is 7 by 6, {NO_FIT}."),
    ({"value": SQUARE[0]}, "The weights' tensor layers.0.value is not a matrix."),
    # `tests/models/test_attention.py` has the other shapes that do not fit each other.
    (
        {"query": SQUARE, "query_bias": SQUARE[0, :3]},
        "The weights, layers.0: query_bias has shape [3], expected [5].",
    ),
    (
        {"query": SQUARE, "word_bias": np.zeros(7, np.float32)},
        "The weights' word_bias does not have the shape [11].",
    ),
    (NORMS, "layers.0: attention_norm is present, but the metadata set `norm: none`."),
    ({"Wz": SQUARE}, f"The weights have an unknown tensor Wz; {KNOWN}"),
    ({LLAMA: SQUARE}, f"The weights have an unknown tensor {LLAMA}; {KNOWN}"),
    ({"query\n\x1b[31m" + "y" * 999: SQUARE}, f"unknown tensor query???31m{'y' * 49}; {KNOWN}"),
    (
        {"query": SQUARE, "Wq": SQUARE},
        "The weights have the same tensor under two names, such as query and q_proj.weight.",
    ),
    (
        {"query": SQUARE, "layers.2.query": SQUARE},
        "The weights have a layer 2 but no layer 1; the first layer is 0.",
    ),
    ({"word_bias": np.zeros(11, np.float32)}, "no projection: query, key, value or output."),
    ({"query": np.ones((5, 5), np.int64)}, "has the dtype I64; save it as F32, F16 or F64."),
    ({"query": SQUARE * np.float32("nan")}, INFINITE),
    ({"query": np.full((5, 5), 1e39)}, INFINITE),
]


@pytest.mark.parametrize(("tensors", "sentence"), INVALID)
def test_invalid_weights_are_rejected_in_one_sentence(tmp_path, tensors, sentence):
    message = problem(tmp_path, tensors)
    assert message.startswith("The weights")
    assert message.endswith(sentence)


def test_a_wrong_shape_is_reported_in_the_declared_convention(importer, vectors):
    for tensors, end in ((ROW, "; --convention transposes them."), ({"key": WIDE}, ".")):
        path = save(importer.place, tensors)
        options = ("--weights", path, "--convention", "column", *HEADS)
        sentence = importer.refusal(vectors, *options)
        assert sentence.endswith(f"vectors of dimension 5 in the column convention{end}")


def test_dtypes_that_numpy_lacks_are_rejected_by_their_name(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch alone writes such files")
    path = tmp_path / "given.safetensors"
    written = torch.ones(5, 5).to(torch.bfloat16)
    importlib.import_module("safetensors.torch").save_file({"query": written}, path)
    with pytest.raises(ImportProblem, match="query has the dtype BF16; save it as F32, F16 or"):
        read_weights(path, D, len(WORDS), None, "row")


NO_HEADS = "`heads` in the weights' metadata is not an integer from 1 to 1024."
NO_FORM = "`layers` in the weights' metadata does not have the form of a manifest's `layers`."
METADATA = [
    *(({"heads": heads}, NO_HEADS) for heads in ("0", "three", "1025", "9" * 5000)),
    ({"layers": "scale"}, NO_FORM),
    ({"layers": '[{"scale": true, "speed": 3}]'}, NO_FORM),
    ({"layers": "[{}, {}]"}, "The weights' metadata describe 2 layers, but the tensors have 1."),
]


@pytest.mark.parametrize(("metadata", "sentence"), METADATA)
def test_invalid_metadata_are_rejected_in_one_sentence(tmp_path, metadata, sentence):
    assert problem(tmp_path, {"query": SQUARE}, metadata) == sentence


def test_an_invalid_safetensors_file_is_rejected_in_one_sentence(tmp_path):
    path = save(tmp_path, {"query": SQUARE})
    content = path.read_bytes()
    pickled = b"\x80\x04cos\nsystem\n(S'true'\ntR."
    for damaged in (b"", pickled, content[:20], content[:-4], b"\xff" * 8 + content[8:]):
        path.write_bytes(damaged)
        with pytest.raises(ImportProblem, match="cannot be read as a safetensors file"):
            read_weights(path, D, len(WORDS), None, "row")


WITH_WORD_BIAS = {"layers": '[{"word_bias": true}]'}


def glove(words):
    """A GloVe file of words with random vectors."""
    return files.rows(words, normal(RNG, len(words), D))


def test_a_missing_word_bias_comes_from_ranks_or_counts(importer):
    """For two words p is proportional to 1/3.7 and 1/4.7: 47/84 and 37/84."""
    counts, table, ngrams = [5, 1, 300, 2], normal(RNG, 4, D), normal(RNG, 2, D)
    counted = files.fasttext(files.WORDS, table, ngrams, counts=counts)
    for content, options, frequencies, origin in (
        (glove(("gnu", "emu")), ["--sorted"], [47, 37], "rank in the file"),
        (glove(ORDERED), ["--limit", 800], zipf(800), "rank in the file"),
        (counted, [], counts, "counts in the file"),
    ):
        given = save(importer.place, {"query": SQUARE}, WITH_WORD_BIAS)
        model = importer.model(content, "--weights", given, *options)
        assert_word_bias(model, frequencies)
        assert model.manifest.training["informativeness"] == origin


def test_a_missing_word_bias_is_not_derived_from_an_unsorted_file(importer):
    given = save(importer.place, {"query": SQUARE}, WITH_WORD_BIAS)
    for words, options in ((ORDERED[::-1], ()), (ORDERED, ("--unsorted",))):
        assert importer.refusal(glove(words), "--weights", given, *options) == LACKING


def test_the_option_overrides_the_heads_in_the_metadata(tmp_path):
    metadata = {"heads": str(H)}
    for given, option, heads in ((metadata, None, H), (None, None, 1), (metadata, 1, 1)):
        (layer,) = read(tmp_path, ROW, given, option).layers
        assert layer.heads == heads

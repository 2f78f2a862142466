"""The layers of a model as an ONNX graph, for runtimes such as ONNX Runtime and Triton.

Inputs are the arrays of `SentenceArrays` for B sentences of n tokens: `vectors` [B, n, d], `known`
[B, n], `words` [B, n] and, for a model with a word bias, `word_bias` [B, n]. Outputs are
`contextual` [B, n, d] and `attention` [B, l, h, n, n].
"""

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, DTypeLike
from onnx import helper, numpy_helper

from polyseme.engine.attention import Scoring, key_scale
from polyseme.engine.layers import FeedForward, Layer, LayerNorm, Projection, Residual
from polyseme.models.weights import output_width

OPSET, IR_VERSION = 17, 8


def onnx_graph(layers: Sequence[Layer], d: int, name: str) -> onnx.ModelProto:
    """Return the graph of the layers of a model, whose vectors have d numbers."""
    graph = _Graph()
    n = graph("Squeeze", graph("Shape", "vectors", start=1, end=2), [0])
    x, attention = "vectors", []
    for layer in layers:
        x, weights = _layer(graph, layer, x, n, d)
        attention.append(graph("Unsqueeze", weights, [1]))
    graph("Identity", x, output="contextual")
    graph("Concat", *attention, axis=1, output="attention")
    inputs = [_array("vectors", np.float32, d), _array("known", np.bool_)]
    inputs.append(_array("words", np.int64))
    if any(layer.scoring.word_bias for layer in layers):
        inputs.append(_array("word_bias", np.float32))
    attended = helper.make_tensor_value_info(
        "attention", onnx.TensorProto.FLOAT, ["B", len(layers), layers[0].heads, "n", "n"]
    )
    outputs = [_array("contextual", np.float32, d), attended]
    proto = helper.make_model(
        helper.make_graph(graph.nodes, name, inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="polyseme",
    )
    onnx.checker.check_model(proto, full_check=True)
    return proto


def quantized(proto: onnx.ModelProto) -> bytes:
    """Return a graph whose constant matrices are 8-bit integers (dynamic quantization)."""
    from onnxruntime.quantization import quantize_dynamic

    with TemporaryDirectory() as folder:
        target = Path(folder) / "model.onnx"
        logging.disable(logging.WARNING)  # it suggests steps that change nothing here
        try:
            quantize_dynamic(proto, target)
        finally:
            logging.disable(logging.NOTSET)
        return target.read_bytes()


def _array(name: str, dtype: DTypeLike, *shape: int) -> onnx.ValueInfoProto:
    """Describe an input or output. [B, n, *shape]"""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, ["B", "n", *shape])


class _Graph:
    """The nodes and constants of a graph; a call adds a node and returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def __call__(
        self, operation: str, *inputs: str | ArrayLike, output: str = "", **attributes: Any
    ) -> str:
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        output = output or f"{operation}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, names, [output], **attributes))
        return output

    def constant(self, value: ArrayLike) -> str:
        """Add a constant: float32, or int64 for integers."""
        array = np.asarray(value)
        array = array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name


def _layer(graph: _Graph, layer: Layer, x: str, n: str, d: int) -> tuple[str, str]:
    """Add a layer. [B, n, d] -> [B, n, d] and its weights [B, h, n, n]"""
    before, after = layer.norm == "before", layer.norm == "after"
    start = _norm(graph, layer.attention_norm, x) if before else x
    queries, keys, values = (
        _split_heads(graph, _project(graph, projection, start), layer.heads)
        for projection in (layer.query, layer.key, layer.value)
    )
    known = graph("Cast", "known", to=onnx.TensorProto.FLOAT)
    values = graph("Mul", values, graph("Unsqueeze", known, [1, 3]))
    scores = graph("MatMul", queries, graph("Transpose", keys, perm=[0, 1, 3, 2]))
    if layer.scoring.scale:
        k = output_width(layer.key, d) // layer.heads
        scores = graph("Mul", scores, np.float32(key_scale(k)))
    scores = _biased(graph, layer.scoring, scores, n)
    masked = _masked(graph, layer.scoring, n)
    weights = graph("Softmax", graph("Where", masked, np.float32(-np.inf), scores), axis=-1)
    context = graph("Transpose", graph("MatMul", weights, values), perm=[0, 2, 1, 3])
    attended = _project(graph, layer.output, graph("Reshape", context, [0, 0, -1]))
    x = _residual(graph, layer.residual, x, attended, n, d)
    x = _norm(graph, layer.attention_norm, x) if after else x
    if layer.feed_forward:
        start = _norm(graph, layer.feed_forward_norm, x) if before else x
        x = graph("Add", x, _feed_forward(graph, layer.feed_forward, start))
        x = _norm(graph, layer.feed_forward_norm, x) if after else x
    x = _project(graph, layer.final, x)
    if layer.skip is not None:
        x = graph("Add", x, graph("MatMul", "vectors", layer.skip))
    return x, weights


def _project(graph: _Graph, projection: Projection, x: str) -> str:
    """Add x·W + b. [B, n, in] -> [B, n, out]"""
    if projection.weight is not None:
        x = graph("MatMul", x, projection.weight)
    return x if projection.bias is None else graph("Add", x, projection.bias)


def _split_heads(graph: _Graph, x: str, heads: int) -> str:
    """[B, n, h·k] -> [B, h, n, k]"""
    return graph("Transpose", graph("Reshape", x, [0, 0, heads, -1]), perm=[0, 2, 1, 3])


def _norm(graph: _Graph, norm: LayerNorm | None, x: str) -> str:
    """Add a layer norm, if there is one. [B, n, d] -> [B, n, d]"""
    if norm is None:
        return x
    return graph("LayerNormalization", x, norm.gain, norm.shift, axis=-1, epsilon=norm.epsilon)


def _biased(graph: _Graph, scoring: Scoring, scores: str, n: str) -> str:
    """Add the position bias and the word bias. [B, h, n, n] -> [B, h, n, n]"""
    if scoring.position_bias is not None:
        reach = scoring.position_bias.shape[1] // 2
        distance = graph("Clip", _distances(graph, n), -reach, reach)
        bias = graph("Gather", scoring.position_bias, graph("Add", distance, reach), axis=1)
        scores = graph("Add", scores, bias)
    if scoring.word_bias:
        bias = graph("Unsqueeze", "word_bias", [1, 2])
        if scoring.word_bias_scale is not None:
            bias = graph("Mul", bias, scoring.word_bias_scale[:, None, None])
        scores = graph("Add", scores, bias)
    return scores


def _distances(graph: _Graph, n: str) -> str:
    """Add j − i for each query i and key j. -> [n, n]"""
    positions = graph("Range", 0, n, 1)
    return graph("Sub", graph("Unsqueeze", positions, [0]), graph("Unsqueeze", positions, [1]))


def _masked(graph: _Graph, scoring: Scoring, n: str) -> str:
    """Add which keys are masked, as `masked_keys` does. -> [B, 1, n, n]"""
    own = graph("Equal", _distances(graph, n), 0)
    if scoring.mask == "other-words":
        masked = graph(
            "Equal", graph("Unsqueeze", "words", [1, 3]), graph("Unsqueeze", "words", [1, 2])
        )
    else:
        masked = own if scoring.mask == "others" else graph("And", own, graph("Not", own))
    masked = graph("Or", masked, graph("Unsqueeze", graph("Not", "known"), [1, 2]))
    integers = graph("Cast", masked, to=onnx.TensorProto.INT64)
    alone = graph("Equal", graph("ReduceMin", integers, axes=[-1]), 1)
    return graph("And", masked, graph("Not", graph("And", alone, own)))


def _residual(graph: _Graph, residual: Residual, x: str, output: str, n: str, d: int) -> str:
    """Add the residual connection. Both and the result: [B, n, d]"""
    if residual.kind == "none":
        return output
    if residual.kind == "add":
        return graph("Add", x, output)
    lengths, terms = [], []
    for vectors, share in ((output, 1.0), (x, residual.share)):
        length = graph("ReduceL2", vectors, axes=[-1])
        is_zero = graph("Equal", length, np.float32(0))
        divisor = graph("Where", is_zero, np.float32(1), length)
        terms.append(graph("Mul", graph("Div", vectors, divisor), np.float32(share)))
        lengths.append(length)
    total = graph("Add", *terms)
    if not residual.position_share:
        return total
    present = graph("Cast", graph("Add", *lengths), to=onnx.TensorProto.BOOL)
    position = graph("Mul", _sinusoids(graph, n, d), np.float32(residual.position_share))
    return graph("Where", present, graph("Add", total, position), total)


def _sinusoids(graph: _Graph, n: str, d: int) -> str:
    """Add the unit vectors of `attention.sinusoids`. -> [n, d]"""
    rates = 10_000.0 ** (-2.0 * np.arange((d + 1) // 2) / d)
    positions = graph("Cast", graph("Range", 0, n, 1), to=onnx.TensorProto.FLOAT)
    angles = graph("Mul", graph("Unsqueeze", positions, [1]), rates)
    parts = [graph("Unsqueeze", graph(name, angles), [2]) for name in ("Sin", "Cos")]
    table = graph("Reshape", graph("Concat", *parts, axis=2), [0, -1])
    table = graph("Slice", table, [0], [d], [1])
    return graph("Div", table, graph("ReduceL2", table, axes=[-1]))


def _feed_forward(graph: _Graph, network: FeedForward, x: str) -> str:
    """Add activation(x·W₁ + b₁)·W₂ + b₂. [B, n, d] -> [B, n, d]"""
    z = _project(graph, network.inner, x)
    if network.activation == "relu":
        return _project(graph, network.outer, graph("Relu", z))
    cube = graph("Mul", graph("Mul", z, z), z)
    inner = graph("Add", z, graph("Mul", cube, np.float32(0.044715)))
    tanh = graph("Tanh", graph("Mul", inner, np.float32(math.sqrt(2 / math.pi))))
    gate = graph("Mul", graph("Add", tanh, np.float32(1)), np.float32(0.5))
    return _project(graph, network.outer, graph("Mul", z, gate))

"""A second implementation of a layer, in float64 and from the formulas.

It calls nothing of the engine and only reads the numbers of its dataclasses.
"""

import math

import numpy as np

FLOAT32_TOLERANCE = 1e-5
"""The allowed difference of the float32 engine, relative to the largest entry."""
FLOAT64_TOLERANCE = 1e-12
"""The allowed difference of the float64 trace, relative to the largest entry."""


def assert_close(actual, expected, tolerance, label=""):
    """Compare entries; allow `tolerance` times the largest expected magnitude, or 1 if less."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert actual.shape == expected.shape, f"{label}: {actual.shape} is not {expected.shape}"
    if not expected.size:
        return
    allowed = tolerance * max(1.0, float(np.abs(expected).max()))
    difference = float(np.abs(actual - expected).max())
    assert difference <= allowed, f"{label}: off by {difference:.3g}, allowed are {allowed:.3g}"


def run_stack(sentence, layers):
    """The intermediate arrays of each layer by the names of the trace, over a sentence."""
    x = wide(sentence.vectors)
    results = []
    for layer in layers:
        results.append(run_layer(x, sentence, layer))
        x = results[-1]["contextual"]
    return results


def wide(array):
    return None if array is None else np.array(array, np.float64)


def run_layer(x, sentence, layer):
    """Run one layer. [n, d]"""
    arrays = {"embeddings": x}
    start = x
    if layer.norm == "before" and layer.attention_norm is not None:
        start = arrays["attention_norm"] = layer_norm(x, layer.attention_norm)
    attention(start, sentence, layer, arrays)
    output = arrays["output"] = project(np.concatenate(arrays["context"], axis=1), layer.output)
    x = arrays["residual"] = combine(x, output, layer.residual)
    if layer.norm == "after" and layer.attention_norm is not None:
        x = arrays["attention_norm"] = layer_norm(x, layer.attention_norm)
    if layer.feed_forward is not None:
        x = feed_forward_block(x, layer, arrays)
    parts = (layer.final.weight, layer.final.bias, layer.skip)
    if any(part is not None for part in parts):
        arrays["layer_output"] = x
        x = project(x, layer.final)
    if layer.skip is not None:
        x = x + np.einsum("id,de->ie", wide(sentence.vectors), wide(layer.skip))
    return arrays | {"contextual": x}


def attention(x, sentence, layer, arrays):
    """Add the steps from queries to context to `arrays`, each with a leading head axis."""
    scoring = layer.scoring
    # Columns 0..k-1 belong to the first head, the next k to the second.
    queries, keys, values = (
        np.stack(np.split(project(x, projection), layer.heads, axis=1))
        for projection in (layer.query, layer.key, layer.value)
    )
    values[:, ~sentence.known] = 0
    scores = np.einsum("aik,ajk->aij", queries, keys)
    arrays |= {"queries": queries, "keys": keys, "values": values, "scores": scores}
    total = scores
    if scoring.scale:
        total = arrays["scaled_scores"] = scores * queries.shape[2] ** -0.5
    if scoring.position_bias is not None:
        table = wide(scoring.position_bias)
        reach = table.shape[1] // 2
        total = total + table[:, np.clip(distances(len(x)), -reach, reach) + reach]
    if scoring.word_bias and sentence.word_bias is not None:
        factors = scoring.word_bias_scale
        factors = np.ones(layer.heads) if factors is None else wide(factors)
        total = total + np.einsum("a,j->aj", factors, wide(sentence.word_bias))[:, None]
    total = np.where(visible_keys(sentence, scoring.mask), total, -np.inf)
    exponentials = np.exp(total - total.max(axis=-1, keepdims=True, initial=-np.inf))
    weights = arrays["weights"] = exponentials / exponentials.sum(axis=-1, keepdims=True)
    arrays["weighted_values"] = np.einsum("aij,ajv->aijv", weights, values)
    arrays["context"] = np.einsum("aij,ajv->aiv", weights, values)


def project(x, projection):
    y = x.copy()
    if projection.weight is not None:
        y = np.einsum("ni,io->no", x, wide(projection.weight))
    return y if projection.bias is None else y + wide(projection.bias)


def distances(n):
    """j − i for each query i and key j."""
    return -np.subtract.outer(np.arange(n), np.arange(n))


def visible_keys(sentence, mask):
    """Whether query i attends to key j. -> [n, n]"""
    own = distances(len(sentence.known)) == 0
    same = np.equal.outer(sentence.words, sentence.words)
    visible = (
        sentence.known & ~{"all": np.zeros_like(own), "others": own, "other-words": same}[mask]
    )
    return visible | (own & ~visible.any(axis=1, keepdims=True))


def combine(x, output, residual):
    if residual.kind == "none":
        return output
    if residual.kind == "add":
        return x + output
    content = of_length_one(output) + residual.share * of_length_one(x)
    positions = residual.position_share * position_vectors(*x.shape)
    return content + positions * content.any(axis=1, keepdims=True)


def contributions(arrays, layer):
    """The share of each token, the residual, the position and the output bias in the sum c.

    The parts of c_i are written out as vectors [n + 3, d], and the share of a part w is w·c / c·c.
    """
    residual, mixed, x = layer.residual, arrays["residual"], arrays["embeddings"]
    n, d = x.shape
    parts = np.zeros((n, n + 3, d))
    weighted = np.concatenate(arrays["weighted_values"], axis=-1)
    parts[:, :n] = weighted if layer.output.weight is None else weighted @ wide(layer.output.weight)
    if residual.kind != "none":
        parts[:, n] = x if residual.kind == "add" else residual.share * of_length_one(x)
    if layer.output.bias is not None:
        parts[:, n + 2] = wide(layer.output.bias)
    if residual.kind == "unit":
        lengths = np.linalg.norm(arrays["output"], axis=1)[:, None, None]
        parts[:, [*range(n), n + 2]] /= np.where(lengths > 0, lengths, 1)
        parts[:, n + 1] = residual.position_share * position_vectors(n, d)
    squares = np.einsum("id,id->i", mixed, mixed)[:, None]
    return np.einsum("ipd,id->ip", parts, mixed) / np.where(squares > 0, squares, 1)


def of_length_one(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def position_vectors(n, d):
    """sin and cos of position/10000^(2i/d) in turn (Vaswani et al. 2017, §3.5), of length 1."""
    columns = np.arange(d)
    angles = np.outer(np.arange(n), 10_000.0 ** (-2 * (columns // 2) / d))
    return of_length_one(np.where(columns % 2, np.cos(angles), np.sin(angles)))


def layer_norm(x, norm):
    centered = x - x.mean(axis=1, keepdims=True)
    variance = (centered**2).sum(axis=1, keepdims=True) / x.shape[1]
    return centered / np.sqrt(variance + norm.epsilon) * wide(norm.gain) + wide(norm.shift)


def feed_forward_block(x, layer, arrays):
    start = x
    norm = layer.feed_forward_norm
    if layer.norm == "before" and norm is not None:
        start = arrays["feed_forward_norm"] = layer_norm(x, norm)
    inner = project(start, layer.feed_forward.inner)
    active = inner * (inner > 0) if layer.feed_forward.activation == "relu" else gelu(inner)
    change = arrays["feed_forward"] = project(active, layer.feed_forward.outer)
    x = x + change
    if layer.norm == "after" and norm is not None:
        x = arrays["feed_forward_norm"] = layer_norm(x, norm)
    return x


def gelu(v):
    """0.5·v·(1 + tanh(√(2/π)·(v + 0.044715·v³))), Hendrycks & Gimpel 2016."""
    return 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))

"""A second implementation of a layer, in float64 and from the formulas.

It calls nothing of the engine and only reads the numbers of its dataclasses. Loops replace array
expressions where they are clearer.
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
    heads = arrays["context"]
    joined = np.concatenate([heads[a] for a in range(layer.heads)], axis=1)
    output = arrays["output"] = project(joined, layer.output)
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
    queries = heads_of(project(x, layer.query), layer.heads)
    keys = heads_of(project(x, layer.key), layer.heads)
    values = heads_of(project(x, layer.value), layer.heads)
    for i, known in enumerate(sentence.known):
        if not known:
            values[:, i, :] = 0.0
    scores = np.einsum("aik,ajk->aij", queries, keys)
    arrays |= {"queries": queries, "keys": keys, "values": values, "scores": scores}
    total = scores
    if layer.scoring.scale:
        total = arrays["scaled_scores"] = scores * queries.shape[2] ** -0.5
    total = total + bias_table(sentence, layer.scoring, layer.heads)
    weights = arrays["weights"] = masked_softmax(total, sentence, layer.scoring.mask)
    arrays["weighted_values"] = np.einsum("aij,ajv->aijv", weights, values)
    arrays["context"] = np.einsum("aij,ajv->aiv", weights, values)


def project(x, projection):
    y = x.copy()
    if projection.weight is not None:
        y = np.einsum("ni,io->no", x, wide(projection.weight))
    if projection.bias is not None:
        y = y + wide(projection.bias)[None, :]
    return y


def heads_of(x, heads):
    """Columns 0..k-1 belong to the first head, the next k to the second. [n, h·k] -> [h, n, k]"""
    return np.stack(np.split(x, heads, axis=1))


def bias_table(sentence, scoring, heads):
    """Position bias and word bias of every pair. -> [h, n, n]"""
    n = len(sentence.vectors)
    bias = np.zeros((heads, n, n))
    if scoring.position_bias is not None:
        table = wide(scoring.position_bias)
        reach = (table.shape[1] - 1) // 2
        for i in range(n):
            columns = [max(-reach, min(reach, j - i)) + reach for j in range(n)]
            bias[:, i, :] += table[:, columns]
    if scoring.word_bias and sentence.word_bias is not None:
        factors = scoring.word_bias_scale
        for a in range(heads):
            factor = 1.0 if factors is None else float(factors[a])
            for j in range(n):
                bias[a, :, j] += factor * float(sentence.word_bias[j])
    return bias


def attended_positions(sentence, mask, i):
    """The positions that token i attends to."""
    known, words = sentence.known.tolist(), sentence.words.tolist()
    positions = []
    for j in range(len(known)):
        masked = {"all": False, "others": j == i, "other-words": words[j] == words[i]}[mask]
        if known[j] and not masked:
            positions.append(j)
    return positions or [i]


def masked_softmax(scores, sentence, mask):
    weights = np.zeros(scores.shape)
    for i in range(scores.shape[1]):
        positions = attended_positions(sentence, mask, i)
        for a in range(scores.shape[0]):
            row = scores[a, i, positions].tolist()
            peak = max(row)
            exponentials = [math.exp(s - peak) for s in row]
            weights[a, i, positions] = np.array(exponentials) / math.fsum(exponentials)
    return weights


def combine(x, output, residual):
    if residual.kind == "none":
        return output
    if residual.kind == "add":
        return x + output
    n, d = x.shape
    result = np.zeros((n, d))
    for i in range(n):
        result[i] = of_length_one(output[i]) + residual.share * of_length_one(x[i])
        if np.any(result[i] != 0):
            result[i] += residual.position_share * position_vector(i, d)
    return result


def contributions(arrays, layer):
    """The share of each token, the residual, the position and the output bias in the sum c.

    The parts of c_i are written out as vectors [n + 3, d], and the share of a part w is w·c / c·c.
    """
    residual, mixed, x = layer.residual, arrays["residual"], arrays["embeddings"]
    n, d = x.shape
    weight = np.eye(arrays["weighted_values"].shape[3] * layer.heads)
    if layer.output.weight is not None:
        weight = wide(layer.output.weight)
    shares = np.zeros((n, n + 3))
    for i in range(n):
        parts = np.zeros((n + 3, d))
        for j in range(n):
            heads = [arrays["weighted_values"][a, i, j] for a in range(layer.heads)]
            parts[j] = np.concatenate(heads) @ weight
        parts[n] = {"none": 0 * x[i], "add": x[i]}.get(
            residual.kind, residual.share * of_length_one(x[i])
        )
        if layer.output.bias is not None:
            parts[n + 2] = wide(layer.output.bias)
        if residual.kind == "unit":
            length = np.linalg.norm(arrays["output"][i])
            parts[[*range(n), n + 2]] /= length or 1
            parts[n + 1] = residual.position_share * position_vector(i, d)
        square = mixed[i] @ mixed[i]
        if square:
            shares[i] = parts @ mixed[i] / square
    return shares


def of_length_one(row):
    length = math.sqrt(math.fsum(row * row))
    return row / length if length > 0 else row


def position_vector(position, d):
    """sin and cos of position/10000^(2i/d) in turn (Vaswani et al. 2017, §3.5), of length 1."""
    angles = [position / 10_000 ** (2 * (column // 2) / d) for column in range(d)]
    waves = [(math.sin, math.cos)[column % 2](angle) for column, angle in enumerate(angles)]
    return of_length_one(np.array(waves))


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

"""The whole layer a second time, in float64, from the formulas and with plain loops.

Nothing of the engine is called here; its dataclasses are read as containers of numbers. Loops
take the place of array expressions where they are clearer.
"""

import math
from dataclasses import dataclass

import numpy as np

FLOAT32_TOLERANCE = 1e-5
"""How far the float32 engine may be from the reference, as a share of the largest entry."""
FLOAT64_TOLERANCE = 1e-12
"""The same for the float64 trace."""


def assert_close(actual, expected, tolerance, label=""):
    """Every entry within `tolerance` times the largest expected magnitude (at least 1)."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert actual.shape == expected.shape, f"{label}: {actual.shape} is not {expected.shape}"
    if not expected.size:
        return
    allowed = tolerance * max(1.0, float(np.abs(expected).max()))
    off = float(np.abs(actual - expected).max())
    assert off <= allowed, f"{label}: off by {off:.3g}, allowed are {allowed:.3g}"


@dataclass
class Steps:
    """The intermediate arrays of one layer."""

    arrays: dict
    contextual: np.ndarray


def run_stack(sentence, layers):
    """Run every layer over a sentence; returns one Steps for each layer."""
    x = wide(sentence.vectors)
    done = []
    for layer in layers:
        steps = run_layer(x, sentence, layer)
        done.append(steps)
        x = steps.contextual
    return done


def wide(array):
    return None if array is None else np.array(array, np.float64)


def run_layer(x, sentence, layer):
    """One layer, [n, d] -> [n, d], with its intermediates by the names of the trace."""
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
    return Steps(arrays, x)


def attention(x, sentence, layer, arrays):
    """Fill in queries, keys, values, scores, weights and context, a leading head axis on each."""
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
    n, columns = x.shape
    k = columns // heads
    assert k * heads == columns
    cut = np.zeros((heads, n, k))
    for a in range(heads):
        cut[a] = x[:, a * k : (a + 1) * k]
    return cut


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


def attends(sentence, mask, i):
    """The positions that token i attends to."""
    known, words = sentence.known.tolist(), sentence.words.tolist()
    seen = []
    for j in range(len(known)):
        barred = {"all": False, "others": j == i, "other-words": words[j] == words[i]}[mask]
        if known[j] and not barred:
            seen.append(j)
    return seen or [i]


def masked_softmax(scores, sentence, mask):
    weights = np.zeros(scores.shape)
    for i in range(scores.shape[1]):
        seen = attends(sentence, mask, i)
        for a in range(scores.shape[0]):
            row = scores[a, i, seen].tolist()
            peak = max(row)
            raised = [math.exp(s - peak) for s in row]
            weights[a, i, seen] = np.array(raised) / math.fsum(raised)
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
            result[i] += residual.position_share * np.array(place_vector(i, d))
    return result


def of_length_one(row):
    length = math.sqrt(math.fsum(float(v) * float(v) for v in row))
    return row / length if length > 0 else row


def place_vector(place, d):
    """Vaswani et al. 2017, §3.5: sin and cos of place/10000^(2i/d) in turn; then of length 1."""
    vector = []
    for column in range(d):
        angle = place / 10_000 ** (2 * (column // 2) / d)
        vector.append(math.sin(angle) if column % 2 == 0 else math.cos(angle))
    return of_length_one(np.array(vector))


def layer_norm(x, norm):
    result = np.zeros(x.shape)
    for i, row in enumerate(x):
        mean = math.fsum(row) / len(row)
        variance = math.fsum((v - mean) ** 2 for v in row) / len(row)
        result[i] = (row - mean) / math.sqrt(variance + norm.epsilon)
    return result * wide(norm.gain) + wide(norm.shift)


def feed_forward_block(x, layer, arrays):
    start = x
    norm = layer.feed_forward_norm
    if layer.norm == "before" and norm is not None:
        start = arrays["feed_forward_norm"] = layer_norm(x, norm)
    activation = {"relu": relu, "gelu": gelu}[layer.feed_forward.activation]
    inner = project(start, layer.feed_forward.inner)
    active = np.array([[activation(v) for v in row] for row in inner]).reshape(inner.shape)
    change = arrays["feed_forward"] = project(active, layer.feed_forward.outer)
    x = x + change
    if layer.norm == "after" and norm is not None:
        x = arrays["feed_forward_norm"] = layer_norm(x, norm)
    return x


def relu(v):
    return v if v > 0 else 0.0


def gelu(v):
    """0.5·v·(1 + tanh(√(2/π)·(v + 0.044715·v³))), Hendrycks & Gimpel 2016."""
    return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))

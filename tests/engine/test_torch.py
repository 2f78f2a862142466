"""The engine and PyTorch give the same numbers. PyTorch's weights are [out, in]."""

import numpy as np
import pytest

from polyseme.engine.attention import Scoring, attend, key_scale
from polyseme.engine.layers import (
    FeedForward,
    Layer,
    LayerNorm,
    Projection,
    Residual,
    contextualize,
)
from tests.engine.cases import sentence
from tests.engine.reference import FLOAT32_TOLERANCE, assert_close

torch = pytest.importorskip("torch", reason="needs PyTorch")


@pytest.fixture(autouse=True)
def seed():
    with torch.random.fork_rng():
        torch.manual_seed(20)
        yield


def array(tensor):
    return tensor.detach().numpy().copy()


def assert_agrees(actual, tensor):
    assert actual.dtype == np.float32
    assert_close(actual, array(tensor), FLOAT32_TOLERANCE)


def projection(weight, bias):
    return Projection(array(weight).T, None if bias is None else array(bias))


def linear(module):
    return projection(module.weight, module.bias)


def from_norm(norm):
    return LayerNorm(array(norm.weight), array(norm.bias), norm.eps)


def randomize(module):
    """Make every parameter random: norms of ones and biases of zeros would hide mistakes."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) / parameter.shape[-1] ** 0.5)
    return module.eval()


def from_attention(attention, **parts):
    """A Layer with the weights of a torch.nn.MultiheadAttention."""
    weights, bias = attention.in_proj_weight.chunk(3), attention.in_proj_bias
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    query, key, value = map(projection, weights, biases)
    output = linear(attention.out_proj)
    return Layer(attention.num_heads, query, key, value, output, **parts)


def test_scaled_dot_product_attention_with_a_bias_by_distance():
    h, n, k, reach = 2, 13, 5, 3
    q, key, value = (torch.randn(h, n, k) for _ in range(3))
    table = torch.randn(h, 2 * reach + 1)
    distance = torch.arange(n)[None, :] - torch.arange(n)[:, None]
    mask = table[:, distance.clamp(-reach, reach) + reach]
    expected = torch.nn.functional.scaled_dot_product_attention(q, key, value, attn_mask=mask)
    scaled = array(q) * np.float32(key_scale(k))
    scoring = Scoring(position_bias=array(table))
    context, _ = attend(scaled, array(key), array(value), sentence(np.zeros((n, 1))), scoring)
    assert_agrees(context.reshape(n, h, -1).transpose(1, 0, 2), expected)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("d", "heads", "n"), [(7, 1, 5), (15, 3, 11), (10, 5, 2), (6, 2, 1)])
def test_multihead_attention(d, heads, n, masked, bias):
    """The value of an unknown token has no effect, even if the projection has a bias."""
    attention = randomize(torch.nn.MultiheadAttention(d, heads, bias=bias, batch_first=True))
    known = (np.arange(n) % 3 != 1) | (not masked)
    x = torch.randn(n, d) * torch.from_numpy(known)[:, None]
    # `key_padding_mask` does the same, but its first use imports much of PyTorch.
    mask = torch.from_numpy(~known).expand(n, n)
    expected, weights = attention(x, x, x, attn_mask=mask, average_attn_weights=False)
    layer = from_attention(attention)
    result = contextualize(sentence(array(x), known), [layer], ["weights"])
    assert_agrees(result.contextual, expected)
    assert_agrees(result.records[0]["weights"], weights)


def tanh_gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize(
    ("name", "activation"), [("relu", torch.nn.functional.relu), ("gelu", tanh_gelu)]
)
@pytest.mark.parametrize("layers", [1, 2])
def test_transformer_encoder_layer(norm_first, name, activation, layers):
    d, n, width = 14, 11, 17
    modules = [
        randomize(
            torch.nn.TransformerEncoderLayer(
                d, 2, width, 0.0, activation, norm_first=norm_first, batch_first=True
            )
        )
        for _ in range(layers)
    ]
    x = torch.randn(n, d)
    stack = [
        from_attention(
            module.self_attn,
            residual=Residual("add"),
            norm="before" if norm_first else "after",
            attention_norm=from_norm(module.norm1),
            feed_forward_norm=from_norm(module.norm2),
            feed_forward=FeedForward(*map(linear, (module.linear1, module.linear2)), name),
        )
        for module in modules
    ]
    result = contextualize(sentence(array(x)), stack)
    for module in modules:
        x = module(x[None])[0]
    assert_agrees(result.contextual, x)

"""BertViz draws the attention that was computed."""

import json

import numpy as np
import pytest

from polyseme.integrations.bertviz import bertviz_attention
from tests.environments import run_in

L, H, WORDS = 2, 3, ["river", "bank", "river", "money", "apple"]


@pytest.mark.parametrize(("heads", "shown"), [("all", H), ("mean", 1)])
def test_each_layer_is_a_batch_of_one_with_its_heads(deep, heads, shown):
    (sentence,) = deep.encode([WORDS], heads=heads, dtype="float16")
    layers, tokens = bertviz_attention(sentence)
    assert tokens == WORDS
    assert [layer.shape for layer in layers] == [(1, shown, 5, 5)] * L
    assert np.array_equal(np.concatenate(layers), sentence.attention.reshape(L, shown, 5, 5))
    # Writable copies, as PyTorch takes them.
    assert all(layer.dtype == np.float32 and layer.flags.writeable for layer in layers)
    layers[0][:] = 7
    assert sentence.attention.max() <= 1


def test_a_sentence_without_attention_is_rejected(deep):
    (sentence,) = deep.encode([WORDS], include=["static"])
    with pytest.raises(ValueError, match="encode it with `include="):
        bertviz_attention(sentence)


@pytest.mark.clients
def test_the_head_view_draws_the_weights_from_the_query_token(deep, tmp_path):
    (sentence,) = deep.encode([WORDS])
    layers, tokens = bertviz_attention(sentence)
    numbered = {f"layer{number}": layer for number, layer in enumerate(layers)}
    np.savez(tmp_path / "attention.npz", tokens=tokens, **numbered)
    drawn = json.loads(run_in("bertviz", "bertviz_heads.py", str(tmp_path / "attention.npz")))
    (view,) = drawn["attention"]
    assert view["left_text"] == view["right_text"] == WORDS
    assert np.array_equal(np.array(view["attn"], np.float32), sentence.attention)
    # Query tokens are on the left: the weights of each sum to 1.
    assert np.array(view["attn"]).sum(axis=-1) == pytest.approx(np.ones((L, H, 5)), abs=1e-6)

"""Attention in BertViz's format."""

import numpy as np

from polyseme.client.results import Array, Sentence

_PER_HEAD = 4
"""Number of axes of attention that is not averaged over heads."""


def bertviz_attention(sentence: Sentence) -> tuple[list[Array], list[str]]:
    """Return the attention of each layer, and the tokens. [L, h, n, n] -> L of [1, h, n, n]

    The mean of the heads counts as one head. BertViz takes PyTorch tensors:
    `head_view([torch.from_numpy(layer) for layer in attention], tokens)`. Raises ValueError if the
    sentence has no attention.
    """
    if "attention" not in sentence.arrays:
        raise ValueError('The sentence has no attention: encode it with `include=["attention"]`.')
    attention = np.asarray(sentence.attention)
    per_head = attention if attention.ndim == _PER_HEAD else attention[:, None]
    # Copies, because torch.from_numpy warns about read-only arrays.
    return [layer[None].astype(np.float32) for layer in per_head], sentence.words

"""Attention as BertViz draws it."""

import numpy as np

from polyseme.client.vectors import Array, Sentence

_PER_HEAD = 4


def bertviz_attention(sentence: Sentence) -> tuple[list[Array], list[str]]:
    """The attention of each layer and the tokens, for BertViz. [L, h, n, n] -> L of [1, h, n, n]

    A mean of the heads counts as one head. BertViz wants tensors of PyTorch:
    `head_view([torch.from_numpy(layer) for layer in attention], tokens)`. Raises ValueError where
    the sentence came without attention.
    """
    if sentence.attention is None:
        raise ValueError('The sentence has no attention: encode it with `include=["attention"]`.')
    attention = np.asarray(sentence.attention)
    per_head = attention if attention.ndim == _PER_HEAD else attention[:, None]
    # A copy: PyTorch wants numbers that it could write to.
    return [layer[None].astype(np.float32) for layer in per_head], sentence.words

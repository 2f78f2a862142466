"""The supervised contrastive loss (Khosla et al. 2020, equation 2) within groups."""

import torch
from torch import Tensor

from polyseme.training.network import unit


def contrastive(vectors: Tensor, groups: Tensor, labels: Tensor, temperature: Tensor) -> Tensor:
    """How badly occurrences of one label stand together within their group. [B, d], [B], [B] -> []

    For each occurrence i that shares its label with others, P(i), in its group A(i) ∪ {i}:
    −1/|P(i)| Σ_{p ∈ P(i)} log( exp(c_i·c_p/τ) / Σ_{a ∈ A(i)} exp(c_i·c_a/τ) ), c being unit
    vectors; the mean over those occurrences, 0 where there are none. No two groups see each other.
    """
    c = unit(vectors)
    scores = c @ c.T / temperature
    others = (groups[:, None] == groups) & ~torch.eye(len(groups), dtype=torch.bool)
    same = others & (labels[:, None] == labels)
    counts = same.sum(dim=1)
    rows = counts > 0
    if not rows.any():
        return scores.sum() * 0
    hidden = scores.masked_fill(~others, -torch.inf)[rows]
    totals = torch.logsumexp(hidden, dim=1)
    means = (scores[rows] * same[rows]).sum(dim=1) / counts[rows]
    return (totals - means).mean()

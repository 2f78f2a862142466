"""Whether PyTorch and the engine compute the same; nothing is written of a network that fails."""

import numpy as np
import torch

from polyseme.engine.attention import Sentence
from polyseme.engine.layers import Layer, contextualize
from polyseme.training.network import Batch, Network
from polyseme.training.refusal import TrainingError

TOLERANCE = 1e-6
"""Of the largest number, in float64, where nothing but a difference of formulas is as large."""


def disagreement(network: Network, layers: list[Layer], batch: Batch) -> float:
    """How far the two are apart, beside the largest number, on every row of a batch's sentences."""
    wide = _widened(batch)
    doubled = {name: tensor.detach().double() for name, tensor in network.tensors.items()}
    network = Network(doubled, network.entries, network.heads, network.d)
    with torch.no_grad():
        rows, targets = network.rows(wide).numpy(), network.targets(wide).numpy()
    worst = 0.0
    for number, sentence in enumerate(_sentences(wide)):
        expected = contextualize(sentence, [one.astype(np.float64) for one in layers]).contextual
        place = int(batch.targets[number])
        largest = max(1.0, float(np.abs(expected).max(initial=0)))
        found = rows[number, : len(expected)]
        for difference in (found - expected, targets[number] - expected[place]):
            worst = max(worst, float(np.abs(difference).max(initial=0)) / largest)
    return worst


def require_agreement(network: Network, batch: Batch) -> list[Layer]:
    """The layers of a network; raise TrainingError where they do not compute the same."""
    layers = network.to_layers()
    if not all(torch.isfinite(tensor).all() for tensor in network.tensors.values()):
        raise TrainingError("A weight is no longer a finite number: give a smaller learning rate.")
    found = disagreement(network, layers, batch)
    if not found <= TOLERANCE:
        raise TrainingError(
            f"PyTorch and the engine differ by {found:.1e} on the same weights, so that nothing is"
            " written; please report it."
        )
    return layers


def _widened(batch: Batch) -> Batch:
    bias = batch.word_bias
    return Batch(
        batch.vectors.double(),
        batch.known,
        batch.words,
        None if bias is None else bias.double(),
        batch.targets,
        batch.rows,
    )


def _sentences(batch: Batch) -> list[Sentence]:
    """The sentences of a batch as the engine sees them, with the unknown tokens at their end."""
    return [
        Sentence(
            batch.vectors[number].numpy(),
            batch.known[number].numpy(),
            batch.words[number].numpy(),
            None if batch.word_bias is None else batch.word_bias[number].numpy(),
        )
        for number in range(len(batch.targets))
    ]

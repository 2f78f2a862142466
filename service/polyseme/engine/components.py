"""Principal components: the flat picture that keeps most of how far vectors lie apart."""

import numpy as np

from polyseme.engine.arrays import Floats


def principal_components(points: Floats, count: int = 2) -> tuple[Floats, Floats]:
    """Coordinates along the first components, and the share of the variance of each.

    [m, d] -> [m, count], [count]

    By the singular values of the centred points (Jolliffe 2002, Principal Component Analysis,
    3.5). A component's sign is free: the coordinate that is largest in amount is made positive,
    so that the picture is the same each time. Components that the points do not have are 0.
    """
    centred = points - points.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    found = min(count, len(sizes))
    coordinates = np.zeros((len(points), count), points.dtype)
    coordinates[:, :found] = left[:, :found] * sizes[:found]
    largest = np.abs(coordinates).argmax(axis=0)
    coordinates *= np.where(coordinates[largest, np.arange(count)] < 0, -1, 1)
    shares = np.zeros(count, points.dtype)
    if total := float((sizes * sizes).sum()):
        shares[:found] = sizes[:found] ** 2 / total
    return coordinates, shares

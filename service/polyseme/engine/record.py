"""Keeping chosen intermediates of the arithmetic while it runs."""

from collections.abc import Collection

import numpy as np

from polyseme.engine.arrays import Floats


class Record:
    """The intermediates of one layer that somebody asked for, by their names."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = names
        self.arrays: dict[str, Floats] = {}

    def wants(self, name: str) -> bool:
        """Whether this intermediate is to be kept."""
        return name in self._names

    def keep(self, name: str, array: Floats) -> None:
        """Keep a whole array, if it is wanted."""
        if name in self._names:
            self.arrays[name] = array

    def keep_rows(self, name: str, rows: range, n: int, block: Floats) -> None:
        """Keep a copy of some rows of an array with n rows, if it is wanted. block: [h, b, …]"""
        if name not in self._names:
            return
        if name not in self.arrays:
            self.arrays[name] = np.empty((block.shape[0], n, *block.shape[2:]), block.dtype)
        self.arrays[name][:, rows.start : rows.stop] = block


NOTHING = Record()
"""A record that keeps nothing."""

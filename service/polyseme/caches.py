"""A cache of values computed from strings; all caches of a process share one limit in bytes."""

from collections.abc import Callable
from threading import Lock
from typing import Any, ClassVar, TypeVar
from weakref import ref

_Value = TypeVar("_Value")
_ENTRY = 200
"""Maximum bytes of an entry of a dictionary with its key."""


class Recent(dict[str, _Value]):
    """Values computed from strings; those that are not read for a long time are dropped.

    Once the values that are new in all caches take half of the limit, each cache keeps them as its
    older ones, which become new again when they are read. Threads may share a cache.
    """

    LIMIT: ClassVar = 64 << 20
    """Maximum bytes of the values of all caches."""
    _caches: ClassVar["list[ref[Recent[Any]]]"] = []
    _lock: ClassVar = Lock()
    _size: ClassVar = 0
    """bytes of the new values of all caches"""

    def __init__(
        self,
        compute: Callable[..., _Value],
        *arguments: Any,
        size: Callable[[_Value], int],
        longest: int,
    ) -> None:
        """Create an empty cache of `compute(self, text, *arguments)`.

        `size` returns the maximum bytes of a value. Those of strings with more than `longest`
        characters, which are rare, are not kept.
        """
        super().__init__()
        self._compute, self._arguments = compute, arguments
        self._size_of, self._longest = size, longest
        self._older: dict[str, _Value] = {}
        with Recent._lock:
            Recent._caches.append(ref(self))

    def __missing__(self, text: str) -> _Value:
        if len(text) > self._longest:
            return self._compute(self, text, *self._arguments)
        value = self._older.get(text)
        if value is None:
            value = self._compute(self, text, *self._arguments)
        self[text] = value
        size = _ENTRY + self._size_of(value)
        with Recent._lock:
            Recent._size += size
            if Recent._size > Recent.LIMIT // 2:
                Recent._size = 0
                caches = [(each, cache) for each in Recent._caches if (cache := each()) is not None]
                Recent._caches[:] = [each for each, _ in caches]
                for _, cache in caches:
                    cache.rotate()
        return value

    def rotate(self) -> None:
        """Make the values the older ones, and forget those that were older before."""
        self._older = dict(self)
        self.clear()

"""Caches share one limit in bytes, whatever their number."""

import gc
import weakref
from itertools import count

import pytest

from polyseme.caches import Recent


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """A limit of ten kilobytes, of which other caches of this process use nothing."""
    for name, value in (("LIMIT", 10_000), ("_caches", []), ("_size", 0)):
        monkeypatch.setattr(Recent, name, value)


def cached(compute):
    """A cache of values of a hundred bytes."""
    return Recent(compute, size=lambda _: 100, longest=4)


def repeated(_cache, text):
    return text * 50


def measured(cache):
    """The bytes of all values of a cache with its keys."""
    return 300 * (len(cache) + len(cache._older))


def test_values_are_computed_once_and_long_strings_are_not_kept():
    seen = []
    cache = cached(lambda _, text: seen.append(text) or text.upper())
    texts = ["a", "a", "abcd", "abcde", "abcde"]
    assert [cache[text] for text in texts] == ["A", "A", "ABCD", "ABCDE", "ABCDE"]
    assert seen == ["a", "abcd", "abcde", "abcde"]
    assert set(cache) == {"a", "abcd"}


@pytest.mark.parametrize("number", [1, 2, 7])
def test_all_caches_together_stay_within_the_limit(number: int) -> None:
    caches = [cached(repeated) for _ in range(number)]
    for n in range(600):
        for cache in caches:
            cache[str(n)]
        assert sum(map(measured, caches)) <= 10_000
        assert n < 20 or sum(map(measured, caches)) > 4000


def test_a_cache_that_is_not_used_any_more_is_emptied() -> None:
    idle, busy = cached(repeated), cached(repeated)
    for n in range(20):
        idle[str(n)]
    for n in range(600):
        busy[str(n)]
    assert not measured(idle)


def test_values_that_are_read_often_stay() -> None:
    computed = count()
    cache = cached(lambda _, text: (next(computed), text))
    first = cache["used"]
    for n in range(600):
        cache[str(n)]
        assert cache["used"] is first


def test_a_cache_is_freed_with_its_owner() -> None:
    cache = cached(repeated)
    assert cache["a"] == "a" * 50
    watched = weakref.ref(cache)
    del cache
    gc.collect()
    assert watched() is None

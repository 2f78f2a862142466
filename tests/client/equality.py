"""Comparison of results to the last bit."""

import dataclasses

import numpy as np


def require_same(one, other):
    """Fail if two results differ in a bit, a dtype, a shape or a word."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            require_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, dict):
        assert [*one] == [*other]
        require_same([*one.values()], [*other.values()])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            require_same(a, b)
    else:
        assert one == other

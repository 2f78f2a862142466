"""A small model, in this process and behind a real service with low limits."""

import asyncio
import dataclasses
from contextlib import nullcontext

import numpy as np
import pytest

from polyseme.client import AsyncClient, Client, LocalModel
from polyseme.engine.layers import Residual
from tests.tiny import SUBWORDS, WORDS, full_layer, write_tiny

LIMITS = {"max_sentences": 20, "max_tokens": 60, "max_sentence_tokens": 30}


@pytest.fixture(scope="session")
def models_dir(tmp_path_factory):
    """A folder whose default model has every optional part, and a phrase."""
    folder = tmp_path_factory.mktemp("models")
    layers = [full_layer(1), full_layer(2, norm="after", residual=Residual("unit", 0.5, 0.25))]
    bias = np.random.default_rng(7).standard_normal(len(WORDS)).astype(np.float32)
    words = ["river_bank" if word == "high" else word for word in WORDS]
    write_tiny(folder / "tiny", words=words, layers=layers, word_bias=bias, subwords=SUBWORDS)
    return folder


@pytest.fixture(scope="session")
def local(models_dir):
    """The model in this process."""
    return LocalModel.of("tiny", models_dir)


@pytest.fixture(scope="session")
def url(serve, models_dir):
    """The address of a service with the same model."""
    return str(serve(models_dir=models_dir, model="tiny", **LIMITS).base_url).rstrip("/")


def call(kind, target, method, /, *args, client=None, **kwargs):
    """Call a method of a client of a kind, or of a model; `client` has options of the client."""

    async def run():
        async with AsyncClient(target, **(client or {})) as asynchronous:
            result = getattr(asynchronous, method)(*args, **kwargs)
            return [one async for one in result] if method == "encode_each" else await result

    if kind is AsyncClient:
        return asyncio.run(run())
    blocking = Client(target, **(client or {})) if kind is Client else nullcontext(target)
    with blocking as encoder:
        result = getattr(encoder, method)(*args, **kwargs)
        return list(result) if method == "encode_each" else result


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


both_clients = pytest.mark.parametrize("kind", [Client, AsyncClient])

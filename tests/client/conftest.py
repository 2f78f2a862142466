"""A small model, in this process and behind a real service with low limits."""

import asyncio

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


def call(kind, url, method, /, *args, client=None, **kwargs):
    """Call a method of a client of a kind; `client` has options of the client."""
    if kind is Client:
        with Client(url, **(client or {})) as blocking:
            result = getattr(blocking, method)(*args, **kwargs)
            return list(result) if method == "encode_each" else result

    async def run():
        async with AsyncClient(url, **(client or {})) as asynchronous:
            result = getattr(asynchronous, method)(*args, **kwargs)
            return [one async for one in result] if method == "encode_each" else await result

    return asyncio.run(run())


both_clients = pytest.mark.parametrize("kind", [Client, AsyncClient])

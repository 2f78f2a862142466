"""Vectors and attention for other libraries, one module per library.

Modules that encode texts use a model on this machine or a service (`open_encoder`).
"""

import atexit
import os

from polyseme import client

_encoders: dict[tuple[str | None, str | None, int], client.Encoder] = {}


def open_encoder(model: str | None = None, url: str | None = None) -> client.Encoder:
    """Return the encoder of a model (None: the default model), on this machine or on a service.

    Each process opens an encoder once, so objects that store only `model` and `url` can be copied
    and pickled. The key of a service comes from the environment (docs/client.md). Raises
    PolysemeError if the model cannot be read, ValueError for an invalid URL.
    """
    key = (model, url, os.getpid())  # a forked process must open its own connections
    if key not in _encoders:
        if url is None:
            _encoders[key] = client.LocalModel.of(model)
        else:
            _encoders[key] = client.Client(url, model=model)
    return _encoders[key]


def forget() -> None:
    """Close the open encoders. The next use reads the model and the environment again."""
    while _encoders:
        (_, _, process), encoder = _encoders.popitem()
        close = getattr(encoder, "close", None)
        if close and process == os.getpid():
            close()


atexit.register(forget)

"""Where vectors come from: a model of this machine, or a service somewhere else."""

import atexit
import os

from polyseme.client.vectors import Encoder

_opened: dict[tuple[str | None, str | None, int], Encoder] = {}


def encoder_of(model: str | None = None, url: str | None = None) -> Encoder:
    """The encoder of a model's name, None for the default one, and of a service where there is one.

    It is opened once in each process, so that what names it can be copied, pickled and sent to
    other processes without it. The key of a service comes from the environment (docs/client.md).
    Raises PolysemeError where the model cannot be read, ValueError for a URL that is none.
    """
    # A connection that another process has opened is not to be shared with it.
    source = (model, url, os.getpid())
    if source not in _opened:
        _opened[source] = _open(model, url)
    return _opened[source]


def forget() -> None:
    """Close what was opened, so that models and the environment are read anew when next needed."""
    while _opened:
        (_, _, process), encoder = _opened.popitem()
        close = getattr(encoder, "close", None)
        if close and process == os.getpid():
            close()


atexit.register(forget)


def _open(model: str | None, url: str | None) -> Encoder:
    if url is None:
        from polyseme.client.local import LocalModel  # noqa: PLC0415 - a client needs no model

        return LocalModel.of(model)
    from polyseme.client.remote import Client  # noqa: PLC0415 - a model here needs no client

    return Client(url, model=model)

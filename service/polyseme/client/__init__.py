"""One interface to a model in this process (`LocalModel`) and to a service (`Client`)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polyseme.client.encoder import Encoder
from polyseme.client.local import LocalModel
from polyseme.client.results import (
    AnswerError,
    ClientError,
    EncodedToken,
    NoSuchTokenError,
    NotRequestedError,
    Sentence,
    UnreachableError,
)
from polyseme.operations.compare import Occurrence
from polyseme.operations.encode import Token

if TYPE_CHECKING:
    from polyseme.client.client import AsyncClient, Client

__all__ = [
    "AnswerError",
    "AsyncClient",
    "Client",
    "ClientError",
    "EncodedToken",
    "Encoder",
    "LocalModel",
    "NoSuchTokenError",
    "NotRequestedError",
    "Occurrence",
    "Sentence",
    "Token",
    "UnreachableError",
]


def __getattr__(name: str) -> Any:
    """Import the clients of a service on first use, because `LocalModel` does not need httpx."""
    if name not in ("AsyncClient", "Client"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("polyseme.client.client"), name)

"""The same calls on a model in this process and on a service somewhere else.

What is named here is imported when it is asked for: only the clients need httpx, and only
`LocalModel` a model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyseme.client.asynchronous import AsyncClient
    from polyseme.client.errors import AnswerError, ClientError, UnreachableError
    from polyseme.client.local import LocalModel
    from polyseme.client.remote import Client
    from polyseme.client.results import Token
    from polyseme.client.vectors import Encoder, Sentence
    from polyseme.encoding.compare import Occurrence

__all__ = [
    "AnswerError",
    "AsyncClient",
    "Client",
    "ClientError",
    "Encoder",
    "LocalModel",
    "Occurrence",
    "Sentence",
    "Token",
    "UnreachableError",
]
_PLACES = {
    "polyseme.client.asynchronous": ["AsyncClient"],
    "polyseme.client.errors": ["AnswerError", "ClientError", "UnreachableError"],
    "polyseme.client.local": ["LocalModel"],
    "polyseme.client.remote": ["Client"],
    "polyseme.client.results": ["Token"],
    "polyseme.client.vectors": ["Encoder", "Sentence"],
    "polyseme.encoding.compare": ["Occurrence"],
}


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(place), name)
    raise AttributeError(f"There is no {name} in {__name__}.")

"""The same calls on a model in this process and on a service somewhere else.

What is named here is imported when it is asked for: only the clients need httpx, and only
`LocalModel` a model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.client.asynchronous import AsyncClient
    from service.client.errors import AnswerError, ClientError, UnreachableError
    from service.client.local import LocalModel
    from service.client.remote import Client
    from service.client.results import Token
    from service.client.vectors import Encoder, Sentence
    from service.encoding.compare import Occurrence

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
    "service.client.asynchronous": ["AsyncClient"],
    "service.client.errors": ["AnswerError", "ClientError", "UnreachableError"],
    "service.client.local": ["LocalModel"],
    "service.client.remote": ["Client"],
    "service.client.results": ["Token"],
    "service.client.vectors": ["Encoder", "Sentence"],
    "service.encoding.compare": ["Occurrence"],
}


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(place), name)
    raise AttributeError(f"There is no {name} in {__name__}.")

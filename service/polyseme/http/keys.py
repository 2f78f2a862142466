"""Who may come in: whoever sends a right key, where there are keys."""

import logging
from pathlib import Path

from flask import Flask, g, request

from polyseme.api_keys import KeyFileError, digests_of_keys, find_key, read_key_file
from polyseme.errors import UnauthorisedError
from polyseme.http.upkeep import keep
from polyseme.settings import Settings

_log = logging.getLogger("polyseme")


class Doorkeeper:
    """The keys of the settings, and those of the file as it was when it could last be read."""

    def __init__(self, settings: Settings) -> None:
        self._given = digests_of_keys(key.get_secret_value() for key in settings.api_keys)
        self._file: Path | None = settings.api_keys_file
        self._keys = self._read()
        self.needed = bool(self._given) or self._file is not None
        """Whether a key is needed: a file is not opened by its being empty."""

    def refresh(self) -> None:
        """Read the file again, and change all keys at once; a bad file changes none."""
        try:
            self._keys = self._read()
        except KeyFileError as error:
            # As a text: of an exception, the log says the type alone.
            _log.warning("polyseme: %s; the keys read before still hold.", str(error))

    def name_of_caller(self) -> str | None:
        """The name of the key that the request has, or None."""
        scheme, _, key = request.environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        return find_key(self._keys, key.strip()) if scheme.lower() == "bearer" else None

    def _read(self) -> dict[str, bytes]:
        return {**self._given, **(read_key_file(self._file) if self._file else {})}


def init_app(app: Flask, settings: Settings) -> None:
    """Guard the routes under /v1 and /v2 but health, and /metrics as the settings say.

    `g.caller` names who asks, `g.counted` says whether that counts towards a rate.
    """
    doorkeeper = Doorkeeper(settings)
    if doorkeeper.needed:
        keep(app, "keys", doorkeeper.refresh)

    def recognise() -> None:
        g.caller = doorkeeper.name_of_caller() if doorkeeper.needed else None
        preflight = bool(settings.cors_origins) and _asks_for_leave()
        guarded = _is_guarded(request.path) and not preflight
        metrics = settings.metrics == "key" and request.path == "/metrics" and not preflight
        g.refused = doorkeeper.needed and g.caller is None and (guarded or metrics)
        # A key may be tried at /metrics too.
        g.counted = guarded or g.refused

    def check_key() -> None:
        if g.refused:
            raise UnauthorisedError

    app.before_request(recognise)
    if settings.rate_limit:
        from polyseme.http import rates  # noqa: PLC0415 - not without a rate

        # Before the keys are asked for: nobody may try keys without end.
        rates.init_app(app, settings)
    if doorkeeper.needed:
        app.before_request(check_key)


def _is_guarded(path: str) -> bool:
    """Whether a path wants a key; whoever asks for health, or what this is, has none."""
    return path.startswith(("/v1/", "/v2/")) and not path.startswith("/v2/health/")


def _asks_for_leave() -> bool:
    """Whether a browser asks if a page may ask: it sends no key with that."""
    asked = ("HTTP_ORIGIN", "HTTP_ACCESS_CONTROL_REQUEST_METHOD")
    return request.method == "OPTIONS" and all(name in request.environ for name in asked)

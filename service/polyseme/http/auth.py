"""Access to the routes: API keys, before which rate limits apply."""

import logging
from functools import partial

from flask import Flask, Response, after_this_request, request

from polyseme.api_keys import (
    KeyFileError,
    digests_of_keys,
    find_key,
    permission_problem,
    read_key_file,
)
from polyseme.errors import UnauthorisedError
from polyseme.http.limits import RateLimits, caller_name
from polyseme.http.middleware import current_context
from polyseme.settings import Settings

_log = logging.getLogger("polyseme")


class ApiKeyAuth:
    """Authentication by API keys from the settings and the key file."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._configured = digests_of_keys(key.get_secret_value() for key in settings.api_keys)
        self._keys = self._read()
        # An empty key file does not disable authentication.
        self.required = bool(self._configured) or settings.api_keys_file is not None

    def refresh(self) -> None:
        """Read the key file again; keep the previous keys if it cannot be used."""
        try:
            self._keys = self._read()
        except KeyFileError as error:
            # `str`, because the log shows only the type of an exception.
            _log.warning("polyseme: %s; the previous keys stay valid.", str(error))

    def _read(self) -> dict[str, bytes]:
        file = self._settings.api_keys_file
        if file and (problem := permission_problem(file)):
            _log.warning("polyseme: %s.", problem)
        return {**self._configured, **(read_key_file(file) if file else {})}

    def init_app(self, app: Flask, rate_limits: RateLimits) -> None:
        """Protect /v1/… and /v2/… except /v2/health/…, and /metrics according to the settings.

        The rate limits apply before the key is checked, so that they also limit guessing keys, and
        to unknown routes and methods.
        """
        if self.required or rate_limits.enabled:
            app.before_request(partial(self._admit, rate_limits))

    def _admit(self, rate_limits: RateLimits) -> None:
        context, path = current_context(), request.path
        if self.required:
            scheme, _, key = request.environ.get("HTTP_AUTHORIZATION", "").partition(" ")
            if scheme.lower() == "bearer":
                context.caller = find_key(self._keys, key.strip())
        protected = path.startswith(("/v1/", "/v2/")) and not path.startswith("/v2/health/")
        metrics = self._settings.metrics == "key" and path == "/metrics"
        if self._settings.cors_origins and request.method == "OPTIONS":
            # Browsers send a preflight request without a key.
            preflight = {"HTTP_ORIGIN", "HTTP_ACCESS_CONTROL_REQUEST_METHOD"}
            if preflight <= request.environ.keys():
                protected = metrics = False
        unauthorized = self.required and context.caller is None and (protected or metrics)
        # Requests without a valid key are limited at /metrics too.
        if protected or unauthorized or request.routing_exception is not None:
            headers: list[tuple[str, str]] = []
            error = rate_limits.hit(caller_name(context), headers=headers)

            @after_this_request
            def report(response: Response) -> Response:
                response.headers.extend(headers)
                return response

            if error:
                raise error
        if unauthorized:
            raise UnauthorisedError

"""Which pages of other origins may ask."""

import logging
import re

from flask import Flask, Response

from polyseme.settings import Settings

_LENGTH = "Inference-Header-Content-Length"
_OPENAI = "X-Stainless-[A-Za-z-]+"
"""What OpenAI's client for browsers tells of itself."""
_ASKED = ("Authorization", "Content-Type", "Accept", "X-Request-ID", _LENGTH, _OPENAI)
_SHOWN = ("X-Request-ID", "Server-Timing", "Retry-After", _LENGTH)
_AGE = 600
"""Seconds for which a browser remembers what it may ask."""


def init_app(app: Flask, settings: Settings) -> None:
    """Let the pages of the origins of the settings ask, and no others; without any, say nothing."""
    if not settings.cors_origins:
        return
    from flask_cors import CORS  # noqa: PLC0415 - not without an origin

    # It would log paths and origins, which are the caller's text.
    logging.getLogger("flask_cors").setLevel(logging.WARNING)
    CORS(
        app,
        # Patterns, since it compares texts without regard to case.
        origins=[re.compile(rf"{re.escape(origin)}\Z") for origin in settings.cors_origins],
        methods=["GET", "POST"],
        allow_headers=list(_ASKED),
        expose_headers=list(_SHOWN),
        max_age=_AGE,
        supports_credentials=False,
        allow_private_network=False,
        intercept_exceptions=False,
        vary_header=False,
    )
    app.after_request(_vary)


def _vary(response: Response) -> Response:
    """Tell caches that the answer depends on the origin, also where none was sent."""
    response.vary.add("Origin")
    return response

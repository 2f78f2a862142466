"""What SIGHUP does: every process reads what has changed, keys and models, and goes on answering.

Gunicorn would start new workers instead, and those it stops close connections that are idle but
kept: a client that sends its next request just then loses it.
"""

import gc
import logging
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

from flask import Flask

from polyseme.models.registry import Registry
from polyseme.settings import Settings

_log = logging.getLogger("polyseme")


def registry_of(app: Flask) -> Registry:
    """The models of an application."""
    registry: Registry = app.extensions["polyseme-registry"]
    return registry


def settings_of(app: Flask) -> Settings:
    """The settings an application was made with: read again, they may be wrong by now."""
    settings: Settings = app.extensions["polyseme-settings"]
    return settings


def report(registry: Registry) -> None:
    """Say which models have a problem."""
    for name, state in registry.states().items():
        if state.problem:
            _log.warning("polyseme: %s is %s: %s", name, state.status, state.problem)


def keep(app: Flask, what: str, refresh_it: Callable[[], None]) -> None:
    """Have something refreshed on each SIGHUP, after what was named before."""
    app.extensions.setdefault("polyseme-upkeep", {})[what] = refresh_it


def refresh(app: Flask) -> None:
    """Refresh everything. What goes wrong is logged: it ends neither the process nor the rest."""
    for what, refresh_it in app.extensions["polyseme-upkeep"].items():
        try:
            refresh_it()
        except Exception:  # noqa: BLE001 - whatever it is, what was read before still serves
            _log.exception("polyseme: the %s could not be refreshed", what)


def share() -> None:
    """Keep the garbage collector off what there is now, which workers forked later share.

    Its first full run in each worker would write into every object, and so copy all their pages.
    """
    gc.collect()
    gc.freeze()


def take_over_hangups(arbiter: Any) -> None:
    """Give gunicorn's master another answer to SIGHUP."""
    arbiter.handle_hup = partial(_handle_hangup, arbiter)


def _handle_hangup(arbiter: Any) -> None:
    """Refresh the master first: workers forked later have all of it, and its reading is cached."""
    app = arbiter.app.wsgi()
    refresh(app)
    share()
    report(registry_of(app))
    arbiter.kill_workers(signal.SIGHUP)

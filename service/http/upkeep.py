"""What SIGHUP does: every process reads the models that have changed, while it goes on answering.

Gunicorn would start new workers instead, and those it stops close connections that are idle but
kept: a client that sends its next request just then loses it.
"""

import gc
import logging
import signal
from functools import partial
from typing import Any

from flask import Flask

from service.store.registry import Registry

_log = logging.getLogger("polyseme")


def registry_of(app: Flask) -> Registry:
    """The models of an application."""
    registry: Registry = app.extensions["polyseme-registry"]
    return registry


def report(registry: Registry) -> None:
    """Say which models have a problem."""
    for name, state in registry.states().items():
        if state.problem:
            _log.warning("polyseme: %s is %s: %s", name, state.status, state.problem)


def refresh(registry: Registry) -> None:
    """Refresh the models. What goes wrong is logged: it must not end the process."""
    try:
        registry.refresh()
    except Exception:  # noqa: BLE001 - whatever it is, the models read before still answer
        _log.exception("polyseme: the models could not be refreshed")


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
    """Refresh the master first: workers forked later have its models, and its reading is cached."""
    registry = registry_of(arbiter.app.wsgi())
    refresh(registry)
    share()
    report(registry)
    arbiter.kill_workers(signal.SIGHUP)

"""The address of a caller behind reverse proxies, as those say that may be believed."""

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Flask

from polyseme.settings import Settings


def init_app(app: Flask, settings: Settings) -> None:
    """Believe the last entries of X-Forwarded-For, one for each proxy, and not those before."""
    if settings.proxies:
        app.wsgi_app = _believing(app.wsgi_app, settings.proxies)  # type: ignore[assignment,method-assign]


def _believing(app: WSGIApplication, proxies: int) -> WSGIApplication:
    """Take the caller for who the outermost proxy says it is; else it is the innermost proxy.

    Entries are cut at every comma. Werkzeug's ProxyFix heeds quotes, and one that a caller opens
    would swallow what the proxies write behind it.
    """

    def inner(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        entries = environ.get("HTTP_X_FORWARDED_FOR", "").split(",")
        if len(entries) >= proxies and (address := address_in(entries[-proxies])):
            environ["REMOTE_ADDR"] = address
        return app(environ, start)

    return inner


def address_in(entry: str) -> str | None:
    """The address of an entry, which may have a port; None where there is none in it."""
    host = entry.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)

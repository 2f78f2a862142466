"""The address of a caller behind reverse proxies, as those say that may be believed."""

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from service.settings import Settings


def init_app(app: Flask, settings: Settings) -> None:
    """Believe the last entries of X-Forwarded-For, one for each proxy, and not those before."""
    if settings.proxies:
        checked = _checked(app.wsgi_app)
        app.wsgi_app = ProxyFix(checked, x_for=settings.proxies, x_proto=0)  # type: ignore[method-assign]


def _checked(app: WSGIApplication) -> WSGIApplication:
    """Take an entry that is no address for the proxy's own: it may be a text of the caller's."""

    def inner(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        proxy = environ["werkzeug.proxy_fix.orig"]["REMOTE_ADDR"]
        environ["REMOTE_ADDR"] = address_in(environ.get("REMOTE_ADDR") or "") or proxy
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

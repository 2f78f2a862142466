"""The reverse proxy of `deploy/nginx`, without a container, in front of a test service."""

import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.conftest import free_port

CONFIGURATION = Path(__file__).parents[2] / "deploy/nginx/nginx.conf"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def configured(port: int, upstream: str) -> str:
    """The configuration with another port, and another address of the service."""
    text = CONFIGURATION.read_text("utf-8")
    for old, new in (
        ("listen 8080", f"listen {port}"),
        ("server polyseme:8000", f"server {upstream}"),
    ):
        assert text.count(f"        {old} ") == 1
        text = text.replace(f"        {old} ", f"        {new} ")
    return text


@contextmanager
def proxied(folder: Path, address: str, *changes: tuple[str, str]) -> Iterator[httpx.Client]:
    """A client of the proxy in front of a service. The proxy logs to `folder/log`."""
    if NGINX is None:
        pytest.skip("needs nginx (Debian's nginx-light)")
    port = free_port()
    text = re.sub(r"/tmp/", f"{folder}/", configured(port, address.removeprefix("http://")))
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "nginx.conf").write_text(text)
    user = "user root; " if os.geteuid() == 0 else ""
    command = [NGINX, "-c", folder / "nginx.conf", "-g", f"{user}daemon off;"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
    try:
        for _ in range(200):
            assert process.poll() is None, (folder / "log").read_text()
            try:
                client.get("/readyz")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield client
    finally:
        client.close()
        process.terminate()
        process.wait(10)


@contextmanager
def upstream(respond: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """The address of a server that answers each connection with `respond`."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=256)) as listener:

        def answer(connection: socket.socket) -> None:
            with closing(connection):
                respond(connection, connection.recv(65536))

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=[connection], daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def slow_client(stack: ExitStack, client: httpx.Client) -> None:
    """Send a request on a new connection without reading the response."""
    connection = stack.enter_context(closing(socket.socket()))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((client.base_url.host, client.base_url.port))
    head = "POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
    connection.sendall(head.encode())

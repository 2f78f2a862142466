"""The reverse proxy of `deploy/nginx`, without a container, in front of a test service."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
def proxied(folder: Path, address: str) -> Iterator[httpx.Client]:
    """A client of the proxy in front of a service. The proxy logs to `folder/log`."""
    if NGINX is None:
        pytest.skip("needs nginx (Debian's nginx-light)")
    port = free_port()
    text = re.sub(r"/tmp/", f"{folder}/", configured(port, address.removeprefix("http://")))
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

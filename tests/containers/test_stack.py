"""docker-compose.yml, run by podman-compose: the service behind its proxy.

podman may have no bridge networks, so an override puts every service on the network of the host, at
free ports. Without a registry, the other images are stand-ins from Debian's packages.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.conftest import free_port
from tests.containers.conftest import NEEDS_AN_ENGINE, ROOT, Podman
from tests.http.conftest import expect_problem
from tests.http.proxy import configured

SENTENCE = {"input": "The bank of the river"}
COMPOSE = Path(sys.executable).with_name("podman-compose")

pytestmark = NEEDS_AN_ENGINE

HOST = """
    network_mode: host
    networks: !reset []
    healthcheck: {disable: true}
"""
PUBLISHED = f"{HOST}    ports: !reset []\n"
OVERRIDE = f"""
networks: !reset {{}}
services:
  redis:{HOST}
  prometheus:{PUBLISHED}
  alertmanager:{PUBLISHED}
  grafana:{PUBLISHED}
  proxy:{PUBLISHED}
    volumes: !override ["FOLDER/nginx.conf:/etc/nginx/nginx.conf:ro", "spool:/tmp"]
  polyseme:{HOST}
    environment:
      POLYSEME_HOST: 127.0.0.1
      POLYSEME_PORT: PORT
      POLYSEME_ADMIN_PORT: "ADMIN"
"""


class Stack:
    """The running services and their ports."""

    def __init__(self, folder: Path, engine: dict[str, str]) -> None:
        self.name = f"stack{free_port()}"
        self.folder, self.environment = folder, {**engine, "TAG": "test"}
        self.ports = {name: free_port() for name in ("proxy", "service")}
        upstream = f"127.0.0.1:{self.ports['service']}"
        (folder / "nginx.conf").write_text(configured(self.ports["proxy"], upstream))
        override = OVERRIDE.replace("FOLDER", str(folder)).replace("ADMIN", str(free_port()))
        port = str(self.ports["service"])
        (folder / "override.yml").write_text(override.replace(": PORT", f": {port}"))

    def compose(self, *arguments: str) -> str:
        """Run podman-compose."""
        files = ("-f", ROOT / "docker-compose.yml", "-f", self.folder / "override.yml")
        done = subprocess.run(
            [COMPOSE, "--in-pod=false", "-p", self.name, *files, *arguments],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
        return done.stdout

    def container(self, service: str) -> str:
        """podman's name for the container of a service."""
        return f"{self.name}_{service}_1"

    def post(self, **request: Any) -> httpx.Response:
        """Send a request to the proxy."""
        url = f"http://127.0.0.1:{self.ports['proxy']}/v1/encode"
        return httpx.post(url, timeout=60, **request)

    def wait_for(self, service: str, path: str) -> None:
        """Send requests until the response is a success."""
        url = f"http://127.0.0.1:{self.ports[service]}{path}"
        for _ in range(300):
            with suppress(httpx.TransportError):
                if httpx.get(url, timeout=5).status_code == 200:
                    return
            time.sleep(0.2)
        raise AssertionError(f"{service} does not respond at {path}")


@pytest.fixture(scope="module")
def stack(
    compose_images: str, engine: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """The service behind its proxy."""
    assert compose_images
    running = Stack(tmp_path_factory.mktemp("stack"), engine)
    try:
        running.compose("up", "-d", "--no-build", "polyseme", "proxy")
        running.wait_for("proxy", "/livez")
        yield running
    finally:
        running.compose("down", "--volumes")


def test_a_body_that_exceeds_the_proxys_memory_reaches_the_service(stack: Stack) -> None:
    response = stack.post(content=b" " * (5 << 20), headers={"Content-Type": "application/json"})
    assert expect_problem(response, 413, "too_large")["setting"] == "max_body_bytes"


def test_the_proxy_is_not_root_its_files_are_read_only_and_it_is_healthy(
    stack: Stack, podman: Podman
) -> None:
    name = stack.container("proxy")
    lines = podman("exec", name, "cat", "/proc/1/status").stdout.splitlines()
    fields = dict(line.split(":\t", 1) for line in lines)
    assert "0" not in fields["Uid"].split()
    assert (int(fields["CapEff"], 16), fields["NoNewPrivs"]) == (0, "1")
    attempt = podman("exec", name, "touch", "/etc/written", check=False)
    assert "Read-only file system" in attempt.stderr
    with (ROOT / "docker-compose.yml").open() as file:
        check = yaml.safe_load(file)["services"]["proxy"]["healthcheck"]["test"]
    program = [part.replace(":8080", f":{stack.ports['proxy']}") for part in check[1:]]
    podman("exec", name, *program)


def test_the_proxy_sends_an_error_while_the_service_is_down(stack: Stack, podman: Podman) -> None:
    podman("kill", "--signal", "KILL", stack.container("polyseme"))
    podman("wait", stack.container("polyseme"))
    response = stack.post(json=SENTENCE)
    expect_problem(response, 503, "not_ready")
    assert int(response.headers["retry-after"]) > 0
    podman("start", stack.container("polyseme"))
    stack.wait_for("service", "/readyz")
    assert stack.post(json=SENTENCE).status_code == 200

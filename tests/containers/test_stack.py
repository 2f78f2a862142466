"""docker-compose.yml, run by podman-compose: the service behind its proxy.

podman may have no bridge networks, so an override puts every service on the network of the host, at
free ports. Without a registry, the other images are stand-ins from Debian's packages.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.conftest import free_port
from tests.containers.engine import NEEDS_AN_ENGINE, ROOT, Podman
from tests.http.conftest import expect_problem
from tests.http.proxy import configured

SENTENCE = {"input": "The bank of the river"}
JSON = {"Content-Type": "application/json"}
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

    def wait_for(self, service: str, path: str, status: int = 200) -> httpx.Response:
        """Send requests until the response has the status."""
        for _ in range(300):
            try:
                response = httpx.get(f"http://127.0.0.1:{self.ports[service]}{path}", timeout=5)
            except httpx.TransportError:
                pass
            else:
                if response.status_code == status:
                    return response
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


@pytest.fixture
def proxy(stack: Stack) -> Iterator[httpx.Client]:
    """A client of the proxy."""
    with httpx.Client(base_url=f"http://127.0.0.1:{stack.ports['proxy']}", timeout=60) as client:
        yield client


def test_a_body_that_exceeds_the_proxys_memory_reaches_the_service(proxy: httpx.Client) -> None:
    response = proxy.post("/v1/encode", content=b" " * (5 << 20), headers=JSON)
    assert expect_problem(response, 413, "too_large")["setting"] == "max_body_bytes"


def test_the_proxy_is_not_root_and_its_file_system_is_read_only(
    stack: Stack, podman: Podman
) -> None:
    name = stack.container("proxy")
    lines = podman("exec", name, "cat", "/proc/1/status").stdout.splitlines()
    fields = dict(line.split(":\t", 1) for line in lines)
    assert "0" not in fields["Uid"].split()
    assert int(fields["CapEff"], 16) == 0
    assert fields["NoNewPrivs"] == "1"
    attempt = podman("exec", name, "touch", "/etc/written", check=False)
    assert "Read-only file system" in attempt.stderr


def test_the_proxys_health_check_passes(stack: Stack, podman: Podman) -> None:
    with (ROOT / "docker-compose.yml").open() as file:
        check = yaml.safe_load(file)["services"]["proxy"]["healthcheck"]["test"]
    program = [part.replace(":8080", f":{stack.ports['proxy']}") for part in check[1:]]
    podman("exec", stack.container("proxy"), *program)


def test_the_proxy_sends_an_error_while_the_service_is_down(
    stack: Stack, proxy: httpx.Client, podman: Podman
) -> None:
    podman("kill", "--signal", "KILL", stack.container("polyseme"))
    podman("wait", stack.container("polyseme"))
    response = proxy.post("/v1/encode", json=SENTENCE)
    expect_problem(response, 503, "not_ready")
    assert int(response.headers["retry-after"]) > 0
    podman("start", stack.container("polyseme"))
    stack.wait_for("service", "/readyz")
    assert proxy.post("/v1/encode", json=SENTENCE).status_code == 200

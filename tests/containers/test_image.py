"""The image, run as docs/operation.md says."""

import json
import os
from contextlib import suppress

import httpx
import pytest

from tests.conftest import free_port
from tests.containers.conftest import NEEDS_AN_ENGINE
from tests.http.service import until

NAME = f"polyseme-test-{os.getpid()}"
LIMIT_MB = 450
HARDENING = [
    *("--read-only", "--tmpfs", "/tmp"),
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
    *("--memory", "600m", "--pids-limit", "64"),
]

READ_FORMATS = """
from gensim.models import KeyedVectors
open("/tmp/vectors", "w").write("apple 1 2 3\\nphone 4 5 6\\n")
glove = KeyedVectors.load_word2vec_format("/tmp/vectors", binary=False, no_header=True)
for binary in (False, True):
    glove.save_word2vec_format("/tmp/again", binary=binary)
    again = KeyedVectors.load_word2vec_format("/tmp/again", binary=binary)
    assert again["phone"].tolist() == [4, 5, 6], binary
import gensim.models.fasttext, gensim.downloader
print("read")
"""


pytestmark = NEEDS_AN_ENGINE


@pytest.fixture(scope="module")
def service(image, podman):
    """The address of a service in a hardened container."""
    port = free_port()
    settings = {"HOST": "127.0.0.1", "PORT": port, "WORKERS": 2}
    options = [f"--env=POLYSEME_{setting}={value}" for setting, value in settings.items()]
    options += ["--name", NAME, "--health-interval=disable"]
    address = f"http://127.0.0.1:{port}"

    def is_ready():
        state = podman("inspect", "--format", "{{.State.Running}}", NAME).stdout.strip()
        assert state == "true", podman("logs", NAME, check=False)
        with suppress(httpx.TransportError):
            return httpx.get(f"{address}/readyz", timeout=5).status_code == 200

    try:
        podman("run", "--detach", *options, *HARDENING, image)
        until(is_ready)
        yield address
    finally:
        podman("rm", "--force", "--time", "5", NAME, check=False)


def test_the_image_is_small_and_does_not_have_the_laboratory(image, podman):
    size = int(podman("image", "inspect", "--format", "{{.Size}}", image).stdout)
    assert size < LIMIT_MB * 10**6, f"{size / 10**6:.0f} MB"
    done = podman("run", "--rm", image, "train", check=False)
    assert done.returncode == 1
    assert "does not have `polyseme train`" in done.stderr


def test_the_image_holds_no_installer_no_tests_and_no_secret_of_the_build(image, podman):
    names = ["pip", "pip-*", "pip.conf", "ca.pem", "tests", "test", "*.pyi", "*.c"]
    wanted = " -o ".join(f"-name '{name}'" for name in names)
    search = f"find /opt /build /root /run/secrets /etc/pip.conf {wanted} 2>/dev/null || true"
    as_root = ("run", "--rm", "--user", "0", "--entrypoint", "sh")
    assert podman(*as_root, image, "-c", search).stdout == ""


def test_gensim_reads_its_formats_in_the_trimmed_image(image, podman):
    run = ("run", "--rm", *HARDENING, "--entrypoint", "python", image, "-c", READ_FORMATS)
    assert podman(*run).stdout.strip() == "read"


def test_a_hardened_container_encodes_and_can_gain_no_privileges(service, podman):
    response = httpx.post(f"{service}/v1/encode", json={"input": "Apple released a phone"})
    assert len(response.json()["results"][0]["contextual"]) == 4
    status = podman("exec", NAME, "cat", "/proc/1/status").stdout
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    assert fields["Uid"].split() == fields["Gid"].split() == ["10001"] * 4
    assert (int(fields["CapEff"], 16), fields["NoNewPrivs"]) == (0, "1")
    attempt = podman("exec", NAME, "touch", "/opt/polyseme/written", check=False)
    assert "Read-only file system" in attempt.stderr


@pytest.mark.usefixtures("service")
def test_the_health_check_passes_only_while_the_service_is_ready(image, podman):
    podman("healthcheck", "run", NAME)
    check = podman("image", "inspect", "--format", "{{json .HealthCheck.Test}}", image).stdout
    _, program, *arguments = json.loads(check)
    absent = ("--rm", f"--env=POLYSEME_PORT={free_port()}", "--entrypoint", program)
    attempt = podman("run", *absent, image, *arguments, check=False)
    assert attempt.returncode == 1
    assert "ConnectionRefusedError" in attempt.stderr


@pytest.mark.usefixtures("service")
def test_the_service_stops_at_a_signal(podman):
    podman("stop", "--time", "40", NAME)
    assert podman("inspect", "--format", "{{.State.ExitCode}}", NAME).stdout.strip() == "0"

"""The commands for keys, rates and origins run unchanged, in order, with the documented results."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from polyseme.api_keys import find_key, key_file_line, read_key_file
from polyseme.http.middleware import SECURITY_HEADERS
from tests.conftest import ROOT, free_port
from tests.http.service import WAIT, until
from tests.pages import section

PAGE = section("operation.md", "Keys, rate limits and CORS")
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
CREATE, SERVE, ASK, ADD, REMOVE, SERVE_RATES, SERVE_ORIGINS, PREFLIGHT = BLOCKS
OUTPUTS = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")


class Shell:
    """Commands of the page in one folder, with `polyseme` and a port of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "service"),
            "POLYSEME_PORT": str(self.port),
            "POLYSEME_WORKERS": "1",
            "POLYSEME_DRAIN_SECONDS": "0",
        }

    def run(self, block: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-ec", block.replace("localhost:8000", f"localhost:{self.port}")],
            cwd=self.folder,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=True,
        )

    @contextmanager
    def serving(self, block: str) -> Iterator[tuple[int, httpx.Client]]:
        """Run the `serve` command of a block; yield the process and a client."""
        variables, _, command = block.rpartition(" polyseme ")
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                ["sh", "-ec", f"{variables} exec polyseme {command}"],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        try:
            with httpx.Client(base_url=f"http://localhost:{self.port}") as client:
                until(lambda: self._answers(client))
                yield process.pid, client
        finally:
            process.terminate()
            process.wait(WAIT)

    @staticmethod
    def _answers(client: httpx.Client) -> bool:
        try:
            return client.get("/livez").status_code == 200
        except httpx.TransportError:
            return False


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def pattern(text: str) -> str:
    """A regular expression for an output of the page, where … stands for a key or a hash."""
    return re.escape(text.strip()).replace("…", "[A-Za-z0-9_-]{43,64}")


@pytest.mark.slow
def test_keys_are_created_used_replaced_and_removed_as_documented(shell: Shell) -> None:
    created = shell.run(CREATE)
    assert re.fullmatch(pattern(OUTPUTS[0]), created.stderr.strip())
    assert re.fullmatch(pattern(OUTPUTS[1]), (shell.folder / "keys").read_text().strip())
    old = created.stderr.split()[-1]
    with shell.serving(SERVE) as (pid, client):

        def status(key: str) -> int:
            headers = {"Authorization": f"Bearer {key}"}
            return client.get("/v1/models", headers=headers).status_code

        assert '"wiki-en"' in shell.run(ASK, KEY=old).stdout
        assert client.get("/v1/models").status_code == 401
        new = shell.run(ADD, PID=str(pid)).stderr.split()[-1]
        until(lambda: status(new), 200)
        assert status(old) == 200
        shell.run(REMOVE, PID=str(pid))
        until(lambda: status(old), 401)
        assert status(new) == 200
        assert find_key(read_key_file(shell.folder / "keys"), new) == "alice-2"


def test_an_origin_is_allowed_as_documented(shell: Shell) -> None:
    with shell.serving(SERVE_ORIGINS):
        lines = shell.run(PREFLIGHT).stdout.splitlines()
        assert set(OUTPUTS[3].splitlines()) <= {line.strip() for line in lines}


def test_the_page_names_every_header_of_responses() -> None:
    text = PAGE.replace("\n", " ")
    for name, value in SECURITY_HEADERS.items():
        assert f"{name}: {value}" in text


def test_a_line_of_the_key_file_has_the_documented_form() -> None:
    assert re.fullmatch(pattern(OUTPUTS[1]), key_file_line("alice", "key"))

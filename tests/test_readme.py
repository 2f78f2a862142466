"""README: its commands run, and its requests get the documented responses."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import ROOT, free_port, output_of

README = (ROOT / "README.md").read_text()
REQUESTS = re.findall(r"```sh\n(curl .*?)```\n\n```json\n(.*?)```", README, re.DOTALL)

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Run `make serve` in a fresh copy of the tracked files."""
    for program in ("make", "git", "curl"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    copy, number = tmp_path_factory.mktemp("clone"), free_port()
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, output_of(*listing).split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    with (copy / "log").open("wb") as log:
        process = subprocess.Popen(
            ["make", "serve", f"PORT={number}"],
            cwd=copy,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        for _ in range(1200):
            assert process.poll() is None, (copy / "log").read_text()
            try:
                httpx.get(f"http://127.0.0.1:{number}/readyz")
                break
            except httpx.TransportError:
                time.sleep(0.25)
        yield number
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)


def fragments(block: str) -> list[str]:
    """The parts of a documented response between ellipses, with white space only in strings."""
    pieces = re.split(r'("[^"]*")', block)
    dense = "".join(p if p.startswith('"') else re.sub(r"\s+", "", p) for p in pieces)
    return [part for part in dense.split("…") if part]


@pytest.mark.parametrize(("command", "response"), REQUESTS)
def test_the_request_gets_the_documented_response(port: int, command: str, response: str) -> None:
    assert "localhost:8000" in command
    sent = output_of("sh", "-c", command.replace("localhost:8000", f"localhost:{port}"))
    require_fragments(response, sent)


def require_fragments(documented: str, response: str) -> None:
    """Require that each part of the documented response is in the response, in this order."""
    compact = json.dumps(json.loads(response), separators=(",", ":"), ensure_ascii=False)
    place = 0
    for fragment in fragments(documented):
        found = compact.find(fragment, place)
        assert found >= place, f"not in the response, or not in this order: {fragment}"
        place = found + len(fragment)


def test_the_programs_print_the_documented_output() -> None:
    programs = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL)
    assert len(programs) == README.count("```python")
    program = "".join(code for code, _ in programs)
    printed = output_of(sys.executable, "-W", "error", "-c", program)
    assert printed == "".join(output for _, output in programs)

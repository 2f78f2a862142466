"""The commands for keys and origins run in order, with the documented results."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from polyseme.api_keys import find_key, read_key_file
from tests.conftest import ROOT
from tests.http.service import running, until
from tests.pages import section

PAGE = section("operation.md", "Keys, rate limits and CORS")
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
CREATE, SERVE, ASK, ADD, REMOVE, *_ = BLOCKS
OUTPUTS = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl"),
]


def shell(folder: Path, block: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a block of the page in a folder; `PORT` is the port of the service."""
    port = variables.get("PORT", "8000")
    programs = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", "-ec", block.replace("localhost:8000", f"localhost:{port}")],
        cwd=folder,
        env={**os.environ, **programs, "PYTHONPATH": str(ROOT / "service"), **variables},
        capture_output=True,
        text=True,
        check=True,
    )


def pattern(text: str) -> str:
    """A regular expression for an output of the page, where … stands for a key or a hash."""
    return re.escape(text.strip()).replace("…", "[A-Za-z0-9_-]{43,64}")


def test_keys_are_created_used_replaced_and_removed_as_documented(tmp_path) -> None:
    created = shell(tmp_path, CREATE)
    assert re.fullmatch(pattern(OUTPUTS[0]), created.stderr.strip())
    assert re.fullmatch(pattern(OUTPUTS[1]), (tmp_path / "keys").read_text().strip())
    old = created.stderr.split()[-1]
    assert SERVE.split() == ["POLYSEME_API_KEYS_FILE=keys", "polyseme", "serve"]
    with running(tmp_path, workers=1, api_keys_file="keys") as service:
        variables = {"PID": str(service.master), "PORT": str(service.port)}

        def status(key: str) -> int:
            headers = {"Authorization": f"Bearer {key}"}
            return httpx.get(f"{service.url}/v1/models", headers=headers).status_code

        assert '"wiki-en"' in shell(tmp_path, ASK, KEY=old, **variables).stdout
        assert httpx.get(f"{service.url}/v1/models").status_code == 401
        new = shell(tmp_path, ADD, **variables).stderr.split()[-1]
        until(lambda: status(new), 200)
        assert status(old) == 200
        shell(tmp_path, REMOVE, **variables)
        until(lambda: status(old), 401)
        assert status(new) == 200
        assert find_key(read_key_file(tmp_path / "keys"), new) == "alice-2"

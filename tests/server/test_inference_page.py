"""docs/inference.md: its blocks run unchanged and print the documented output."""

import re
import shutil
import subprocess

import pytest

from polyseme.api.inference_schemas import DATATYPES
from tests.conftest import ROOT
from tests.environments import python_of
from tests.test_readme import require_fragments

PAGE = (ROOT / "docs" / "inference.md").read_text("utf-8")
SHELL = re.findall(r"```sh\n(.*?)```\n\n```json\n(.*?)```", PAGE, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def here(block, client):
    """A block with the address of the test service."""
    assert "localhost:8000" in block
    return block.replace("localhost:8000", f"{client.base_url.host}:{client.base_url.port}")


def test_every_block_is_run():
    assert PAGE.count("```") == 4 * len(SHELL + PYTHON)
    assert (len(SHELL), len(PYTHON)) == (3, 2)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize(("command", "answer"), SHELL)
def test_a_command_gets_the_page_s_answer(client, command, answer):
    done = subprocess.run(
        ["sh", "-ec", here(command, client)], capture_output=True, text=True, check=True
    )
    require_fragments(answer, done.stdout)


@pytest.mark.clients
def test_triton_prints_the_documented_output(client):
    code = here("".join(block for block, _ in PYTHON), client)
    done = subprocess.run(
        [python_of("triton"), "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(said for _, said in PYTHON)


def test_the_page_lists_all_outputs():
    rows = re.findall(r"^\| `(\w+)` \| (FP32|INT64|BYTES) \|", PAGE, re.MULTILINE)
    assert rows == list(DATATYPES.items())


def test_the_routes_of_the_page_are_answered(client):
    routes = re.findall(r"^\| `GET (/v2\S*)` \|", PAGE, re.MULTILINE)
    assert len(routes) == 5
    for route in routes:
        assert client.get(route.replace("NAME", "wiki-en")).status_code == 200

"""docs/inference.md: its blocks run unchanged and print the documented output."""

import re
import shutil

import pytest

from polyseme.http.inference import DATATYPES
from tests.conftest import ROOT
from tests.environments import python_of
from tests.http.conftest import python_output, shell_output
from tests.test_readme import require_fragments

PAGE = (ROOT / "docs" / "inference.md").read_text("utf-8")
SHELL = re.findall(r"```sh\n(.*?)```\n\n```json\n(.*?)```", PAGE, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def test_every_block_is_run():
    assert PAGE.count("```") == 4 * len(SHELL + PYTHON)
    assert (len(SHELL), len(PYTHON)) == (3, 2)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize(("command", "answer"), SHELL)
def test_a_command_gives_the_response_of_the_page(live_client, command, answer):
    require_fragments(answer, shell_output(command, live_client))


@pytest.mark.clients
def test_triton_prints_the_documented_output(live_client):
    code = "".join(block for block, _ in PYTHON)
    expected = "".join(output for _, output in PYTHON)
    assert python_output(python_of("triton"), code, live_client) == expected


def test_the_page_lists_all_outputs():
    rows = re.findall(r"^\| `(\w+)` \| (FP32|INT64|BYTES) \|", PAGE, re.MULTILINE)
    assert rows == list(DATATYPES.items())


def test_the_routes_of_the_page_respond(live_client):
    routes = re.findall(r"^\| `GET (/v2\S*)` \|", PAGE, re.MULTILINE)
    assert len(routes) == 5
    for route in routes:
        assert live_client.get(route.replace("NAME", "wiki-en")).status_code == 200

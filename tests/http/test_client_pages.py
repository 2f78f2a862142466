"""The blocks for OpenAI's and Triton's clients run unchanged with the documented output."""

import re
import shutil
from typing import NamedTuple

import pytest

from polyseme.http.inference import DATATYPES
from tests.environments import python_of
from tests.http.conftest import python_output, shell_output
from tests.pages import section
from tests.test_readme import require_fragments


class Page(NamedTuple):
    """A section, its blocks with their outputs, and the environment of its clients."""

    text: str
    shell: list[tuple[str, str]]
    python: list[tuple[str, str]]
    environment: str


def page(text, environment):
    shell = re.findall(r"```sh\n([^`]*)```\n\n```json\n(.*?)```", text, re.DOTALL)
    python = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    return Page(text, shell, python, environment)


INFERENCE = page(section("api.md", "The Open Inference Protocol"), "triton")
OPENAI = page(section("pipelines.md", "OpenAI's clients"), "openai")


@pytest.mark.parametrize(("page", "blocks"), [(INFERENCE, (3, 2)), (OPENAI, (2, 3))])
def test_every_block_is_run(page, blocks):
    assert (len(page.shell), len(page.python)) == blocks
    assert page.text.count("```") == 4 * sum(blocks)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize(("command", "answer"), [*INFERENCE.shell, *OPENAI.shell])
def test_a_command_gives_the_response_of_the_page(live_client, command, answer):
    require_fragments(answer, shell_output(command, live_client))


@pytest.mark.clients
@pytest.mark.parametrize("page", [INFERENCE, OPENAI], ids=lambda page: page.environment)
def test_clients_print_the_documented_output(live_client, page):
    code = "".join(block for block, _ in page.python)
    expected = "".join(output for _, output in page.python)
    assert python_output(python_of(page.environment), code, live_client) == expected


def test_the_page_lists_all_outputs():
    rows = re.findall(r"^\| `(\w+)` \| (FP32|INT64|BYTES) \|", INFERENCE.text, re.MULTILINE)
    assert rows == list(DATATYPES.items())


def test_the_routes_of_the_page_respond(live_client):
    routes = re.findall(r"^\| `GET (/v2\S*)` \|", INFERENCE.text, re.MULTILINE)
    assert len(routes) == 5
    for route in routes:
        assert live_client.get(route.replace("NAME", "wiki-en")).status_code == 200

"""docs/openai.md: its blocks run unchanged and print the documented output."""

import re
import shutil
import subprocess

import pytest

from polyseme.api.errors import openai_error
from polyseme.errors import InvalidError, OutOfRangeError, PolysemeError, TooLargeError
from tests.conftest import ROOT
from tests.environments import python_of
from tests.test_readme import require_fragments

PAGE = (ROOT / "docs" / "openai.md").read_text("utf-8")
SHELL = re.findall(r"```sh\n(curl .*?)```\n\n```json\n(.*?)```", PAGE, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def here(block, client):
    """A block with the address of the test service."""
    assert "http://localhost:8000" in block
    return block.replace("http://localhost:8000", str(client.base_url))


def test_every_block_is_run():
    assert PAGE.count("```") == 4 * len(SHELL + PYTHON)
    assert (len(SHELL), len(PYTHON)) == (2, 3)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize(("command", "answer"), SHELL)
def test_a_command_gets_the_page_s_answer(client, command, answer):
    done = subprocess.run(
        ["sh", "-ec", here(command, client)], capture_output=True, text=True, check=True
    )
    require_fragments(answer, done.stdout)


@pytest.mark.clients
def test_clients_print_the_documented_output(client):
    code = here("".join(block for block, _ in PYTHON), client)
    command = [python_of("openai"), "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(said for _, said in PYTHON)


def test_the_codes_of_the_page_are_those_of_the_errors():
    sizes = ("It is large", 2, "max_sentences", 1)
    there, waiting = set(), [PolysemeError]
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        given = ([],) if issubclass(one, InvalidError) and one is not OutOfRangeError else ()
        error = one(*sizes) if one is TooLargeError else one(*given)
        there.add((one.status, openai_error(error)["code"]))
    rows = re.findall(r"^\| (\d{3}) \| (`[^|]*) \|", PAGE, re.MULTILINE)
    listed = {(int(status), code) for status, row in rows for code in re.findall("`(.*?)`", row)}
    assert len(listed) == 9
    assert listed <= there

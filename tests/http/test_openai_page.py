"""docs/openai.md: its blocks run unchanged and print the documented output."""

import re
import shutil

import pytest

from polyseme.errors import InvalidError, OutOfRangeError, PolysemeError, TooLargeError
from polyseme.http.errors import openai_error
from tests.conftest import ROOT
from tests.environments import python_of
from tests.http.conftest import python_output, shell_output
from tests.test_readme import require_fragments

PAGE = (ROOT / "docs" / "openai.md").read_text("utf-8")
SHELL = re.findall(r"```sh\n(curl .*?)```\n\n```json\n(.*?)```", PAGE, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def test_every_block_is_run():
    assert PAGE.count("```") == 4 * len(SHELL + PYTHON)
    assert (len(SHELL), len(PYTHON)) == (2, 3)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize(("command", "answer"), SHELL)
def test_a_command_gives_the_response_of_the_page(live_client, command, answer):
    require_fragments(answer, shell_output(command, live_client))


@pytest.mark.clients
def test_clients_print_the_documented_output(live_client):
    code = "".join(block for block, _ in PYTHON)
    expected = "".join(output for _, output in PYTHON)
    assert python_output(python_of("openai"), code, live_client) == expected


def test_the_codes_of_the_page_are_those_of_the_errors():
    existing, classes = set(), [PolysemeError]
    while classes:
        class_ = classes.pop()
        classes += class_.__subclasses__()
        arguments = ()
        if class_ is TooLargeError:
            arguments = ("It is large", 2, "max_sentences", 1)
        elif issubclass(class_, InvalidError) and class_ is not OutOfRangeError:
            arguments = ([],)
        existing.add((class_.status, openai_error(class_(*arguments))["code"]))
    rows = re.findall(r"^\| (\d{3}) \| (`[^|]*) \|", PAGE, re.MULTILINE)
    listed = {(int(status), code) for status, row in rows for code in re.findall("`(.*?)`", row)}
    assert len(listed) == 8
    assert listed <= existing

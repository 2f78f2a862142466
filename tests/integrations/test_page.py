"""The blocks of docs/integrations.md run unchanged and print the documented output."""

import os
import re
import subprocess
import sysconfig
from contextlib import redirect_stdout
from inspect import signature
from io import StringIO

import pytest

from polyseme.integrations.sklearn import ContextualVectorizer
from polyseme.integrations.spacy import Contextualizer
from tests.conftest import ROOT
from tests.environments import python_of

PAGE = (ROOT / "docs/integrations.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)
IN_PROCESS = [block for block in BLOCKS if "bertviz" not in block[0]]
(BERTVIZ,) = [code for code, _ in BLOCKS if "bertviz" in code]


def test_the_blocks_in_one_session_print_the_documented_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = {}
    assert len(IN_PROCESS) == 4
    for code, output in IN_PROCESS:
        printed = StringIO()
        with redirect_stdout(printed):
            exec(code, session)
        assert printed.getvalue() == output != ""


@pytest.mark.clients
def test_the_block_for_bertviz_runs_in_its_environment(tmp_path):
    # The packages of BertViz's environment come first, then those of this one.
    paths = [str(ROOT / "service"), sysconfig.get_path("purelib")]
    script = f"import sys\nsys.path += {paths}\n{BERTVIZ}"
    done = subprocess.run(
        [python_of("bertviz"), "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "IPython.core.display.Javascript" in done.stdout


@pytest.mark.parametrize("class_", [Contextualizer, ContextualVectorizer])
def test_every_setting_is_on_the_page(class_):
    for name in set(signature(class_).parameters) - {"nlp", "name"}:
        assert f"`{name}`" in PAGE

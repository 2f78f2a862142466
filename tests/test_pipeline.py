"""The examples of docs/importing.md, run with real vectors, print the documented output."""

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import COMMAND, ROOT, printed, start
from tests.environments import python_of
from tests.pages import section

PAGE = section("importing.md", "An example")
VECTORS = ROOT.parent / "shared/data/vectors"
BLOCKS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [line.split() for line in re.findall(r"^polyseme .*$", PAGE, re.MULTILINE)]


@pytest.mark.slow
def test_the_blocks_of_the_page_print_the_documented_output(tmp_path):
    for module in ("sklearn", "spacy"):
        pytest.importorskip(module, reason=f"needs the extra [{module}]")
    if not VECTORS.is_dir():
        pytest.skip("needs the vectors in shared/data")
    (_, *importing), (_, _, *serving) = COMMANDS
    models = {**os.environ, "POLYSEME_MODELS_DIR": str(tmp_path)}
    file = importing.index("glove.6B.50d.9k.txt.gz")
    importing[file] = str(VECTORS / importing[file])
    subprocess.run([*COMMAND, *importing], env=models, check=True, capture_output=True)
    process, address = start(tmp_path / "log", models_dir=tmp_path, model=serving[1])
    program = "".join(block for block, _ in BLOCKS).replace("http://localhost:8001", address)
    output = printed(program, process, env={**models, "POLYSEME_URL": address})
    assert output == "".join(text for _, text in BLOCKS)


@pytest.mark.clients
def test_russian_vectors_are_imported_as_the_page_says(tmp_path):
    page = section("importing.md", "Another language")
    write, show = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (line,) = re.findall(r"^polyseme (.*)$", page, re.MULTILINE)
    environment = {**os.environ, "POLYSEME_MODELS_DIR": str(tmp_path)}
    options = {"cwd": tmp_path, "env": environment, "capture_output": True}
    subprocess.run([python_of("navec"), "-c", write], check=True, **options)
    subprocess.run([*COMMAND, *line.split()], check=True, **options)
    done = subprocess.run([sys.executable, "-c", show], check=True, text=True, **options)
    assert f"```text\n{done.stdout}```" in page

"""docs/tour.md: its blocks, run in order in a folder of their own, print the documented output."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, printed, start

PAGE = (ROOT / "docs/tour.md").read_text("utf-8")
(DOWNLOAD,) = re.findall(r"\]\((\S+\.txt)\)", PAGE)
BLOCKS = re.findall(r"```(sh|python|text)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
def test_the_blocks_of_the_tour_print_the_documented_output(tmp_path):
    pytest.importorskip("sklearn", reason="needs the extra [sklearn]")
    shutil.copy(ROOT / "docs" / DOWNLOAD, tmp_path)
    (tmp_path / "models").mkdir()
    process, address = start(tmp_path / "log")
    environment = {
        **os.environ,
        "POLYSEME_MODELS_DIR": str(tmp_path / "models"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    program = ["import subprocess"]
    for kind, block in BLOCKS[1:]:
        if kind == "sh":
            done = f"subprocess.run({block!r}, shell=True, check=True, stdout=subprocess.DEVNULL)"
            program.append(done)
        elif kind == "python":
            program.append(block)
    source = "\n".join(program).replace("http://localhost:8000", address)
    output = printed(source, process, cwd=tmp_path, env=environment)
    assert output == "".join(block for kind, block in BLOCKS if kind == "text")

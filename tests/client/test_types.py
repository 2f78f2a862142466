"""mypy --strict checks programs against the types of an installed Polyseme.

It accepts clients and models in this process as encoders, and nothing else. It finds no error in
the programs of README.md and docs/client.md.
"""

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

PROGRAM = """
import numpy as np
from numpy.typing import NDArray

import polyseme
from polyseme.client import AsyncClient, Client, EncodedToken, Encoder, LocalModel, Sentence


def contextual(encoder: Encoder) -> NDArray[np.float32]:
    sentences: list[Sentence] = encoder.encode(["river bank"], layers="last", heads="mean")
    similarity: float = sentences[0]["bank"].contextual @ sentences[0].contextual[1]
    print(similarity, sentences[0].attention.shape, sentences[0].arrays.get("static"))
    for one in encoder.encode_each(iter(["bank"]), include=["static"]):
        print(one.words, one.tokens[0].resolution)
    bank: EncodedToken = sentences[0]["bank"]
    second = sentences[0].find("bank", nth=1)
    print(bank.key, [token.index for token in sentences[0]], len(sentences[0]), second)
    vector: NDArray[np.floating] = encoder.vector("river bank", "bank", kind="features")
    print(vector.shape, encoder.compare([("bank", "bank")]).static_similarity.round(2))
    return encoder.embed(["river bank"], dimensions=encoder.dimension)


contextual(polyseme.load())
contextual(Client("http://localhost:8000", timeout=5))
"""
MISTAKES = """
contextual(AsyncClient("http://localhost:8000"))
polyseme.load().encode(["bank"], layers="first")
polyseme.load().encode(["bank"], layer=0)
Client("http://localhost:8000", patience=5)
polyseme.load().encode(["bank"])[0][1.0]
polyseme.load().vector("bank", "bank", kind="attention")
polyseme.load().vector("bank", "bank", layers="all")
polyseme.load().compare([("bank", "bank")], phrases="yes")
polyseme.load().senses("bank", ["bank"], case="auto")
AsyncClient("http://localhost:8000").compare([("bank", "bank")], neighbours=5)
"""


def blocks(page):
    """The Python blocks of a page, as one program."""
    text = (ROOT / page).read_text("utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


@pytest.mark.slow
def test_clients_and_models_are_encoders_and_every_mistake_is_found(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM + MISTAKES)
    (tmp_path / "readme.py").write_text(blocks("README.md"))
    (tmp_path / "page.py").write_text(blocks("docs/client.md"))
    done = subprocess.run(
        [
            # As a user runs it: without this project's settings. mypy reads the types of packages
            # on PYTHONPATH only if they have a `py.typed`.
            *(sys.executable, "-m", "mypy", "--strict", "--config-file="),
            *("--cache-dir", tmp_path / "cache", "--no-error-summary"),
            *(tmp_path / name for name in ("program.py", "readme.py", "page.py")),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "service")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    first = len(PROGRAM.splitlines()) + 2
    assert "readme.py" not in done.stdout and "page.py" not in done.stdout, done.stdout
    found = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    mistakes = range(first, first + len(MISTAKES.strip().splitlines()))
    assert set(found) == set(mistakes), done.stdout + done.stderr

"""mypy accepts clients and models in this process as encoders, and nothing else."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

PROGRAM = """
import numpy as np
from numpy.typing import NDArray

import polyseme
from polyseme.client import AsyncClient, Client, Encoder, LocalModel, Sentence


def contextual(encoder: Encoder) -> NDArray[np.float32]:
    sentences: list[Sentence] = encoder.encode(["river bank"], layers="last", heads="mean")
    assert sentences[0].contextual is not None
    for one in encoder.encode_each(iter(["bank"]), include=["static"]):
        print(one.words, one.tokens[0].resolution)
    return encoder.embed(["river bank"], dimensions=encoder.dimension)


contextual(polyseme.load())
contextual(Client("http://localhost:8000", timeout=5))
"""
WRONG = """
contextual(AsyncClient("http://localhost:8000"))
polyseme.load().encode(["bank"], layers="first")
polyseme.load().encode(["bank"], layer=0)
Client("http://localhost:8000", patience=5)
"""


@pytest.mark.slow
def test_both_are_encoders_and_what_is_wrong_is_found(tmp_path):
    (tmp_path / "asking.py").write_text(PROGRAM + WRONG)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"),
            *("--cache-dir", tmp_path / "cache", "--no-error-summary", tmp_path / "asking.py"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    first = len(PROGRAM.splitlines()) + 2
    found = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    assert set(found) == set(range(first, first + 4)), done.stdout + done.stderr

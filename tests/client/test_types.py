"""mypy --strict reads the types of an installed Polyseme, and finds what is wrong.

It accepts clients and models in this process as encoders, and nothing else.
"""

import os
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
    assert sentences[0].contextual is not None
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
WRONG = """
contextual(AsyncClient("http://localhost:8000"))
polyseme.load().encode(["bank"], layers="first")
polyseme.load().encode(["bank"], layer=0)
Client("http://localhost:8000", patience=5)
polyseme.load().encode(["bank"])[0][1.0]
polyseme.load().vector("bank", "bank", kind="attention")
"""


@pytest.mark.slow
def test_both_are_encoders_and_what_is_wrong_is_found(tmp_path):
    (tmp_path / "asking.py").write_text(PROGRAM + WRONG)
    done = subprocess.run(
        [
            # As a user runs it: without this project's settings, and with Polyseme as a package on
            # the path of the interpreter, whose types mypy reads only because of `py.typed`.
            *(sys.executable, "-m", "mypy", "--strict", "--config-file="),
            *("--cache-dir", tmp_path / "cache", "--no-error-summary", tmp_path / "asking.py"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "service")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    first = len(PROGRAM.splitlines()) + 2
    found = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    assert set(found) == set(range(first, first + 6)), done.stdout + done.stderr

"""Answers stay the same to the last bit, from one version to the next.

The golden files are written by `python -m tests.golden.test_golden`, with the kernels below, and
only where an answer is meant to change.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
KERNELS = {
    "OPENBLAS_CORETYPE": "Haswell",
    # By the names of NumPy 2.4, and by those before it; what a NumPy does not know is ignored.
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0"
    else "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
}


def answers(folder):
    """What `answers.py` finds on the kernels of AVX2: digests and numbers."""
    environment = {n: v for n, v in os.environ.items() if not n.startswith("POLYSEME_")}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.golden.answers", str(folder)],
        check=True,
        cwd=HERE.parents[1],
        env=environment | KERNELS,
    )
    return json.loads(folder.joinpath("digests.json").read_bytes()), np.load(folder / "numbers.npz")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return answers(tmp_path_factory.mktemp("golden"))


def has_avx2():
    facts = Path("/proc/cpuinfo")
    return platform.machine() == "x86_64" and facts.is_file() and " avx2 " in facts.read_text()


def test_every_answer_has_the_bits_it_had(found):
    if not has_avx2():
        pytest.skip("the golden bits are those of AVX2, which this processor lacks")
    digests, _ = found
    golden = json.loads(HERE.joinpath("digests.json").read_bytes())
    if digests["versions"] != golden["versions"]:
        pytest.skip(f"the golden bits are those of NumPy {golden['versions']['numpy']}")
    differing = [n for n, digest in golden["digests"].items() if digests["digests"][n] != digest]
    assert not differing
    assert digests["digests"].keys() == golden["digests"].keys()


def test_answers_on_any_kernels_are_the_golden_numbers_within_rounding(found):
    _, numbers = found
    golden = np.load(HERE / "numbers.npz")
    assert set(numbers) == set(golden) == {"contextual", "attention"}
    for name in golden:
        assert np.allclose(numbers[name], golden[name], rtol=0, atol=1e-6), name


if __name__ == "__main__":
    answers(HERE)

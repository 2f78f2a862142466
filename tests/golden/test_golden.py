"""Results and responses keep their bits until a change of the arithmetic is intended.

Polyseme promises equal bits for a sentence alone, in a batch and in any worker of one version, and
agreement with the formulas within rounding; it does not promise equal bits across versions. These
digests show that a change which should not touch the arithmetic did not. After one that should,
`python -m tests.golden.test_golden` writes the golden files again, with the variables below.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
VARIABLES = {
    "OPENBLAS_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Haswell",
    # NumPy 2.4 renamed the features, and ignores names that it does not know.
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0"
    else "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
}


def compute_results(folder):
    """The digests and numbers that `results.py` writes with the kernels of AVX2."""
    environment = {n: v for n, v in os.environ.items() if not n.startswith(("POLYSEME_", "OMP_"))}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.golden.results", str(folder)],
        check=True,
        cwd=HERE.parents[1],
        env=environment | VARIABLES,
    )
    return json.loads(folder.joinpath("digests.json").read_bytes()), np.load(folder / "numbers.npz")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return compute_results(tmp_path_factory.mktemp("golden"))


def has_avx2():
    cpus = Path("/proc/cpuinfo")
    return platform.machine() == "x86_64" and cpus.is_file() and " avx2 " in cpus.read_text()


def test_every_result_has_the_golden_bits(found):
    if not has_avx2():
        pytest.skip("the golden bits are those of AVX2, which this processor lacks")
    digests, _ = found
    golden = json.loads(HERE.joinpath("digests.json").read_bytes())
    if digests["versions"] != golden["versions"]:
        pytest.skip(f"the golden bits are those of NumPy {golden['versions']['numpy']}")
    differing = [n for n, digest in golden["digests"].items() if digests["digests"][n] != digest]
    assert not differing
    assert digests["digests"].keys() == golden["digests"].keys()


def test_results_are_the_golden_numbers_within_rounding(found):
    _, numbers = found
    golden = np.load(HERE / "numbers.npz")
    assert set(numbers) == set(golden) == {"contextual", "attention"}
    for name in golden:
        assert np.allclose(numbers[name], golden[name], rtol=0, atol=1e-6), name


if __name__ == "__main__":
    compute_results(HERE)

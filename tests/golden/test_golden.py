"""Results and responses keep their bits until a change of the arithmetic is intended.

Polyseme promises equal bits for a sentence alone, in a batch and in any worker of one version, and
agreement with the formulas within rounding; it does not promise equal bits across versions. These
digests show that a change which should not touch the arithmetic did not. After one that should,
`python -m tests.golden.test_golden` writes `digests.json` and `numbers.npz` again.

The bits of a product depend on the threads of BLAS and on the kernels that BLAS and NumPy choose
for the processor, so variables of a process select one thread, as in the service, and the kernels
of AVX2, which current x86-64 servers have.
"""

import hashlib
import io
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from polyseme.engine.attention import Scoring, SentenceArrays
from polyseme.engine.layers import Layer, Residual, contextualize
from polyseme.http import create_app
from tests.engine.cases import projection, random_case, random_layer, random_sentence

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
RECORDED = ("queries", "keys", "values", "scores", "weights")
LENGTHS = (0, 1, 2, 3, 8, 20, 33, 64, 255, 256, 257, 513)
PARTS = ["static", "contextual", "attention", "queries", "keys", "values", "scores"]
TEXTS = [
    "Apple unveiled a new phone and its shares rose on Wall Street.",
    "She bit into an apple, then sat on the bank of the river.",
    "The bank didn't approve the loan; it said the zxqwvb rate wasn't 3.5%.",
    "bank",
    "bank bank",
    "zxqwvb",
    "",
    "The the THE quick-witted e-mail from O'Brien (U.S.) cost $1,000 … naïve 你好 🙂",
    " ".join(f"the river {n} bank of money" for n in range(60)),
]
REQUESTS = {
    "float": {"input": TEXTS},
    "everything": {"input": TEXTS[:8], "include": PARTS, "layers": [0]},
    "mean of heads": {"input": TEXTS, "heads": "mean", "include": ["attention", "scores"]},
    "base64": {"input": TEXTS, "encoding": "base64"},
    "float16": {"input": TEXTS[:3], "encoding": "base64", "dtype": "float16"},
    "lower": {"input": TEXTS, "case": "lower", "include": ["contextual"]},
    "exact": {"input": TEXTS, "case": "exact", "include": ["static"]},
    "one text": {"input": TEXTS[0], "include": []},
    "words": {"input": [["already", "cut", "didn't", "New", "York"], ["bank"]]},
}
COMPARED = {
    "occurrences": [
        {"text": TEXTS[0], "word": "Apple"},
        {"text": TEXTS[1], "word": "apple"},
        {"text": TEXTS[1], "word": "bank"},
        {"text": TEXTS[2], "word": "bank"},
    ]
}


def engine_cases():
    """Random layers: small ones of every kind, and some as wide as real ones."""
    for seed in range(60):
        case = random_case(seed)
        yield f"case {seed}", case.sentence, case.layers
    for n in LENGTHS:
        rng = np.random.default_rng([7, n])
        yield f"wide {n}", random_sentence(rng, n, 100), [random_layer(rng, 100) for _ in range(2)]
    for n in (5, 64, 255):
        for heads, width in ((1, 4), (4, 1), (4, 4)):
            yield f"float64 {n} {heads} {width}", *in_float64(n, heads, width)


def in_float64(n, heads, width):
    """A sentence and a layer in float64."""
    rng = np.random.default_rng([n, heads, width])
    query, key, value = (projection(rng, 20, heads * width) for _ in range(3))
    output = projection(rng, heads * width, 20)
    layer = Layer(heads, query, key, value, output, Scoring(), Residual("add"))
    sentence = random_sentence(rng, n, 20, unknown=0.0)
    wide = SentenceArrays(sentence.vectors.astype(np.float64), sentence.known, sentence.words)
    return wide, [layer.astype(np.float64)]


def engine_digest(sentence, layers):
    digest = hashlib.sha256()
    result = contextualize(sentence, layers, RECORDED)
    for array in (result.contextual, *(r[name] for r in result.records for name in sorted(r))):
        digest.update(
            f"{array.shape} {array.dtype}".encode() + np.ascontiguousarray(array).tobytes()
        )
    return digest.hexdigest()


def write_results(folder):
    """Write the digests and some of the numbers."""
    digests = {name: engine_digest(sentence, layers) for name, sentence, layers in engine_cases()}
    client = create_app().test_client()

    def post(path, body, **headers):
        response = client.post(path, json=body, headers=headers)
        assert response.status_code == 200, response.json
        return response.data

    for name, body in REQUESTS.items():
        digests[f"encode {name}"] = hashlib.sha256(post("/v1/encode", body)).hexdigest()
    npz = post("/v1/encode", {"input": TEXTS, "include": PARTS}, Accept="application/x-npz")
    arrays = dict(np.load(io.BytesIO(npz), allow_pickle=False))
    for name, array in arrays.items():
        header = f"{array.shape} {array.dtype}".encode()
        digests[f"npz {name}"] = hashlib.sha256(header + array.tobytes()).hexdigest()
    others = {
        "/v1/compare": COMPARED,
        "/v1/neighbors": {"word": "bank", "k": 25},
        "/v1/trace": {"text": "Apple unveiled a phone"},
    }
    for path, body in others.items():
        digests[path] = hashlib.sha256(post(path, body)).hexdigest()
    kept = {"contextual": arrays["contextual"][:45], "attention": arrays["attention_0"]}
    np.savez_compressed(folder / "numbers.npz", **kept)
    document = {"versions": {"numpy": version("numpy")}, "digests": digests}
    folder.joinpath("digests.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def compute_results(folder):
    """The digests and numbers that another process writes with the kernels of AVX2."""
    environment = {n: v for n, v in os.environ.items() if not n.startswith(("POLYSEME_", "OMP_"))}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.golden.test_golden", str(folder)],
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
    if sys.argv[1:]:
        write_results(Path(sys.argv[1]))
    else:
        compute_results(HERE)

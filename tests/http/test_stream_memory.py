"""What a worker takes does not grow with the batch whose answer it streams."""

import io
import json
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.conftest import start
from tests.http.versions import workers_of

NDJSON, NPZ = "application/x-ndjson", "application/x-npz"
STATUS = Path("/proc/self/status")
# The same words again and again: the rows of others would be pages of the mapped table.
SENTENCE = "she sat on the bank of the river number {} and read"
FEW, MANY = 1000, 10_000


def peak(process):
    """The most memory that the only worker has had, in kB."""
    (worker,) = workers_of(process.pid)
    lines = Path(f"/proc/{worker}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def ask(client, sentences, accept):
    """Post lines, and read the answer as it comes: how many sentences it has."""
    content = "".join(json.dumps(SENTENCE.format(n % 50)) + "\n" for n in range(sentences))
    headers = {"Content-Type": NDJSON, "Accept": accept}
    query = "/v1/encode?include=contextual&encoding=base64"
    with client.stream("POST", query, content=content, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["transfer-encoding"] == "chunked"
        if accept == NPZ:
            data = io.BytesIO(b"".join(answer.iter_raw()))
            with np.load(data, allow_pickle=False) as arrays:
                assert len(arrays["contextual"]) == arrays["offsets"][-1]
                return len(arrays["offsets"]) - 1
        return sum(chunk.count(b"\n") for chunk in answer.iter_raw())


@pytest.mark.skipif(not STATUS.exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("accept", [NDJSON, NPZ])
def test_ten_thousand_sentences_take_the_memory_of_a_thousand(tmp_path, accept):
    process, address = start(tmp_path / "log", workers=1, threads=1)
    try:
        with httpx.Client(base_url=address, timeout=120) as client:
            for _ in range(2):
                assert ask(client, FEW, accept) == FEW
            before = peak(process)
            assert ask(client, MANY, accept) == MANY
            # The body, its texts and a number for each; the answer has more than 140 MB.
            assert peak(process) - before < 4000
    finally:
        process.terminate()
        process.wait(60)

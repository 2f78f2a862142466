"""The memory of workers: large responses and a shared table."""

from pathlib import Path

import httpx
import numpy as np
import pytest

from polyseme.models.writer import write_model
from tests.http.service import memory, peak, running

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's smaps_rollup"
)
NDJSON = "application/x-ndjson"
SENTENCE = '"she sat on the bank of the river number %d and read, and the tide came in slowly"\n'


@pytest.mark.slow
def test_ten_thousand_sentences_as_ndjson_keep_a_worker_under_120_mb(tmp_path) -> None:
    with running(tmp_path, workers=1, threads=1) as service:
        (worker,) = service.workers()
        content = "".join(SENTENCE % (n % 50) for n in range(10_000))
        headers = {"Content-Type": NDJSON, "Accept": NDJSON}
        url = f"{service.url}/v1/encode?include=contextual&encoding=base64"
        with httpx.stream("POST", url, content=content, headers=headers, timeout=120) as response:
            assert response.status_code == 200
            lines = sum(chunk.count(b"\n") for chunk in response.iter_raw())
        assert lines == 10_000 + 1
        assert peak(worker) < 120_000 << 10


@pytest.mark.slow
def test_a_further_worker_costs_at_most_35_mb_with_400_000_words(tmp_path) -> None:
    rng = np.random.default_rng(1)
    words = [f"w{n}" for n in range(400_000)]
    vectors = rng.standard_normal((400_000, 50)).astype(np.float16)
    write_model(tmp_path / "models" / "large", words, vectors, cased=True)
    with running(tmp_path, models_dir=tmp_path / "models", model="large", workers=2) as service:
        body = {"input": [" ".join(words[n::8000]) for n in range(100)]}
        found = service.every_worker(lambda: service.ask("POST", "/v1/encode", body)[0])
        assert found == [200, 200]
        assert max(memory(w, "Private_Dirty") for w in service.workers()) < 35 << 20

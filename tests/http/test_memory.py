"""The memory of workers: large responses and a shared table."""

from pathlib import Path

import numpy as np
import pytest

from polyseme.models.writer import write_model
from tests.http.service import memory, running

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's smaps_rollup"
)


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

"""Commands write their shards in this process."""

import pytest

from tests.bulk import inline


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    """Let commands write their shards in this process: workers take seconds to start."""

    def write(job, shards, on_shard, *, workers):
        assert workers
        inline(job, shards, on_shard)

    monkeypatch.setattr("polyseme.bulk.run.write_in_processes", write)

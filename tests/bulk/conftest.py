"""Commands write their shards in this process."""

import pytest

from polyseme.bulk.write import write_shard


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    """Let commands write their shards in this process: workers take seconds to start."""

    def write(job, shards, on_shard, *, workers):
        assert workers
        for shard in shards:
            write_shard(job, shard)
            on_shard(shard)

    monkeypatch.setattr("polyseme.bulk.run.write_in_processes", write)

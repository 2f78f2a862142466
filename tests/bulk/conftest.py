"""A fixture that spares the worker processes of the command."""

import pytest

from tests.bulk import inline


@pytest.fixture
def _in_this_process(monkeypatch):
    """Let the command write its shards in this process."""

    def write(job, shards, on_shard, *, workers):
        assert workers
        inline(job, shards, on_shard)

    monkeypatch.setattr("polyseme.bulk.run.write_in_processes", write)

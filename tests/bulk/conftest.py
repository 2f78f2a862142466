"""Commands write their shards in this process; inventories of two words."""

import pytest

from polyseme.client.local import LocalModel
from tests.senses.test_find import MONEY, RIVER


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    """Let commands write their shards in this process: workers take seconds to start."""

    def write(function, shards, on_shard, *, workers, start):
        assert workers and start
        for shard in shards:
            on_shard(shard, function(shard))

    monkeypatch.setattr("polyseme.bulk.run.run_in_processes", write)


@pytest.fixture(scope="package")
def inventories(bundled):
    """The senses of *bank* and of *interest*."""
    texts = {w: [text.replace("bank", w) for text in RIVER + MONEY] for w in ("bank", "interest")}
    return [LocalModel(bundled).senses(w, texts[w], senses=2).inventory for w in texts]


@pytest.fixture(scope="package")
def inventory(inventories):
    """The senses of *bank*."""
    return inventories[0]

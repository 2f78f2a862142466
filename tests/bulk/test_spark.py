"""The recipe of docs/spark.md with PySpark, in its own environment."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import polyseme
from tests.bulk import SENTENCES
from tests.conftest import PYTHONPATH, ROOT
from tests.environments import run_in

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17"),
]


def test_the_recipe_gives_every_row_the_vectors_of_the_service(tmp_path, monkeypatch):
    texts = [f"{text} {number}" for number, text in enumerate(SENTENCES * 8)]
    table = pa.table({"id": range(len(texts)), "text": texts})
    for number in range(2):
        path = tmp_path / "in" / f"{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table.slice(number * 20, 20), path)
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.delenv("SPARK_HOME", raising=False)
    page = ROOT / "docs" / "spark.md"
    arguments = (str(page), str(tmp_path / "in"), str(tmp_path / "out"))
    run_in("spark", "spark_recipe.py", *arguments, seconds=300)
    rows = sorted(pq.read_table(tmp_path / "out").to_pylist(), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(len(texts)))
    local = polyseme.load()
    vectors = np.array([row["vector"] for row in rows], np.float32)
    assert vectors.tobytes() == local.embed(texts).tobytes()
    for row, wanted in zip(rows, local.encode(texts), strict=True):
        assert row["tokens"] == wanted.words
        found = np.array(row["contextual"], np.float32).reshape(-1, 300)
        assert found.tobytes() == wanted.contextual.tobytes()

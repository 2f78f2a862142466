"""Shards as NumPy archives: what /v1/encode answers, and which rows they are of."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import polyseme
from polyseme.encoding.options import EncodeOptions
from tests.bulk import SENTENCES, run_inline, write_lines

ALL = EncodeOptions(include=frozenset({"static", "contextual", "attention"}))


def test_a_shard_is_the_answer_of_the_service_with_the_numbers_of_its_rows(tmp_path, client):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    outcome = run_inline(source, tmp_path / "out", choice=ALL, format="npz", shard_rows=3)
    first = 0
    for name in ("part-00000.npz", "part-00001.npz"):
        texts = SENTENCES[first : first + 3]
        answer = client.post(
            "/v1/encode", json={"input": texts}, headers={"Accept": "application/x-npz"}
        )
        wanted = np.load(io.BytesIO(answer.content), allow_pickle=False)
        found = np.load(tmp_path / "out" / name, allow_pickle=False)
        assert {*found.files} == {*wanted.files, "rows"}
        for member in wanted.files:
            assert found[member].dtype == wanted[member].dtype
            assert found[member].tobytes() == wanted[member].tobytes()
        assert found["rows"].tolist() == list(range(first, first + len(texts)))
        first += 3
    assert outcome.totals.rows == 5


def test_vectors_of_sentences_come_with_it_rounded_once(tmp_path):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    half = EncodeOptions(include=frozenset(), dtype="float16")
    run_inline(source, tmp_path / "out", choice=half, format="npz", pooling="informativeness")
    found = np.load(tmp_path / "out" / "part-00000.npz", allow_pickle=False)
    assert {*found.files} == {"offsets", "tokens", "rows", "vectors"}
    wanted = polyseme.load().embed(SENTENCES).astype(np.float16)
    assert found["vectors"].tobytes() == wanted.tobytes()
    assert found["vectors"].shape == wanted.shape


def test_of_several_files_it_names_the_one_of_each_row(tmp_path):
    (tmp_path / "in").mkdir()
    write_lines(tmp_path / "in" / "a.txt", SENTENCES[:2])
    write_lines(tmp_path / "in" / "b.txt", SENTENCES[2:])
    run_inline(tmp_path / "in", tmp_path / "out", format="npz")
    found = np.load(tmp_path / "out" / "part-00000.npz", allow_pickle=False)
    assert found["files"].tolist() == ["a.txt", "a.txt", "b.txt", "b.txt", "b.txt"]
    assert found["rows"].tolist() == [0, 1, 0, 1, 2]


def test_a_row_without_a_text_has_no_tokens(tmp_path):
    pq.write_table(pa.table({"text": ["the bank", None, "the"]}), tmp_path / "in.parquet")
    outcome = run_inline(tmp_path / "in.parquet", tmp_path / "out", format="npz")
    found = np.load(tmp_path / "out" / "part-00000.npz", allow_pickle=False)
    assert found["offsets"].tolist() == [0, 2, 2, 3]
    assert outcome.totals.missing == 1


def test_a_shard_that_is_too_large_to_hold_has_the_same_bytes(tmp_path, monkeypatch):
    lines = [f"{text} {number}" for number, text in enumerate(SENTENCES * 200)]
    source = write_lines(tmp_path / "in.txt", lines)
    run_inline(source, tmp_path / "held", format="npz")
    monkeypatch.setattr("polyseme.bulk.job._HELD", 1 << 20)
    run_inline(source, tmp_path / "streamed", format="npz")
    held, streamed = (
        tmp_path.joinpath(one, "part-00000.npz").read_bytes() for one in ("held", "streamed")
    )
    assert held == streamed

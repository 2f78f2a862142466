"""Shards have the rows of the encoder, the columns to keep, and facts about themselves."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyseme.arrow import Encoder
from polyseme.errors import CommandError
from tests.bulk import SENTENCES, lines_of, run_inline, shards_of, table_of, write_lines

TOKENS = {"rows": "tokens", "words": ("bank", "apple")}


@pytest.mark.parametrize("options", [{"pooling": "mean"}, TOKENS], ids=["sentences", "tokens"])
def test_shards_have_the_rows_of_the_encoder(tmp_path, options):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    run_inline(source, tmp_path / "out", shard_rows=2, keep=("text",), **options)
    table = table_of(tmp_path / "out")
    rows = pa.table({"row": range(len(SENTENCES)), "text": SENTENCES})
    expected = Encoder(
        **{"include": "contextual", "pooling": None, "keep": ("row", "text"), **options}
    )
    assert table.equals(expected(rows))
    assert table.schema.names == expected.schema(rows.schema).names
    for compression in ("none", "zstd"):
        out = tmp_path / compression
        run_inline(source, out, keep=("text",), compression=compression, **options)
        assert table_of(out).equals(table)
        group = pq.read_metadata(out / "part-00000.parquet").row_group(0)
        columns = [group.column(i) for i in range(group.num_columns)]
        numbers = [one for one in columns if one.physical_type == "FLOAT"]
        codec = {"none": "UNCOMPRESSED", "zstd": "ZSTD"}[compression]
        assert {one.compression for one in numbers} == {codec}
        split = {"BYTE_STREAM_SPLIT" in one.encodings for one in numbers}
        assert split == {compression == "zstd"}


def test_kept_columns_of_any_type_have_their_values(tmp_path):
    columns = {
        "dictionary": pa.array(["x", None, "x"]).dictionary_encode(),
        "large": pa.array(["x", None, "y"], pa.large_string()),
        "bytes": pa.array([b"\xff", None, b""]),
        "fixed": pa.array([b"abc", None, b"def"], pa.binary(3)),
        "struct": pa.array([{"a": "x", "b": [1]}, None, {"a": None, "b": []}]),
        "lists": pa.array([[["x"], []], None, []]),
        "map": pa.array([[("k", "v")], None, []], pa.map_(pa.string(), pa.string())),
        "decimal": pa.array(["1.10", None, "-0.01"]).cast(pa.decimal128(10, 2)),
        "dotted.name": pa.array([1.5, None, -0.0]),
    }
    table = pa.table({"text": ["a", "b", "c"], **columns})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=2)
    run_inline(tmp_path / "in.parquet", tmp_path / "out", keep=tuple(columns))
    kept = table_of(tmp_path / "out").select([*columns])
    assert kept.equals(table.select([*columns]))


def test_kept_values_that_json_lacks_are_strings_or_an_error(tmp_path):
    columns = {"bytes": pa.array(["ä".encode(), b"\xff"]), "nested": pa.array([[b"a"], None])}
    source, keep = tmp_path / "in.parquet", ("bytes", "nested")
    pq.write_table(pa.table({"text": ["a", "b"], **columns}), source)
    run_inline(source, tmp_path / "out", keep=keep, format="jsonl")
    kept = [[line[name] for name in keep] for line in lines_of(tmp_path / "out")]
    assert kept == [["ä", ["a"]], ["\\xff", None]]
    # Python has no dates after the year 9999.
    date, time = pa.array([10**8], pa.int32()).cast(pa.date32()), pa.array([10**17])
    for i, far in enumerate((date, time.cast(pa.timestamp("ms")))):
        pq.write_table(pa.table({"text": ["a"], "k": far}), source)
        with pytest.raises(
            CommandError, match="JSON lines cannot have, such as one after the year"
        ):
            run_inline(source, tmp_path / f"{i}", keep=("k",), format="jsonl")


@pytest.mark.parametrize(
    "options",
    [{"pooling": "mean"}, {"pooling": "mean", "include": ()}, {"rows": "tokens"}],
    ids=str,
)
def test_large_batch_is_written_in_pieces_with_the_same_rows(tmp_path, monkeypatch, options):
    lines = [f"{text} {i}" for i, text in enumerate(SENTENCES * 4)]
    source = write_lines(tmp_path / "in.txt", lines)
    monkeypatch.setattr("polyseme.arrow._BATCH_ROWS", 3)
    run_inline(source, tmp_path / "one", keep=("text",), **options)
    metadata = pq.read_metadata(tmp_path / "one" / "part-00000.parquet")
    assert metadata.num_row_groups == 1
    for name in ("polyseme.arrow.GROUP_BYTES", "polyseme.bulk.write.GROUP_BYTES"):
        monkeypatch.setattr(name, 3000)
    monkeypatch.setattr("polyseme.arrow._BATCH_BYTES", 300)
    run_inline(source, tmp_path / "many", keep=("text",), **options)
    file = tmp_path / "many" / "part-00000.parquet"
    assert pq.read_metadata(file).num_row_groups > 5
    assert table_of(tmp_path / "many").equals(table_of(tmp_path / "one"))


def test_source_without_rows_has_one_shard_with_the_columns(tmp_path):
    source = write_lines(tmp_path / "in.txt", [])
    run_inline(source, tmp_path / "out", pooling="mean")
    names = ["_bulk.json", "_part-00000.json", "part-00000.parquet"]
    assert sorted(shards_of(tmp_path / "out")) == names
    table = table_of(tmp_path / "out")
    assert len(table) == 0
    assert {"tokens", "contextual", "vector"} <= set(table.column_names)


@pytest.mark.parametrize(
    "options",
    [TOKENS, {"include": ("static", "attention"), "pooling": "mean"}, {"dtype": "float16"}],
    ids=["tokens", "sentences", "float16"],
)
def test_lines_of_json_have_the_values_of_parquet(tmp_path, options):
    source = tmp_path / "in.parquet"
    texts = ["the river bank", None, "", "An apple"]
    kept = pa.array([1, None, 3, 4], pa.decimal128(4, 2))
    pq.write_table(pa.table({"text": texts, "id": kept}), source)
    for kind in ("parquet", "jsonl"):
        run_inline(source, tmp_path / kind, keep=("id",), format=kind, shard_rows=3, **options)
    rows = table_of(tmp_path / "parquet").to_pylist()
    # Numbers of JSON have the digits of their type.
    real = {"float16": np.float16}.get(options.get("dtype"), np.float32)

    def rounded(value):
        if isinstance(value, list):
            return [rounded(one) for one in value]
        return real(value) if isinstance(value, float) else value

    for row, line in zip(rows, lines_of(tmp_path / "jsonl"), strict=True):
        row["id"] = row["id"] and str(row["id"])
        assert list(row) == list(line)
        assert rounded([*line.values()]) == rounded([*row.values()])

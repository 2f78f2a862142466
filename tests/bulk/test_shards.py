"""Shards have the rows of the encoder, the columns to keep, and facts about themselves."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyseme.arrow import FLOAT_COLUMNS, Encoder
from polyseme.errors import CommandError
from tests.bulk import SENTENCES, lines_of, run_inline, shards_of, table_of, write_lines

OPTIONS = {
    "arrays": {"include": ("static", "attention"), "pooling": "mean", "keep": ("row", "id")},
    "vectors": {"include": (), "pooling": "mean", "keep": ("row", "text")},
    "float16": {"include": "contextual", "dtype": "float16", "keep": ("row", "text", "id")},
    "words": {"rows": "tokens", "words": ("bank", "apple"), "keep": ("row",)},
    "tokens": {"rows": "tokens", "keep": ("row", "text")},
}
ROWS = pa.table(
    {
        "row": range(21),
        "text": [f"{text} {i}" for i, text in enumerate(SENTENCES * 4)] + [None],
        "id": pa.array([1, None, 3] * 7, pa.decimal128(4, 2)),
    }
)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_shards_have_the_rows_of_the_encoder(tmp_path, monkeypatch, options):
    """Also those written in pieces, compressed, and as lines of JSON."""
    encode = Encoder(**{"pooling": None, **options})
    expected = encode(ROWS)
    pq.write_table(ROWS, tmp_path / "in.parquet")
    monkeypatch.setattr("polyseme.arrow._BATCH_ROWS", 3)

    def read(name, **of_job):
        keep = options["keep"][1:]  # the command adds `row`
        run_inline(tmp_path / "in.parquet", tmp_path / name, **options | of_job | {"keep": keep})
        if name == "jsonl":
            return lines_of(tmp_path / name)
        assert table_of(tmp_path / name).equals(expected)
        return pq.read_metadata(tmp_path / name / "part-00000.parquet")

    assert read("one").num_row_groups == 1
    for name, codec in (("none", "UNCOMPRESSED"), ("zstd", "ZSTD")):
        group = read(name, compression=name, shard_rows=8).row_group(0)
        columns = [group.column(i) for i in range(group.num_columns)]
        floats = [one for one in columns if one.path_in_schema.split(".")[0] in FLOAT_COLUMNS]
        assert {one.compression for one in floats} == {codec}
        split = {"BYTE_STREAM_SPLIT" in one.encodings for one in floats}
        assert split == {name == "zstd"}
    # Numbers of JSON have the digits of their type.
    real = np.dtype(encode.dtype).type

    def rounded(value):
        if isinstance(value, list):
            return [rounded(one) for one in value]
        return real(value) if isinstance(value, float) else value

    for row, line in zip(expected.to_pylist(), read("jsonl", format="jsonl"), strict=True):
        if "id" in row:
            row["id"] = row["id"] and str(row["id"])
        assert list(row) == list(line)
        assert rounded([*line.values()]) == rounded([*row.values()])
    for name in ("polyseme.arrow.GROUP_BYTES", "polyseme.bulk.write.GROUP_BYTES"):
        monkeypatch.setattr(name, 3000)
    monkeypatch.setattr("polyseme.arrow._BATCH_BYTES", 300)
    assert read("pieces").num_row_groups > 3


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


def test_source_without_rows_has_one_shard_with_the_columns(tmp_path):
    source = write_lines(tmp_path / "in.txt", [])
    run_inline(source, tmp_path / "out", pooling="mean")
    names = ["_bulk.json", "_part-00000.json", "part-00000.parquet"]
    assert sorted(shards_of(tmp_path / "out")) == names
    table = table_of(tmp_path / "out")
    assert len(table) == 0
    assert {"tokens", "contextual", "vector"} <= set(table.column_names)

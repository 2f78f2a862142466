"""Shards in Parquet and as NumPy archives have the contents of the service's responses."""

import hashlib
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import polyseme
from polyseme.arrow import METADATA_KEY
from polyseme.errors import CommandError
from polyseme.models.reader import bundled_models
from polyseme.settings import BUNDLED
from tests.bulk import SENTENCES, run_inline, shards_of, table_of, write_lines

ALL = ["static", "contextual", "features", "attention"]


@pytest.fixture(scope="module")
def local():
    return polyseme.load()


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The table of a job with every array, the pooled vector and the texts."""
    folder = tmp_path_factory.mktemp("all")
    source = write_lines(folder / "in.txt", SENTENCES)
    options = {
        "include": ALL,
        "pooling": "informativeness",
        "wordless": "zero",
        "keep": ("text",),
    }
    run_inline(source, folder / "out", shard_rows=2, **options)
    return table_of(folder / "out")


def test_every_row_is_present_once_and_in_order(table):
    assert table["row"].to_pylist() == [0, 1, 2, 3, 4]
    assert table["text"].to_pylist() == SENTENCES


@pytest.mark.parametrize("part", ALL)
def test_arrays_have_the_bits_of_the_response(table, local, part):
    for row, answer in zip(table[part], local.encode(SENTENCES, include=[part]), strict=True):
        wanted = getattr(answer, part)
        found = np.array(row.as_py(), np.float32).reshape(wanted.shape)
        assert found.tobytes() == wanted.tobytes()


def test_tokens_point_into_the_text_and_have_their_resolution(table):
    for row in table.to_pylist():
        places = zip(row["starts"], row["stops"], strict=True)
        assert [row["text"][start:end] for start, end in places] == row["tokens"]
    place = row["tokens"].index("unbankable")
    assert (row["resolutions"][place], row["keys"][place]) == ("subword", None)
    assert (row["resolutions"][place + 1], row["keys"][place + 1]) == ("exact", "is")


def test_the_pooled_vector_is_that_of_embed(table, local):
    found = np.array(table["vector"].to_pylist(), np.float32)
    assert found.tobytes() == local.embed(SENTENCES, pooling="informativeness").tobytes()


def test_columns_have_the_types_that_are_documented(table):
    vectors = pa.list_(pa.list_(pa.float32(), 300))
    assert {field.name: field.type for field in table.schema} == {
        "row": pa.int64(),
        "text": pa.string(),
        "error": pa.string(),
        "truncated": pa.int32(),
        **dict.fromkeys(("tokens", "keys", "resolutions"), pa.list_(pa.string())),
        **dict.fromkeys(("starts", "stops"), pa.list_(pa.int32())),
        **dict.fromkeys(("static", "contextual"), vectors),
        "features": pa.list_(pa.list_(pa.float32(), 600)),
        "attention": pa.list_(pa.float32()),
        "vector": pa.list_(pa.float32(), 300),
    }


def test_without_arrays_only_the_pooled_vector_is_written(tmp_path, local):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    run_inline(source, tmp_path / "out", include=(), pooling="mean", wordless="zero")
    table = table_of(tmp_path / "out")
    assert table.column_names == ["row", "error", "truncated", "vector"]
    found = np.array(table["vector"].to_pylist(), np.float32)
    assert found.tobytes() == local.embed(SENTENCES, pooling="mean").tobytes()


def test_float16_numbers_are_float32_ones_rounded_once(tmp_path, local):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    options = {"dtype": "float16", "pooling": "informativeness", "wordless": "zero"}
    run_inline(source, tmp_path / "out", **options)
    table = table_of(tmp_path / "out")
    assert table.schema.field("vector").type == pa.list_(pa.float16(), 300)
    answers = local.encode(SENTENCES)
    for row, answer in zip(table["contextual"], answers, strict=True):
        found = np.array(row.as_py(), np.float16).reshape(-1, 300)
        assert found.tobytes() == answer.contextual.astype(np.float16).tobytes()
    vectors = np.array(table["vector"].to_pylist(), np.float16)
    wanted = local.embed(SENTENCES, pooling="informativeness").astype(np.float16)
    assert vectors.tobytes() == wanted.tobytes()


def test_compressed_files_are_smaller_and_have_the_same_numbers(tmp_path):
    source = write_lines(tmp_path / "in.txt", SENTENCES * 50)
    for compression in ("none", "zstd"):
        run_inline(source, tmp_path / compression, compression=compression)
    assert table_of(tmp_path / "zstd").equals(table_of(tmp_path / "none"))
    plain, compressed = (
        (tmp_path / name / "part-00000.parquet").stat().st_size for name in ("none", "zstd")
    )
    assert compressed < 0.95 * plain


def test_row_without_a_text_has_nulls_and_shifts_no_other(tmp_path, local, monkeypatch):
    monkeypatch.setattr("polyseme.arrow._BATCH_ROWS", 2)
    texts = ["the river bank", None, "", None, "the money bank"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    outcome = run_inline(tmp_path / "in.parquet", tmp_path / "out", pooling="mean")
    rows = table_of(tmp_path / "out").to_pylist()
    assert [row["row"] for row in rows] == [0, 1, 2, 3, 4]
    lengths = [None if row["tokens"] is None else len(row["tokens"]) for row in rows]
    assert lengths == [3, None, 0, None, 3]
    for number in (1, 3):
        assert {value for name, value in rows[number].items() if name != "row"} == {None}
    assert rows[2]["vector"] is None
    last = np.array(rows[4]["contextual"], np.float32)
    assert last.tobytes() == local.encode(["the money bank"])[0].contextual.tobytes()
    assert outcome.counts.missing == 2


def test_pre_tokenized_words_have_no_offsets(tmp_path, local):
    words = [["the", "bank"], ["New York", "river"]]
    pq.write_table(pa.table({"words": words}), tmp_path / "in.parquet")
    run_inline(tmp_path / "in.parquet", tmp_path / "out", column="words")
    rows = table_of(tmp_path / "out").to_pylist()
    assert [row["tokens"] for row in rows] == words
    assert rows[1]["starts"] == [None, None]
    found = np.array(rows[1]["contextual"], np.float32)
    assert found.tobytes() == local.encode(words)[1].contextual.tobytes()


def test_a_sentence_over_the_limit_is_rejected_by_its_row(tmp_path):
    lines = ["short", "short", "a b c d e f g", "short"]
    source = write_lines(tmp_path / "in.txt", lines)
    with pytest.raises(CommandError) as caught:
        run_inline(source, tmp_path / "out", max_sentence_tokens=5, on_error="fail")
    assert caught.value.sentence.startswith("Row 2 of in.txt: A sentence has too many tokens: 7")
    assert "`truncate`" in caught.value.sentence
    assert not list((tmp_path / "out").glob("*part*"))


def test_a_truncated_sentence_has_the_number_of_its_removed_tokens(tmp_path):
    source = write_lines(tmp_path / "in.txt", ["short", "a b c d e f g"])
    outcome = run_inline(source, tmp_path / "out", max_sentence_tokens=5, truncate=True)
    assert table_of(tmp_path / "out")["truncated"].to_pylist() == [0, 2]
    assert outcome.counts.truncated == 2


def test_kept_columns_are_unchanged(tmp_path):
    table = pa.table({"id": pa.array([7, None, 9], pa.int16()), "text": ["a", "b", "c"]})
    pq.write_table(table, tmp_path / "in.parquet")
    run_inline(tmp_path / "in.parquet", tmp_path / "out", keep=("id", "text"), shard_rows=2)
    kept = table_of(tmp_path / "out").select(["id", "text"])
    assert kept.equals(table)


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


FAR = [pa.array([10**8], pa.int32()).cast(pa.date32()), pa.array([10**17], pa.timestamp("ms"))]


@pytest.mark.parametrize("far", FAR, ids=["date", "time"])
def test_a_date_that_python_lacks_is_an_error_in_lines_of_json(tmp_path, far):
    pq.write_table(pa.table({"text": ["a"], "k": far}), tmp_path / "in.parquet")
    with pytest.raises(CommandError, match="JSON lines cannot have, such as one after the year"):
        run_inline(tmp_path / "in.parquet", tmp_path / "out", keep=("k",), format="jsonl")


def test_a_kept_column_may_have_the_internal_name_of_the_texts(tmp_path):
    source = write_lines(tmp_path / "in.jsonl", ['{"text": "a bank", "_texts": "b"}'])
    run_inline(source, tmp_path / "out", keep=("_texts",))
    assert table_of(tmp_path / "out")["_texts"].to_pylist() == ["b"]


@pytest.mark.parametrize(
    "options",
    [
        {"pooling": "mean"},
        {"pooling": "mean", "include": ()},
        {"rows": "tokens"},
    ],
    ids=str,
)
def test_a_large_batch_is_written_in_pieces_with_the_same_rows(tmp_path, monkeypatch, options):
    lines = [f"{text} {number}" for number, text in enumerate(SENTENCES * 4)]
    source = write_lines(tmp_path / "in.txt", lines)
    run_inline(source, tmp_path / "one", keep=("text",), **options)
    monkeypatch.setattr("polyseme.arrow.GROUP_BYTES", 3000)
    monkeypatch.setattr("polyseme.bulk.shards.GROUP_BYTES", 3000)
    monkeypatch.setattr("polyseme.arrow._BATCH_BYTES", 300)
    run_inline(source, tmp_path / "many", keep=("text",), **options)
    file = tmp_path / "many" / "part-00000.parquet"
    assert pq.read_metadata(file).num_row_groups > 5
    assert table_of(tmp_path / "many").equals(table_of(tmp_path / "one"))


def test_the_totals_are_those_of_the_rows(tmp_path):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    outcome = run_inline(source, tmp_path / "out", shard_rows=2)
    table = table_of(tmp_path / "out")
    job_file = json.loads((tmp_path / "out" / "_bulk.json").read_bytes())
    assert job_file["complete"]
    assert job_file["totals"] == {
        "shards": 3,
        "rows": 5,
        "tokens": sum(map(len, table["tokens"].to_pylist())),
        "unknown": sum(row.count("oov") for row in table["resolutions"].to_pylist()),
        "truncated": 0,
        "missing": 0,
        "failed": 0,
    }
    assert outcome.counts.tokens == job_file["totals"]["tokens"]


def test_a_source_without_rows_has_one_shard_with_the_columns(tmp_path):
    source = write_lines(tmp_path / "in.txt", [])
    run_inline(source, tmp_path / "out", pooling="mean")
    assert set(shards_of(tmp_path / "out")) == {
        "_bulk.json",
        "_part-00000.json",
        "part-00000.parquet",
    }
    table = table_of(tmp_path / "out")
    assert len(table) == 0
    assert {"tokens", "contextual", "vector"} <= set(table.column_names)


def test_invalid_row_is_named_with_its_file(tmp_path):
    (tmp_path / "in").mkdir()
    write_lines(tmp_path / "in" / "a.txt", ["river", "bank"])
    write_lines(tmp_path / "in" / "b.txt", ["apple", "money", "zxqvbnt"])
    with pytest.raises(
        CommandError, match=r"Row 2 of b\.txt: A word .* `oov` with the value `zero`"
    ):
        run_inline(tmp_path / "in", tmp_path / "out", oov="error", on_error="fail")


def test_rows_of_several_files_name_their_file(tmp_path):
    (tmp_path / "in").mkdir()
    write_lines(tmp_path / "in" / "a.txt", SENTENCES[:2])
    write_lines(tmp_path / "in" / "b.txt", SENTENCES[2:])
    run_inline(tmp_path / "in", tmp_path / "out")
    table = table_of(tmp_path / "out")
    assert table["file"].to_pylist() == ["a.txt"] * 2 + ["b.txt"] * 3
    assert table["row"].to_pylist() == [0, 1, 0, 1, 2]


def test_partitions_of_folders_are_kept(tmp_path):
    for name, text in (("year=2024/lang=en%20gb", "bank"), ("year=2025/lang=de", "river")):
        folder = tmp_path / "in" / name
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"text": [text], "id": [1]}), folder / "a.parquet")
    null = tmp_path / "in" / "year=__HIVE_DEFAULT_PARTITION__"
    null.mkdir()
    pq.write_table(pa.table({"text": ["apple"], "id": [2]}), null / "a.parquet")
    run_inline(tmp_path / "in", tmp_path / "out", keep=("id",))
    columns = table_of(tmp_path / "out").select(["id", "year", "lang"]).to_pydict()
    assert columns == {
        "id": [1, 1, 2],
        "year": ["2024", "2025", None],
        "lang": ["en gb", "de", None],
    }


def test_shards_name_the_model_and_its_checksum(tmp_path):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    run_inline(source, tmp_path / "out")
    facts = json.loads(table_of(tmp_path / "out").schema.metadata[METADATA_KEY])
    manifest = (bundled_models() / BUNDLED / "manifest.json").read_bytes()
    assert facts["model"] == BUNDLED
    assert facts["sha256"] == hashlib.sha256(manifest).hexdigest()
    assert facts["options"]["include"] == ["contextual"]

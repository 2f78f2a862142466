"""Shards in Parquet and as NumPy archives have the contents of the service's responses."""

import io
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import polyseme
from polyseme.errors import CommandError
from polyseme.operations.options import EncodeOptions
from tests.bulk import SENTENCES, job_of, run_inline, shards_of, table_of, write_lines

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
        "encoding": EncodeOptions(include=ALL),
        "pooling": "informativeness",
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
        places = zip(row["starts"], row["ends"], strict=True)
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
        "truncated": pa.int32(),
        **dict.fromkeys(("tokens", "keys", "resolutions"), pa.list_(pa.string())),
        **dict.fromkeys(("starts", "ends"), pa.list_(pa.int32())),
        **dict.fromkeys(("static", "contextual"), vectors),
        "features": pa.list_(pa.list_(pa.float32(), 600)),
        "attention": pa.list_(pa.float32()),
        "vector": pa.list_(pa.float32(), 300),
    }


def test_without_arrays_only_the_pooled_vector_is_written(tmp_path, local):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    nothing = EncodeOptions(include=[])
    run_inline(source, tmp_path / "out", encoding=nothing, pooling="mean")
    table = table_of(tmp_path / "out")
    assert table.column_names == ["row", "truncated", "vector"]
    found = np.array(table["vector"].to_pylist(), np.float32)
    assert found.tobytes() == local.embed(SENTENCES, pooling="mean").tobytes()


def test_float16_numbers_are_float32_ones_rounded_once(tmp_path, local):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    half = EncodeOptions(include=["contextual"], dtype="float16")
    run_inline(source, tmp_path / "out", encoding=half, pooling="informativeness")
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


def test_a_row_without_a_text_has_nulls_and_shifts_no_other(tmp_path, local):
    texts = ["the river bank", None, "", None, "the money bank"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    outcome = run_inline(tmp_path / "in.parquet", tmp_path / "out", pooling="mean", batch_rows=2)
    rows = table_of(tmp_path / "out").to_pylist()
    assert [row["row"] for row in rows] == [0, 1, 2, 3, 4]
    lengths = [None if row["tokens"] is None else len(row["tokens"]) for row in rows]
    assert lengths == [3, None, 0, None, 3]
    for number in (1, 3):
        assert {value for name, value in rows[number].items() if name != "row"} == {None}
    assert rows[2]["vector"] == [0.0] * 300
    last = np.array(rows[4]["contextual"], np.float32)
    assert last.tobytes() == local.encode(["the money bank"])[0].contextual.tobytes()
    assert outcome.totals.missing == 2


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
    assert "--truncate" in caught.value.sentence
    assert not list((tmp_path / "out").glob("*part*"))


def test_a_truncated_sentence_has_the_number_of_its_removed_tokens(tmp_path):
    source = write_lines(tmp_path / "in.txt", ["short", "a b c d e f g"])
    truncated = EncodeOptions(include=["contextual"], truncate=True)
    outcome = run_inline(source, tmp_path / "out", max_sentence_tokens=5, encoding=truncated)
    assert table_of(tmp_path / "out")["truncated"].to_pylist() == [0, 2]
    assert outcome.totals.truncated == 2


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
        {"pooling": "mean", "encoding": EncodeOptions(include=[])},  # tokens' vectors are in memory
        {"rows": "tokens"},
    ],
    ids=str,
)
def test_a_large_batch_is_written_in_pieces_with_the_same_rows(tmp_path, monkeypatch, options):
    lines = [f"{text} {number}" for number, text in enumerate(SENTENCES * 4)]
    source = write_lines(tmp_path / "in.txt", lines)
    run_inline(source, tmp_path / "one", keep=("text",), **options)
    monkeypatch.setattr("polyseme.bulk.tables._GROUP_NUMBERS", 7000)
    monkeypatch.setattr("polyseme.bulk.tables._BATCH_CHARACTERS", 300)
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
    assert outcome.totals.tokens == job_file["totals"]["tokens"]


def test_a_source_without_rows_has_one_shard_with_the_columns(tmp_path):
    source = write_lines(tmp_path / "in.txt", [])
    run_inline(source, tmp_path / "out", pooling="mean")
    assert set(shards_of(tmp_path / "out")) == {"_bulk.json", "part-00000.parquet"}
    table = table_of(tmp_path / "out")
    assert len(table) == 0
    assert {"tokens", "contextual", "vector"} <= set(table.column_names)


def test_a_worker_rejects_a_model_with_another_checksum(tmp_path):
    job = job_of(tmp_path)
    other = replace(job, sha256="0" * 64)
    with pytest.raises(CommandError, match="or another version of it"):
        other.load_model()


def test_an_archive_is_the_response_of_the_service_with_row_numbers(tmp_path, client):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    outcome = run_inline(
        source, tmp_path / "out", encoding=EncodeOptions(include=ALL), format="npz", shard_rows=3
    )
    first = 0
    for name in ("part-00000.npz", "part-00001.npz"):
        texts = SENTENCES[first : first + 3]
        answer = client.post(
            "/v1/encode",
            json={"input": texts, "include": sorted(ALL)},
            headers={"Accept": "application/x-npz"},
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


def test_pooled_vectors_of_an_archive_are_rounded_once(tmp_path):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    half = EncodeOptions(include=[], dtype="float16")
    run_inline(source, tmp_path / "out", encoding=half, format="npz", pooling="informativeness")
    found = np.load(tmp_path / "out" / "part-00000.npz", allow_pickle=False)
    assert {*found.files} == {"offsets", "tokens", "rows", "vectors"}
    wanted = polyseme.load().embed(SENTENCES, pooling="informativeness").astype(np.float16)
    assert found["vectors"].tobytes() == wanted.tobytes()
    assert found["vectors"].shape == wanted.shape


@pytest.mark.parametrize("kind", ["parquet", "npz"])
def test_an_invalid_row_is_named_with_its_file(tmp_path, kind):
    (tmp_path / "in").mkdir()
    write_lines(tmp_path / "in" / "a.txt", ["river", "bank"])
    write_lines(tmp_path / "in" / "b.txt", ["apple", "money", "zxqvbnt"])
    encoding = EncodeOptions(include=["static"], oov="error")
    with pytest.raises(CommandError, match=r"Row 2 of b\.txt: A word .* --oov zero"):
        run_inline(
            tmp_path / "in", tmp_path / "out", encoding=encoding, format=kind, on_error="fail"
        )


def test_rows_of_several_files_name_their_file(tmp_path):
    (tmp_path / "in").mkdir()
    write_lines(tmp_path / "in" / "a.txt", SENTENCES[:2])
    write_lines(tmp_path / "in" / "b.txt", SENTENCES[2:])
    for kind in ("npz", "parquet"):
        run_inline(tmp_path / "in", tmp_path / kind, format=kind)
    found = np.load(tmp_path / "npz" / "part-00000.npz", allow_pickle=False)
    table = table_of(tmp_path / "parquet")
    names, rows = ["a.txt"] * 2 + ["b.txt"] * 3, [0, 1, 0, 1, 2]
    assert found["files"].tolist() == table["file"].to_pylist() == names
    assert found["rows"].tolist() == table["row"].to_pylist() == rows


def test_a_row_without_a_text_has_no_tokens_in_an_archive(tmp_path):
    pq.write_table(pa.table({"text": ["the bank", None, "the"]}), tmp_path / "in.parquet")
    outcome = run_inline(tmp_path / "in.parquet", tmp_path / "out", format="npz")
    found = np.load(tmp_path / "out" / "part-00000.npz", allow_pickle=False)
    assert found["offsets"].tolist() == [0, 2, 2, 3]
    assert outcome.totals.missing == 1

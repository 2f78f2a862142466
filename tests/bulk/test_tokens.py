"""Rows of tokens: one for each occurrence of the words, with the vector of its token.

`test_shards.py` compares the vectors of sentences with those of the service.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyseme.errors import CommandError
from polyseme.operations.options import EncodeOptions
from tests.bulk import SENTENCES, bulk, inline, run_inline, shards_of, table_of, write_lines

BANKS = {"rows": "tokens", "words": ("bank", "apple")}


def including(part, **options):
    """The options of a job with rows of tokens and this array."""
    return {"rows": "tokens", "encoding": EncodeOptions(include=[part], **options)}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_lines(tmp_path_factory.mktemp("in") / "in.txt", SENTENCES)


@pytest.fixture(scope="module")
def table(source, tmp_path_factory):
    """The occurrences of two words in shards of two sentences, with the texts."""
    out = tmp_path_factory.mktemp("occurrences") / "out"
    run_inline(source, out, keep=("text",), shard_rows=2, **BANKS)
    return table_of(out)


def vectors_of(table):
    return np.stack(table["vector"].to_numpy())


@pytest.fixture(scope="module")
def sentences(source, tmp_path_factory):
    """The tokens, contextual vectors and features of the sentences."""
    out = tmp_path_factory.mktemp("sentences") / "out"
    include = ["contextual", "features"]
    run_inline(source, out, encoding=EncodeOptions(include=include))
    return table_of(out).to_pylist()


def test_every_occurrence_has_a_row_whatever_its_case(table):
    columns = table.select(["row", "place", "token", "start", "end", "key", "resolution"])
    assert [tuple(row.values()) for row in columns.to_pylist()] == [
        (0, 2, "bank", 10, 14, "bank", "exact"),
        (2, 4, "bank", 15, 19, "bank", "exact"),
        (3, 3, "bank", 13, 17, "bank", "exact"),
        (3, 8, "Apple", 33, 38, "Apple", "exact"),
        (3, 10, "apple", 43, 48, "apple", "exact"),
    ]
    for row in table.to_pylist():
        assert row["text"] == SENTENCES[row["row"]]
        assert row["text"][row["start"] : row["end"]] == row["token"]


def test_the_vector_is_that_of_the_token_in_its_sentence(table, sentences):
    wanted = [sentences[row["row"]]["contextual"][row["place"]] for row in table.to_pylist()]
    assert vectors_of(table).tobytes() == np.array(wanted, np.float32).tobytes()


def test_columns_have_the_types_that_are_documented(table):
    assert {field.name: field.type for field in table.schema} == {
        "row": pa.int64(),
        **dict.fromkeys(("text", "token", "key", "resolution"), pa.string()),
        **dict.fromkeys(("place", "start", "end"), pa.int32()),
        "vector": pa.list_(pa.float32(), 300),
    }


def test_with_exact_only_occurrences_in_the_case_of_the_word_have_a_row(source, tmp_path):
    run_inline(source, tmp_path / "out", rows="tokens", words=("Apple",), exact=True)
    assert table_of(tmp_path / "out")["start"].to_pylist() == [33]


def test_without_words_every_token_has_a_row(source, tmp_path, sentences):
    outcome = run_inline(source, tmp_path / "out", **including("features", dtype="float16"))
    table = table_of(tmp_path / "out")
    assert table["token"].to_pylist() == [word for one in sentences for word in one["tokens"]]
    assert table["place"].to_pylist() == [n for one in sentences for n in range(len(one["tokens"]))]
    assert table.schema.field("vector").type == pa.list_(pa.float16(), 600)
    wanted = np.array([row for one in sentences for row in one["features"]], np.float16)
    assert vectors_of(table).tobytes() == wanted.tobytes()
    assert (outcome.totals.rows, outcome.totals.tokens) == (5, len(table))


def test_only_sentences_with_the_words_are_encoded(tmp_path):
    lines = ["the bank", "a b c d e f g", "no embankment here", "the Bank of a river"]
    source = write_lines(tmp_path / "in.txt", lines)
    options = {"rows": "tokens", "max_sentence_tokens": 5}
    outcome = run_inline(source, tmp_path / "out", words=("bank",), **options)
    assert table_of(tmp_path / "out")["row"].to_pylist() == [0, 3]
    assert (outcome.totals.rows, outcome.totals.tokens) == (4, 2)
    with pytest.raises(CommandError, match=r"Row 1 of in\.txt: A sentence has too many tokens: 7"):
        run_inline(source, tmp_path / "other", words=("c",), **options)
    truncated = {**options, **including("contextual", truncate=True)}
    outcome = run_inline(source, tmp_path / "cut", words=("c", "g"), **truncated)
    assert table_of(tmp_path / "cut")["token"].to_pylist() == ["c"]
    assert outcome.totals.truncated == 2


def test_white_space_in_a_phrase_counts_as_one_space(tmp_path):
    texts = ["a high  speed train", "high time", "the High\nspeed line"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    options = including("contextual", phrases=True)
    run_inline(tmp_path / "in.parquet", tmp_path / "out", words=("high speed",), **options)
    assert table_of(tmp_path / "out")["token"].to_pylist() == ["high  speed", "High\nspeed"]


def test_words_of_a_list_have_a_place_and_no_offsets(tmp_path):
    words = [["the", "bank"], None, ["New York", "river", "Bank"]]
    pq.write_table(pa.table({"words": words, "id": ["a", "b", "c"]}), tmp_path / "in.parquet")
    options = {"column": "words", "keep": ("id",), **BANKS}
    outcome = run_inline(tmp_path / "in.parquet", tmp_path / "out", **options)
    table = table_of(tmp_path / "out")
    rows = table.select(["row", "id", "place", "start", "end"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (0, "a", 1, None, None),
        (2, "c", 2, None, None),
    ]
    run_inline(tmp_path / "in.parquet", tmp_path / "sentences", column="words")
    first, _, last = table_of(tmp_path / "sentences")["contextual"].to_pylist()
    assert vectors_of(table).tolist() == [first[1], last[2]]
    assert outcome.totals.missing == 1


def test_a_large_batch_is_written_in_pieces_with_the_same_rows(source, tmp_path, monkeypatch):
    run_inline(source, tmp_path / "one", keep=("text",), rows="tokens")
    monkeypatch.setattr("polyseme.bulk.tables._GROUP_NUMBERS", 4000)
    run_inline(source, tmp_path / "many", keep=("text",), rows="tokens")
    assert pq.read_metadata(tmp_path / "many" / "part-00000.parquet").num_row_groups > 1
    assert table_of(tmp_path / "many").equals(table_of(tmp_path / "one"))


def test_words_that_do_not_occur_give_an_empty_table_with_the_columns(source, tmp_path):
    outcome = run_inline(source, tmp_path / "out", rows="tokens", words=("quark",))
    table = table_of(tmp_path / "out")
    assert len(table) == outcome.totals.tokens == 0
    assert table.column_names[-1] == "vector"


def test_other_words_are_another_job(source, tmp_path):
    run_inline(source, tmp_path / "out", **BANKS)
    before = shards_of(tmp_path / "out")
    with pytest.raises(CommandError, match=r"another job's shards \(other options\)"):
        run_inline(source, tmp_path / "out", rows="tokens", words=("bank",))
    assert shards_of(tmp_path / "out") == before


# Lines of JSON


def lines_of(out):
    """The rows of all shards of lines of JSON."""
    parts = sorted(out.glob("part-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_bytes().splitlines()]


@pytest.mark.parametrize(
    "options",
    [
        BANKS,
        {"encoding": EncodeOptions(include=["static", "attention"]), "pooling": "mean"},
        including("static", dtype="float16"),
    ],
    ids=["occurrences", "sentences", "float16"],
)
def test_lines_of_json_have_the_values_of_parquet(tmp_path, options):
    source = tmp_path / "in.parquet"
    texts = ["the river bank", None, "", "An apple"]
    kept = pa.array([1, None, 3, 4], pa.decimal128(4, 2))
    pq.write_table(pa.table({"text": texts, "id": kept}), source)
    for kind in ("parquet", "jsonl"):
        run_inline(source, tmp_path / kind, keep=("id",), format=kind, shard_rows=3, **options)
    table = table_of(tmp_path / "parquet")
    lines = lines_of(tmp_path / "jsonl")
    numbers = [name for name in table.column_names if name in ("static", "attention", "vector")]
    assert [list(line) for line in lines] == [table.column_names] * len(table)
    for line, row in zip(lines, table.to_pylist(), strict=True):
        row["id"] = row["id"] and str(row["id"])
        for name in numbers:
            found, wanted = line.pop(name), row.pop(name)
            assert (found is None) == (wanted is None)
            if wanted is not None:
                dtype = np.float16 if "float16" in str(table.schema.field(name).type) else "f4"
                assert np.array_equal(np.array(found, dtype), np.array(wanted, dtype))
        assert line == row


def test_a_missing_shard_of_lines_is_written_again_with_its_totals(source, tmp_path):
    out = tmp_path / "out"
    first = run_inline(source, out, format="jsonl", shard_rows=2, **BANKS)
    before = shards_of(out)
    assert {"part-00001.jsonl", "_part-00001.json"} <= before.keys()
    (out / "part-00001.jsonl").unlink()
    again = run_inline(source, out, format="jsonl", shard_rows=2, **BANKS)
    assert (again.progress.rows, again.totals) == (2, first.totals)
    assert shards_of(out) == before
    (out / "_part-00001.json").unlink()
    with pytest.raises(CommandError, match=r"part-00001\.jsonl is damaged: remove it"):
        run_inline(source, out, format="jsonl", shard_rows=2, **BANKS)


# The command


def test_the_command_writes_the_occurrences_of_its_words(source, tmp_path, monkeypatch):
    def write(job, shards, on_shard, *, workers):
        assert workers
        inline(job, shards, on_shard)

    monkeypatch.setattr("polyseme.bulk.run.write_in_processes", write)
    options = ("--rows", "tokens", "--words", "bank, APPLE", "--format", "jsonl")
    code, stdout, stderr = bulk(source, tmp_path / "out", *options)
    assert code == 0, stderr
    assert stdout.decode().startswith("5 rows  5 tokens  0 unknown")
    found = [line["token"] for line in lines_of(tmp_path / "out")]
    assert found == ["bank", "bank", "bank", "Apple", "apple"]
    assert b"no token" not in stderr
    phrase = write_lines(tmp_path / "phrase.txt", ["a high speed train"])
    options = ("--rows", "tokens", "--phrases", "--words", "high  speed", "--format", "jsonl")
    bulk(phrase, tmp_path / "phrase", *options)
    assert [line["token"] for line in lines_of(tmp_path / "phrase")] == ["high speed"]
    options = ("--rows", "tokens", "--words", "zebra")
    code, _, stderr = bulk(source, tmp_path / "none", *options)
    assert code == 0
    assert b"polyseme: no token of the texts is one of the --words." in stderr.splitlines()


def test_a_kept_column_with_the_name_of_another_column_is_rejected(source, tmp_path):
    with pytest.raises(CommandError, match="--keep token: this column name is reserved"):
        run_inline(source, tmp_path / "out", keep=("token",), **BANKS)


WRONG = {
    "words of sentences": (("--words", "bank"), "--words needs --rows tokens"),
    "no words": (("--rows", "tokens", "--words", "bank,"), "give words separated by commas"),
    "exact without words": (("--rows", "tokens", "--exact"), "--exact needs --words"),
    "a pooled vector": (
        ("--rows", "tokens", "--pooling", "sif"),
        "--pooling is for rows of sentences",
    ),
    "an archive": (("--rows", "tokens", "--format", "npz"), "is for Parquet and jsonl"),
    "attention": (("--rows", "tokens", "--include", "attention"), "needs one --include"),
    "two vectors": (
        ("--rows", "tokens", "--include", "static", "--include", "features"),
        "needs one --include",
    ),
    "compressed lines": (("--format", "jsonl", "--compression", "zstd"), "is for Parquet"),
}


@pytest.mark.parametrize(("options", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_invalid_arguments_are_rejected_before_any_work(source, tmp_path, options, sentence):
    code, stdout, stderr = bulk(source, tmp_path / "out", *options)
    assert (code, stdout) == (2, b"")
    assert sentence in stderr.decode()
    assert not (tmp_path / "out").exists()

"""Rows of tokens: one for each occurrence of the words, with the vector of its token.

`test_shards.py` compares the vectors of sentences with those of the service.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyseme.errors import CommandError
from tests.bulk import SENTENCES, lines_of, run_inline, shards_of, table_of, write_lines

BANKS = {"rows": "tokens", "words": ("bank", "apple")}


def including(part, **options):
    """The options of a job with rows of tokens and this array."""
    return {"rows": "tokens", "include": part, **options}


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
    run_inline(source, out, include=("contextual", "features"))
    return table_of(out).to_pylist()


def test_every_occurrence_has_a_row_whatever_its_case(table):
    columns = table.select(["row", "index", "token", "start", "stop", "key", "resolution"])
    assert [tuple(row.values()) for row in columns.to_pylist()] == [
        (0, 2, "bank", 10, 14, "bank", "exact"),
        (2, 4, "bank", 15, 19, "bank", "exact"),
        (3, 3, "bank", 13, 17, "bank", "exact"),
        (3, 8, "Apple", 33, 38, "Apple", "exact"),
        (3, 10, "apple", 43, 48, "apple", "exact"),
    ]
    for row in table.to_pylist():
        assert row["text"] == SENTENCES[row["row"]]
        assert row["text"][row["start"] : row["stop"]] == row["token"]


def test_the_vector_is_that_of_the_token_in_its_sentence(table, sentences):
    wanted = [sentences[row["row"]]["contextual"][row["index"]] for row in table.to_pylist()]
    assert vectors_of(table).tobytes() == np.array(wanted, np.float32).tobytes()


def test_columns_have_the_types_that_are_documented(table):
    assert {field.name: field.type for field in table.schema} == {
        "row": pa.int64(),
        **dict.fromkeys(("text", "error", "token", "key", "resolution"), pa.string()),
        **dict.fromkeys(("truncated", "index", "start", "stop"), pa.int32()),
        "vector": pa.list_(pa.float32(), 300),
    }


def test_with_exact_only_occurrences_in_the_case_of_the_word_have_a_row(source, tmp_path):
    run_inline(source, tmp_path / "out", rows="tokens", words=("Apple",), exact=True)
    assert table_of(tmp_path / "out")["start"].to_pylist() == [33]


def test_without_words_every_token_has_a_row(source, tmp_path, sentences):
    outcome = run_inline(source, tmp_path / "out", **including("features", dtype="float16"))
    table = table_of(tmp_path / "out")
    assert table["token"].to_pylist() == [word for one in sentences for word in one["tokens"]]
    assert table["index"].to_pylist() == [n for one in sentences for n in range(len(one["tokens"]))]
    assert table.schema.field("vector").type == pa.list_(pa.float16(), 600)
    wanted = np.array([row for one in sentences for row in one["features"]], np.float16)
    assert vectors_of(table).tobytes() == wanted.tobytes()
    assert (outcome.counts.rows, outcome.counts.tokens) == (5, len(table))


def test_only_sentences_with_the_words_are_encoded(tmp_path):
    lines = ["the bank", "a b c d e f g", "no embankment here", "the Bank of a river"]
    source = write_lines(tmp_path / "in.txt", lines)
    options = {"rows": "tokens", "max_sentence_tokens": 5}
    outcome = run_inline(source, tmp_path / "out", words=("bank",), **options)
    assert table_of(tmp_path / "out")["row"].to_pylist() == [0, 3]
    assert (outcome.counts.rows, outcome.counts.tokens) == (4, 2)
    with pytest.raises(CommandError, match=r"Row 1 of in\.txt: A sentence has too many tokens: 7"):
        run_inline(source, tmp_path / "other", words=("c",), on_error="fail", **options)
    truncated = {**options, **including("contextual", truncate=True)}
    outcome = run_inline(source, tmp_path / "cut", words=("c", "g"), **truncated)
    assert table_of(tmp_path / "cut")["token"].to_pylist() == ["c"]
    assert outcome.counts.truncated == 2


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
    rows = table.select(["row", "id", "index", "start", "stop"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (0, "a", 1, None, None),
        (2, "c", 2, None, None),
    ]
    run_inline(tmp_path / "in.parquet", tmp_path / "sentences", column="words")
    first, _, last = table_of(tmp_path / "sentences")["contextual"].to_pylist()
    assert vectors_of(table).tolist() == [first[1], last[2]]
    assert outcome.counts.missing == 1


def test_words_that_do_not_occur_give_an_empty_table_with_the_columns(source, tmp_path):
    outcome = run_inline(source, tmp_path / "out", rows="tokens", words=("quark",))
    table = table_of(tmp_path / "out")
    assert len(table) == outcome.counts.tokens == 0
    assert table.column_names[-1] == "vector"


@pytest.mark.parametrize(
    "options",
    [
        BANKS,
        {"include": ("static", "attention"), "pooling": "mean"},
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
    assert (again.progress.rows, again.counts) == (2, first.counts)
    assert shards_of(out) == before
    (out / "_part-00001.json").unlink()
    with pytest.raises(CommandError, match=r"part-00001\.jsonl is damaged: remove it"):
        run_inline(source, out, format="jsonl", shard_rows=2, **BANKS)

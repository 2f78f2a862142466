"""Rows with an error: a job writes all others, lists them, and can be repeated to mend them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import polyseme
from polyseme.bulk import lines as reading
from polyseme.bulk.job import ERRORS
from polyseme.bulk.run import run
from polyseme.bulk.sources import find_files
from polyseme.errors import CommandError
from polyseme.models.reader import read_model
from polyseme.operations.options import EncodeOptions
from tests.bulk import (
    bulk,
    inline,
    job_of,
    lines_of,
    many,
    run_inline,
    shards_of,
    table_of,
    write_lines,
)
from tests.tiny import VECTORS, write_tiny

LONG = "word " * 50
LIMIT = 40
HOSTILE = {
    b'{"text": ': "unreadable",
    b'["a"]': "unreadable",
    b'{"words": "a"}': "unreadable",
    b'{"text": 5}': "unreadable",
    b'{"text": {"text": "a"}}': "unreadable",
    b'{"text": {}}': "unreadable",
    b'{"text": false}': "unreadable",
    b'{"text": [1]}': "unreadable",
    b'{"text": "a", "text": "b"}': "unreadable",
    b'{"text": ["a", null]}': "unreadable",
    b'{"text": ["a list", "among strings"]}': "unreadable",
    b'{"text": "half a character \\ud800"}': "unreadable",
    b'{"text": "\xff\xfe"}': "unreadable",
    b"[" * 2000: "unreadable",
    json.dumps({"text": LONG}).encode(): "too_large",
    json.dumps({"text": "a" + "-b" * 60}).encode(): "too_large",
}
"""Lines without vectors, and the code of their errors."""
HARMLESS = ["", " \t\n", "bank\0bank", "\x1b[31m\x07", "\u202e\ufeff", "x" * 5000, "é" * 300]
"""Texts that look hostile and have vectors."""


@pytest.fixture(scope="module")
def local():
    return polyseme.load()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A hundred hostile lines among other ones; the text of each row, None for hostile lines."""
    texts, lines, codes = [], [], []
    for number, text in enumerate(many(40) + HARMLESS * 10):
        lines.append(json.dumps({"text": text}).encode())
        texts.append(text)
        if number < 100:
            line, code = list(HOSTILE.items())[number % len(HOSTILE)]
            lines.append(line)
            codes.append((len(texts), code))
            texts.append(None)
    path = tmp_path_factory.mktemp("in") / "in.jsonl"
    path.write_bytes(b"\n".join(lines))
    return path, texts, codes


def errors_of(out):
    """The row and the code of each error."""
    entries = [json.loads(line) for line in (out / ERRORS).read_bytes().splitlines()]
    assert all(entry["file"] and entry["error"].endswith(".") for entry in entries)
    return [(entry["row"], entry["code"]) for entry in entries]


@pytest.mark.parametrize("policy", ["null", "skip"])
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "npz"])
def test_a_hundred_hostile_rows_are_listed_and_all_others_have_their_vectors(
    source, local, tmp_path, kind, policy
):
    path, texts, codes = source
    options = {"pooling": "mean", "format": kind, "shard_rows": 32, "batch_rows": 7}
    outcome = run_inline(path, tmp_path, max_sentence_tokens=LIMIT, on_error=policy, **options)
    assert len(codes) == 100
    assert errors_of(tmp_path) == codes
    totals = outcome.totals
    assert (totals.rows, totals.failed, totals.missing) == (len(texts), 100, 0)
    assert outcome.errors == {"too_large": 12, "unreadable": 88}
    present = [row for row, text in enumerate(texts) if text is not None]
    expected = local.encode([texts[row] for row in present], include=["contextual"])
    pooled = local.embed([texts[row] for row in present], pooling="mean")
    wanted = dict(zip(present, zip(expected, pooled, strict=True), strict=True))
    rows = {}
    if kind == "npz":
        for part in sorted(tmp_path.glob("*.npz")):
            archive = np.load(part, allow_pickle=False)
            offsets = archive["offsets"]
            for place, row in enumerate(archive["rows"].tolist()):
                array = archive["contextual"][offsets[place] : offsets[place + 1]]
                rows[row] = (
                    (array if len(array) or row in wanted else None),
                    archive["vectors"][place],
                )
    else:
        table = table_of(tmp_path).to_pylist() if kind == "parquet" else lines_of(tmp_path)
        rows = {row["row"]: (row["contextual"], row["vector"]) for row in table}
    assert list(rows) == (present if policy == "skip" else list(range(len(texts))))
    for row, (array, vector) in rows.items():
        if row in wanted:
            sentence, unit = wanted[row]
            found = np.array(array, np.float32).reshape(-1, 300)
            assert found.tobytes() == sentence.contextual.tobytes()
            assert np.array(vector, np.float32).tobytes() == unit.tobytes()
        else:
            assert array is None
            assert kind == "npz" or vector is None


def test_rows_of_tokens_lack_the_tokens_of_rows_with_an_error(source, local, tmp_path):
    path, texts, codes = source
    options = {"rows": "tokens", "max_sentence_tokens": LIMIT, "shard_rows": 64}
    outcome = run_inline(path, tmp_path, **options)
    assert errors_of(tmp_path) == codes
    present = [row for row, text in enumerate(texts) if text is not None]
    sentences = local.encode([texts[row] for row in present], include=["contextual"])
    table = table_of(tmp_path)
    wanted = [row for row, one in zip(present, sentences, strict=True) for _ in one.tokens]
    assert table["row"].to_pylist() == wanted
    vectors = np.concatenate([one.contextual for one in sentences])
    assert np.stack(table["vector"].to_numpy()).tobytes() == vectors.tobytes()
    assert (outcome.totals.tokens, outcome.totals.failed) == (len(wanted), 100)


DEEP = 300
KEPT = [
    '{"text": "bank", "k": {"a": [1]}}',
    f'{{"text": "river", "k": {"[" * DEEP}{"]" * DEEP}}}',
    '{"text": "money", "k": 2}',
]


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_deeply_nested_value_to_keep_is_an_error_of_its_row(tmp_path, kind):
    source = write_lines(tmp_path / "in.jsonl", KEPT)
    for policy, kept in (("null", ['{"a":[1]}', None, "2"]), ("skip", ['{"a":[1]}', "2"])):
        out = tmp_path / policy
        run_inline(source, out, keep=("k",), on_error=policy, format=kind)
        assert errors_of(out) == [(1, "unreadable")]
        rows = table_of(out).to_pylist() if kind == "parquet" else lines_of(out)
        assert [row["k"] for row in rows] == kept
    with pytest.raises(CommandError, match=r"in\.jsonl: row 1 has a value to keep that is nested"):
        run_inline(source, tmp_path / "fail", keep=("k",), on_error="fail", format=kind)


def test_with_fail_the_first_such_row_ends_the_job(source, tmp_path):
    path, _, _ = source
    with pytest.raises(CommandError, match=r"in\.jsonl: row 1 is not well-formed JSON"):
        run_inline(path, tmp_path, on_error="fail")
    lines = write_lines(tmp_path / "in.txt", ["short", LONG])
    with pytest.raises(CommandError, match=r"Row 1 of in\.txt: A sentence has too many tokens"):
        run_inline(lines, tmp_path / "out", max_sentence_tokens=LIMIT, on_error="fail")


@pytest.mark.parametrize("words", [False, True], ids=["strings", "lists"])
def test_rows_of_parquet_that_are_not_texts_are_listed(tmp_path, words):
    values = pa.py_buffer(b"bank\xff\xferiver")
    offsets = pa.py_buffer(np.array([0, 4, 6, 11], np.int32))
    column = pa.StringArray.from_buffers(3, offsets, values)
    if words:
        ends = pa.array([0, 1, 2, 3, 5], pa.int32())
        column = pa.concat_arrays([column, pa.array(["a", None])])
        column = pa.ListArray.from_arrays(ends, column)
    pq.write_table(pa.table({"text": column, "id": range(len(column))}), tmp_path / "in.parquet")
    outcome = run_inline(tmp_path / "in.parquet", tmp_path / "out", keep=("id",))
    assert errors_of(tmp_path / "out") == [
        (row, "unreadable") for row in ((1, 3) if words else (1,))
    ]
    table = table_of(tmp_path / "out")
    assert table["id"].to_pylist() == list(range(len(column)))
    keys = [["bank"], None, ["river"], *([None] if words else [])]
    assert table["keys"].to_pylist() == keys
    assert outcome.totals.missing == 0


def test_lines_that_are_too_long_or_not_utf8_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_ROW_BYTES", 1000)
    monkeypatch.setattr(reading, "READ_BYTES", 100)
    lines = [b"bank", b"x " * 2000, b"river", b"\xff", b"y" * 1001, b"money"]
    (tmp_path / "in.txt").write_bytes(b"\n".join(lines))
    run_inline(tmp_path / "in.txt", tmp_path / "out")
    assert errors_of(tmp_path / "out") == [(row, "unreadable") for row in (1, 3, 4)]
    keys = table_of(tmp_path / "out")["keys"].to_pylist()
    assert keys == [["bank"], None, ["river"], None, None, ["money"]]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", b'{"words": "a"}\n{"words": "b"}\n'),
        ("a.jsonl", b'{"text": 1}\n{"text": 2}\n'),
        ("a.txt", "bank\nriver\nmoney\n".encode("utf-16")),
        ("a.txt", b"\xff\n\xfe\n"),
    ],
)
def test_a_file_without_any_readable_row_ends_the_job(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CommandError, match=r"a\.(txt|jsonl)"):
        run_inline(tmp_path / name, tmp_path / "out")


OVERFLOWING = {"encoding": EncodeOptions(include=["static"], dtype="float16")}


@pytest.mark.parametrize("policy", ["null", "skip", "fail"])
@pytest.mark.parametrize(
    "options", [{}, {"format": "npz"}, {"rows": "tokens"}], ids=["sentences", "npz", "tokens"]
)
def test_vectors_that_overflow_are_errors_of_their_rows(tmp_path, monkeypatch, policy, options):
    vectors = VECTORS.copy()
    vectors[-1] *= 1e5  # `end`
    model = read_model(write_tiny(tmp_path / "tiny", vectors=vectors))
    monkeypatch.setattr("polyseme.bulk.job._load_model", lambda *_: model)
    texts = ["bank river", "bank end", "river bank", "end"]
    source = write_lines(tmp_path / "in.txt", texts)
    if policy == "fail":
        with pytest.raises(CommandError, match=r"Row 1 of in\.txt: .* --dtype float32"):
            run_inline(source, tmp_path / "out", on_error=policy, **OVERFLOWING, **options)
        return
    run_inline(source, tmp_path / "out", on_error=policy, **OVERFLOWING, **options)
    assert errors_of(tmp_path / "out") == [(1, "out_of_range"), (3, "out_of_range")]
    if "format" in options:
        archive = np.load(tmp_path / "out" / "part-00000.npz", allow_pickle=False)
        rows = archive["rows"].tolist()
        assert archive["offsets"].tolist() == ([0, 2, 2, 4, 4] if policy == "null" else [0, 2, 4])
        found = archive["static"].tolist()
    else:
        table = table_of(tmp_path / "out")
        rows = table["row"].to_pylist()
        if "rows" in options:
            found = [list(vector) for vector in table["vector"].to_pylist()]
        else:
            found = [vector for row in table["static"].to_pylist() for vector in row or []]
    bank, river = VECTORS[3].tolist(), VECTORS[4].tolist()
    assert found == [bank, river, river, bank]
    of_tokens = [0, 0, 2, 2]
    of_sentences = [0, 1, 2, 3] if policy == "null" else [0, 2]
    assert rows == (of_tokens if "rows" in options else of_sentences)


TRUNCATE = {"encoding": EncodeOptions(include=["contextual"], truncate=True)}
CHANGES = [
    ({}, TRUNCATE, 2),
    (TRUNCATE, {}, 2),
    ({}, {"max_sentence_tokens": 100}, 2),
    ({}, {"on_error": "skip"}, 2),
    ({"on_error": "skip"}, {"on_error": "null"}, 2),
]


@pytest.mark.parametrize(("before", "after", "shards"), CHANGES, ids=range(len(CHANGES)))
def test_a_repeated_job_may_change_what_concerns_single_rows(tmp_path, before, after, shards):
    """Only the shards of such rows are written again, and the folder is that of a new job."""
    lines = many(40)
    lines[3] = lines[37] = LONG
    source = write_lines(tmp_path / "in.txt", lines)
    same = {"shard_rows": 4, "max_sentence_tokens": LIMIT}
    run_inline(source, tmp_path / "out", **{**same, **before})
    outcome = run_inline(source, tmp_path / "out", **{**same, **after})
    assert outcome.progress.rows == 4 * shards
    run_inline(source, tmp_path / "new", **{**same, **after})
    assert shards_of(tmp_path / "out") == shards_of(tmp_path / "new")
    again = run_inline(source, tmp_path / "out", **{**same, **after})
    assert (again.progress.rows, again.totals) == (0, outcome.totals)


def test_a_lower_limit_is_another_job(tmp_path):
    source = write_lines(tmp_path / "in.txt", many(8))
    run_inline(source, tmp_path / "out", max_sentence_tokens=LIMIT)
    with pytest.raises(CommandError, match="another job's shards"):
        run_inline(source, tmp_path / "out", max_sentence_tokens=LIMIT - 1)


def test_a_job_that_a_row_ended_goes_on_with_another_policy(tmp_path):
    lines = [*many(8), LONG, *many(3)]
    source = write_lines(tmp_path / "in.txt", lines)
    same = {"shard_rows": 4, "max_sentence_tokens": LIMIT}
    with pytest.raises(CommandError, match=r"Row 8 of in\.txt"):
        run_inline(source, tmp_path / "out", on_error="fail", **same)
    outcome = run_inline(source, tmp_path / "out", **same)
    assert (outcome.progress.rows, outcome.progress.found, outcome.totals.failed) == (4, 2, 1)


def test_the_list_of_a_missing_shard_is_a_clear_error(tmp_path):
    source = write_lines(tmp_path / "in.txt", [LONG])
    run_inline(source, tmp_path / "out", max_sentence_tokens=LIMIT)
    (tmp_path / "out" / "_part-00000.errors.jsonl").unlink()
    with pytest.raises(CommandError, match=r"is damaged: remove part-00000\.parquet"):
        run_inline(source, tmp_path / "out", max_sentence_tokens=LIMIT)


def test_progress_is_that_of_written_shards_and_ends_at_the_size_of_the_input(tmp_path):
    source = write_lines(tmp_path / "in.txt", many(40))
    size, seen = source.stat().st_size, []
    job = job_of(tmp_path / "out", shard_rows=4)
    run(job, find_files(source), inline, lambda now: seen.append(now.bytes / size))
    assert seen == sorted(seen)
    assert len(seen) == 10
    assert seen[0] < 0.2
    assert seen[-1] == pytest.approx(1, rel=1e-6)


def test_the_command_says_how_many_rows_have_an_error_and_where_they_are(tmp_path):
    source = write_lines(tmp_path / "in.txt", ["bank", "word " * 1030, "river"])
    out = tmp_path / "out"
    code, stdout, stderr = bulk(source, out, "--workers", "1")
    assert (code, b"  1 with an error  1 shard " in stdout) == (0, True)
    sentence = f"polyseme: 1 row with an error, without vectors (1 too_large); {out / ERRORS} lists"
    assert sentence in stderr.decode()
    (entry,) = map(json.loads, (out / ERRORS).read_text().splitlines())
    assert entry == {
        "file": "in.txt",
        "row": 1,
        "code": "too_large",
        "error": "A sentence has too many tokens: 1030, over the limit max_sentence_tokens of 1024."
        " --truncate cuts such sentences.",
    }
    code, stdout, _ = bulk(source, out, "--workers", "1", "--truncate")
    assert (code, b"  0 with an error  1 shard " in stdout) == (0, True)
    assert not (out / ERRORS).exists()

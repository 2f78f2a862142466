"""Rows with an error: a job writes all others, lists them, and can be repeated to mend them."""

import json
from contextlib import nullcontext
from itertools import zip_longest
from types import SimpleNamespace

import numpy as np
import pytest

import polyseme
from polyseme.bulk import read as reading
from polyseme.bulk.run import ERRORS, run
from polyseme.errors import CommandError
from tests.bulk import (
    SENTENCES,
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
    b'{"text": 5}': "unreadable",
    b'{"text": "a", "text": "b"}': "unreadable",
    b'{"text": ["a", null]}': "unreadable",
    b'{"text": ["a list", "among strings"]}': "unreadable",
    b'{"text": "half a character \\ud800"}': "unreadable",
    b'{"text": "\xff\xfe"}': "unreadable",
    b"[" * 2000: "unreadable",
    b'{"text": "bank", "k": ' + b"[" * 300 + b"]" * 300 + b"}": "unreadable",
    json.dumps({"text": LONG}).encode(): "too_large",
    json.dumps({"text": "a" + "-b" * 60}).encode(): "too_large",
}
"""Lines without vectors, and the code of their errors."""
HARMLESS = ["", " \t\n", "bank\0bank", "\x1b[31m\x07", "\u202e\ufeff", "x" * 5000, "é" * 300]
"""Texts that look hostile and are not errors."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Hostile lines between others, and the text of each row; None for hostile lines."""
    texts, lines = [], []
    for text, line in zip_longest([*SENTENCES, *HARMLESS], HOSTILE):
        texts += [text, None] if line else [text]
        lines += filter(None, [json.dumps({"text": text}).encode(), line])
    path = tmp_path_factory.mktemp("in") / "in.jsonl"
    path.write_bytes(b"\n".join(lines))
    return path, texts


def errors_of(out):
    """The row and the code of each error."""
    entries = [json.loads(line) for line in (out / ERRORS).read_bytes().splitlines()]
    assert all(entry["file"] and entry["error"].endswith(".") for entry in entries)
    return [(entry["row"], entry["code"]) for entry in entries]


@pytest.mark.parametrize(("kind", "policy"), [("parquet", "null"), ("jsonl", "skip")])
def test_hostile_rows_are_listed_and_others_have_vectors(
    source, tmp_path, kind, policy, monkeypatch
):
    monkeypatch.setattr("polyseme.arrow._BATCH_ROWS", 7)
    path, texts = source
    options = {"pooling": "mean", "wordless": "zero", "format": kind, "shard_rows": 8, "keep": "k"}
    outcome = run_inline(path, tmp_path, max_sentence_tokens=LIMIT, on_error=policy, **options)
    codes = dict(zip((i for i, t in enumerate(texts) if t is None), HOSTILE.values(), strict=True))
    assert errors_of(tmp_path) == [*codes.items()]
    counts = outcome.counts
    assert (counts.rows, counts.failed, counts.missing) == (len(texts), len(HOSTILE), 0)
    assert outcome.errors == {"too_large": 2, "unreadable": 9}
    present = [i for i, text in enumerate(texts) if text is not None]
    local = polyseme.load()
    sentences = iter(local.encode([texts[i] for i in present], include=["contextual"]))
    pooled = iter(local.embed([texts[i] for i in present], pooling="mean"))
    table = table_of(tmp_path).to_pylist() if kind == "parquet" else lines_of(tmp_path)
    assert [row["row"] for row in table] == (present if policy == "skip" else [*range(len(texts))])
    for row in table:
        if row["row"] in codes:
            assert row["contextual"] is row["vector"] is row["truncated"] is None
            assert row["error"].startswith(f"{codes[row['row']]}: ")
            continue
        array = np.array(row["contextual"], np.float32).reshape(-1, 300)
        assert array.tobytes() == next(sentences).contextual.tobytes()
        assert np.array(row["vector"], np.float32).tobytes() == next(pooled).tobytes()
        assert row["error"] is None


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
        ("a.jsonl", b'["a"]\n'),
        ("a.txt", b"\xff\n\xfe\n"),
    ],
)
def test_file_without_any_readable_row_ends_the_job(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CommandError, match=r"a\.(txt|jsonl)"):
        run_inline(tmp_path / name, tmp_path / "out")
    # Several such rows at the beginning end it before anything is written.
    assert (tmp_path / "out").exists() == (data.count(b"\n") == 1)


BANK, RIVER = VECTORS[3:5].tolist()


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        ("sentences", [[BANK, RIVER], None, [RIVER, BANK], None]),
        ("tokens", [BANK, RIVER, None, RIVER, BANK, None]),
    ],
)
def test_vectors_that_overflow_are_errors_of_their_rows(tmp_path, rows, values):
    vectors = VECTORS.copy()
    vectors[-1] *= 1e5  # `end`
    write_tiny(tmp_path / "models" / "tiny", vectors=vectors)
    source = write_lines(tmp_path / "in.txt", ["bank river", "bank end", "river bank", "end"])
    options = {"model": "tiny", "models_dir": tmp_path / "models", "include": "static"}
    options |= {"dtype": "float16", "rows": rows}
    for policy in ("null", "skip"):
        run_inline(source, tmp_path / policy, on_error=policy, **options)
        assert errors_of(tmp_path / policy) == [(1, "out_of_range"), (3, "out_of_range")]
        table = table_of(tmp_path / policy)
        written = table["vector" if rows == "tokens" else "static"].to_pylist()
        assert written == [value for value in values if value or policy == "null"]
        if rows == "tokens":
            nulls = [value is None for value in written]
            for name in ("token", "index", "truncated"):
                assert [value is None for value in table[name].to_pylist()] == nulls
            assert [error is not None for error in table["error"].to_pylist()] == nulls
    with pytest.raises(CommandError, match=r"Row 1 of in\.txt: .* `dtype` float32"):
        run_inline(source, tmp_path / "fail", on_error="fail", **options)


CHANGES = [
    ({}, {"truncate": True}),
    ({"truncate": True}, {}),
    ({}, {"max_sentence_tokens": 100}),
    ({}, {"on_error": "skip"}),
    ({"on_error": "fail"}, {}),
]


@pytest.mark.parametrize(("before", "after"), CHANGES, ids=range(len(CHANGES)))
def test_repeated_job_may_change_options_of_single_rows(tmp_path, before, after):
    """Only the shards of such rows are written again, and the folder is that of a new job."""
    lines = many(40)
    lines[3] = lines[37] = LONG
    source = write_lines(tmp_path / "in.txt", lines)
    same = {"shard_rows": 4, "max_sentence_tokens": LIMIT}
    fails = before == {"on_error": "fail"}
    message = r"Row 3 of in\.txt: A sentence has too many tokens: 50"
    with pytest.raises(CommandError, match=message) if fails else nullcontext():
        run_inline(source, tmp_path / "out", **same | before)
    outcome = run_inline(source, tmp_path / "out", **same | after)
    assert outcome.written.rows == (40 if fails else 8)
    run_inline(source, tmp_path / "new", **same | after)
    assert shards_of(tmp_path / "out") == shards_of(tmp_path / "new")
    again = run_inline(source, tmp_path / "out", **same | after)
    assert (again.written.rows, again.counts) == (0, outcome.counts)


def test_progress_ends_at_the_size_of_the_input(tmp_path):
    source = write_lines(tmp_path / "in.txt", many(40))
    size, seen = source.stat().st_size, []
    job, files = job_of(source, tmp_path / "out", shard_rows=4)
    bar = SimpleNamespace(reach=lambda done, rows: seen.append((done / size, rows)))
    run(job, files, bar, workers=1)
    assert seen == sorted(seen)
    assert len(seen) == 10
    assert seen[0][0] < 0.2
    assert seen[-1] == (pytest.approx(1, abs=1 / size), 40)

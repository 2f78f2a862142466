"""Rows with an error: a job writes all others, lists them, and can be repeated to mend them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import polyseme
from polyseme.bulk import read as reading
from polyseme.bulk.run import ERRORS, run
from polyseme.errors import CommandError
from tests.bulk import (
    bulk,
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
"""Texts that look hostile and are not errors."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A hundred hostile lines among other ones; the text of each row, None for hostile lines."""
    texts, lines, codes = [], [], []
    for i, text in enumerate(many(40) + HARMLESS * 10):
        lines.append(json.dumps({"text": text}).encode())
        texts.append(text)
        if i < 100:
            line, code = list(HOSTILE.items())[i % len(HOSTILE)]
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


@pytest.mark.parametrize(("kind", "policy"), [("parquet", "null"), ("jsonl", "skip")])
def test_hostile_rows_are_listed_and_others_have_vectors(
    source, tmp_path, kind, policy, monkeypatch
):
    monkeypatch.setattr("polyseme.arrow._BATCH_ROWS", 7)
    path, texts, codes = source
    options = {"pooling": "mean", "wordless": "zero", "format": kind, "shard_rows": 32}
    outcome = run_inline(path, tmp_path, max_sentence_tokens=LIMIT, on_error=policy, **options)
    assert errors_of(tmp_path) == codes
    counts = outcome.counts
    assert (counts.rows, counts.failed, counts.missing) == (len(texts), 100, 0)
    assert outcome.errors == {"too_large": 12, "unreadable": 88}
    present = [i for i, text in enumerate(texts) if text is not None]
    local = polyseme.load()
    sentences = local.encode([texts[i] for i in present], include=["contextual"])
    pooled = local.embed([texts[i] for i in present], pooling="mean")
    expected = dict(zip(present, zip(sentences, pooled, strict=True), strict=True))
    table = table_of(tmp_path).to_pylist() if kind == "parquet" else lines_of(tmp_path)
    assert [row["row"] for row in table] == (present if policy == "skip" else [*range(len(texts))])
    by_row = dict(codes)
    for row in table:
        if row["row"] in expected:
            sentence, unit = expected[row["row"]]
            array = np.array(row["contextual"], np.float32).reshape(-1, 300)
            assert array.tobytes() == sentence.contextual.tobytes()
            assert np.array(row["vector"], np.float32).tobytes() == unit.tobytes()
            assert row["error"] is None
        else:
            assert row["contextual"] is row["vector"] is row["truncated"] is None
            assert row["error"].startswith(f"{by_row[row['row']]}: ")


def test_rows_of_tokens_have_one_row_for_each_error(source, tmp_path):
    path, texts, codes = source
    run_inline(path, tmp_path, rows="tokens", max_sentence_tokens=LIMIT, shard_rows=64)
    assert errors_of(tmp_path) == codes
    lengths = [len(one.tokens) for one in polyseme.load().encode([t or "" for t in texts])]
    failed = {row for row, _ in codes}
    expected = [i for i, n in enumerate(lengths) for _ in range(1 if i in failed else n)]
    table = table_of(tmp_path)
    assert table["row"].to_pylist() == expected
    for row in table.select(["row", "error", "token", "index"]).to_pylist():
        is_null = {row["token"] is None, row["index"] is None, row["error"] is not None}
        assert is_null == {row["row"] in failed}


DEEP = 300
KEPT = [
    '{"text": "bank", "k": {"a": [1]}}',
    f'{{"text": "river", "k": {"[" * DEEP}{"]" * DEEP}}}',
    '{"text": "money", "k": 2}',
]


def test_deeply_nested_value_to_keep_is_an_error_of_its_row(tmp_path):
    source = write_lines(tmp_path / "in.jsonl", KEPT)
    for policy, kept in (("null", ['{"a":[1]}', None, "2"]), ("skip", ['{"a":[1]}', "2"])):
        run_inline(source, tmp_path / policy, keep=("k",), on_error=policy)
        assert errors_of(tmp_path / policy) == [(1, "unreadable")]
        assert table_of(tmp_path / policy)["k"].to_pylist() == kept
    with pytest.raises(CommandError, match=r"Row 1 of in\.jsonl: The row has a value to keep that"):
        run_inline(source, tmp_path / "out", keep=("k",), on_error="fail")


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
        ("a.jsonl", b'["a"]\n'),
        ("a.txt", "bank\nriver\nmoney\n".encode("utf-16")),
        ("a.txt", b"\xff\n\xfe\n"),
    ],
)
def test_file_without_any_readable_row_ends_the_job(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CommandError, match=r"a\.(txt|jsonl)"):
        run_inline(tmp_path / name, tmp_path / "out")


@pytest.mark.parametrize("policy", ["null", "skip", "fail"])
@pytest.mark.parametrize("rows", ["sentences", "tokens"])
def test_vectors_that_overflow_are_errors_of_their_rows(tmp_path, policy, rows):
    vectors = VECTORS.copy()
    vectors[-1] *= 1e5  # `end`
    write_tiny(tmp_path / "models" / "tiny", vectors=vectors)
    source = write_lines(tmp_path / "in.txt", ["bank river", "bank end", "river bank", "end"])
    options = {"model": "tiny", "models_dir": tmp_path / "models", "include": "static"}
    options |= {"dtype": "float16", "on_error": policy, "rows": rows}
    if policy == "fail":
        with pytest.raises(CommandError, match=r"Row 1 of in\.txt: .* `dtype` float32"):
            run_inline(source, tmp_path / "out", **options)
        return
    run_inline(source, tmp_path / "out", **options)
    assert errors_of(tmp_path / "out") == [(1, "out_of_range"), (3, "out_of_range")]
    table = table_of(tmp_path / "out")
    column = "vector" if rows == "tokens" else "static"
    values = table[column].to_pylist()
    bank, river = VECTORS[3].tolist(), VECTORS[4].tolist()
    present = [bank, river, river, bank] if rows == "tokens" else [[bank, river], [river, bank]]
    assert [value for value in values if value] == present
    indices = [0, 0, 1, 2, 2, 3] if rows == "tokens" else [0, 1, 2, 3]
    left = indices if policy == "null" else [i for i in indices if i in (0, 2)]
    assert table["row"].to_pylist() == left


CHANGES = [
    ({}, {"truncate": True}),
    ({"truncate": True}, {}),
    ({}, {"max_sentence_tokens": 100}),
    ({}, {"on_error": "skip"}),
    ({"on_error": "skip"}, {"on_error": "null"}),
]


@pytest.mark.parametrize(("before", "after"), CHANGES, ids=range(len(CHANGES)))
def test_repeated_job_may_change_options_of_single_rows(tmp_path, before, after):
    """Only the shards of such rows are written again, and the folder is that of a new job."""
    lines = many(40)
    lines[3] = lines[37] = LONG
    source = write_lines(tmp_path / "in.txt", lines)
    same = {"shard_rows": 4, "max_sentence_tokens": LIMIT}
    run_inline(source, tmp_path / "out", **{**same, **before})
    outcome = run_inline(source, tmp_path / "out", **{**same, **after})
    assert outcome.rows == 8
    run_inline(source, tmp_path / "new", **{**same, **after})
    assert shards_of(tmp_path / "out") == shards_of(tmp_path / "new")
    again = run_inline(source, tmp_path / "out", **{**same, **after})
    assert (again.rows, again.counts) == (0, outcome.counts)


def test_lower_limit_is_another_job(tmp_path):
    source = write_lines(tmp_path / "in.txt", many(8))
    run_inline(source, tmp_path / "out", max_sentence_tokens=LIMIT)
    with pytest.raises(CommandError, match="another job's shards"):
        run_inline(source, tmp_path / "out", max_sentence_tokens=LIMIT - 1)


def test_job_that_a_row_ended_goes_on_with_another_policy(tmp_path):
    source = write_lines(tmp_path / "in.txt", [*many(8), LONG, *many(3)])
    same = {"shard_rows": 4, "max_sentence_tokens": LIMIT}
    with pytest.raises(CommandError, match=r"Row 8 of in\.txt: A sentence has too many tokens: 50"):
        run_inline(source, tmp_path / "out", on_error="fail", **same)
    outcome = run_inline(source, tmp_path / "out", **same)
    assert (outcome.rows, outcome.existing, outcome.counts.failed) == (4, 2, 1)


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


def test_command_says_how_many_rows_have_an_error_and_where(tmp_path):
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
        " The option `truncate` truncates such texts.",
    }
    code, stdout, _ = bulk(source, out, "--workers", "1", "--truncate")
    assert (code, b"  0 with an error  1 shard " in stdout) == (0, True)
    assert not (out / ERRORS).exists()

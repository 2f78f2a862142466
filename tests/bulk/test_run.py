"""Runs: their processes, interruptions, and runs that continue earlier ones."""

import fcntl
import os

import orjson
import pytest

from polyseme.bulk.write import write_shard
from polyseme.errors import CommandError
from tests.bulk import bulk, many, parts, run_inline, shards_of, table_of, write_lines


def test_interrupted_runs_leave_the_bytes_of_one_run(tmp_path, monkeypatch):
    source, out = write_lines(tmp_path / "in.txt", many(100)), tmp_path / "out"
    options = ("--shard-rows", "10", "--include", "none", "--pooling", "mean")
    for shards in (1, 4):
        with monkeypatch.context() as patch:
            left = iter(range(shards))

            def interrupt(job, shard, left=left):
                counts = write_shard(job, shard)
                if next(left, None) is None:
                    raise KeyboardInterrupt
                return counts

            patch.setattr("polyseme.bulk.run.write_shard", interrupt)
            code, stdout, stderr = bulk(source, out, *options)
        assert (code, stdout) == (1, b"")
        assert stderr.endswith(b"kept: run the same command again to go on.\n")
        assert not list(out.glob(".writing-*"))
        assert not orjson.loads((out / "_bulk.json").read_bytes())["complete"]
        (out / f".writing-{shards}").write_bytes(b"a part of a shard, as a killed run leaves it")
    assert len(parts(out)) == 2 + 5
    code, stdout, stderr = bulk(source, out, *options)
    assert (code, stdout.split(b"  ")[0]) == (0, b"100 rows")
    assert b"; 7 shards existed before; " in stderr
    assert bulk(source, tmp_path / "new", *options)[0] == 0
    assert shards_of(out) == shards_of(tmp_path / "new")


@pytest.mark.slow
def test_workers_that_always_die_end_the_run(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr("polyseme.bulk.run.split_shards", lambda *_: [WorkerKiller()])
    with pytest.raises(CommandError, match=r"Workers die repeatedly, .* fewer --workers"):
        run_inline(write_lines(tmp_path / "in.txt", ["a"]), tmp_path / "out")


class WorkerKiller:
    """Takes the place of a shard and ends the worker that unpickles it."""

    index, parts = 0, ()

    def __reduce__(self):
        return os._exit, (9,)


def test_new_files_in_a_folder_become_new_shards(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    write_lines(folder / "b.txt", many(25))
    run_inline(folder, out, shard_rows=10)
    before = shards_of(out)
    write_lines(folder / "a.txt", many(5))
    write_lines(folder / "c.txt", many(7))
    outcome = run_inline(folder, out, shard_rows=10)
    assert (outcome.written.rows, outcome.counts.rows, outcome.shards) == (12, 37, 5)
    after = shards_of(out)
    assert {name: after[name] for name in before if "part" in name} == {
        name: content for name, content in before.items() if "part" in name
    }
    columns = table_of(out).select(["file", "row"]).to_pydict()
    assert columns["file"] == ["b.txt"] * 25 + ["a.txt"] * 5 + ["c.txt"] * 7
    assert columns["row"] == [*range(25), *range(5), *range(7)]
    assert run_inline(folder, out, shard_rows=10).written.rows == 0
    assert shards_of(out) == after
    (folder / "a.txt").unlink()
    with pytest.raises(CommandError, match=r"another job's shards \(other input\)"):
        run_inline(folder, out, shard_rows=10)


def test_only_missing_shards_are_written_again(tmp_path):
    source = write_lines(tmp_path / "in.txt", many(50))
    out = tmp_path / "out"
    run_inline(source, out, shard_rows=10)
    before, times = shards_of(out), {one.name: one.stat().st_mtime_ns for one in parts(out)}
    write_lines(source, many(50))  # the same contents at another time
    outcome = run_inline(source, out, shard_rows=10)
    assert (outcome.written.rows, outcome.existing, outcome.counts.rows) == (0, 5, 50)
    assert {one.name: one.stat().st_mtime_ns for one in parts(out)} == times
    parts(out)[2].unlink()
    outcome = run_inline(source, out, shard_rows=10)
    assert (outcome.written.rows, outcome.counts.rows) == (10, 50)
    assert shards_of(out) == before


def contents(folder):
    """The bytes of all files but the manifest, which says that the job goes on."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "_bulk.json"]
    return {path: path.read_bytes() for path in paths}


TOKENS = {"rows": "tokens", "words": ("bank",)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"include": "static"}, r"shards \(other include\)"),
        (TOKENS, r"shards \(other rows, words\)"),
        ({"max_sentence_tokens": 39}, r"shards \(other max_sentence_tokens\)"),
        ("another last sentence", r"another job's shards \(other input\)"),
        ("part-00007.parquet", "contains shards of another job"),
        ("letter.txt", "contains other files"),
        ("_bulk.json", r"_bulk\.json in the folder is damaged"),
        ("in the source's folder", "The input is in the folder of the output"),
        ("lock", "Another run is writing"),
    ],
    ids=str,
)
def test_folder_of_another_job_is_rejected_and_unchanged(tmp_path, options, message):
    source, out = write_lines(tmp_path / "in.txt", many(20)), tmp_path / "out"
    same = {"shard_rows": 10, "max_sentence_tokens": 40}
    run_inline(source, out, **same)
    with (out / "_lock").open("a") as lock:
        match options:
            case "another last sentence":
                write_lines(source, [*many(19), options])
            case "part-00007.parquet":
                (out / options).write_bytes(parts(out)[0].read_bytes())
            case "letter.txt" | "_bulk.json":
                (out / "_bulk.json").unlink()
                (out / options).write_text("[]")
            case "in the source's folder":
                out = out.parent
            case "lock":
                fcntl.flock(lock, fcntl.LOCK_EX)
        before = contents(out)
        changes = options if isinstance(options, dict) else {}
        with pytest.raises(CommandError, match=message):
            run_inline(source, out, **same | changes)
    assert contents(out) == before


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
@pytest.mark.parametrize("name", ["part-00001", "_part-00001.json"])
def test_damaged_shard_is_named(tmp_path, kind, name):
    source = write_lines(tmp_path / "in.txt", many(20))
    out = tmp_path / "out"
    run_inline(source, out, shard_rows=10, format=kind)
    path = out / (name if name.endswith("json") else f"{name}.{kind}")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CommandError, match=rf"part-00001\.{kind} is damaged: remove it"):
        run_inline(source, out, shard_rows=10, format=kind)

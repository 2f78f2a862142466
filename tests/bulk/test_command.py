"""The command `polyseme bulk`: its output and its errors."""

import numpy as np
import pytest

import polyseme
from polyseme.bulk.tables import COLUMNS
from tests.bulk import SENTENCES, bulk, shards_of, table_of, write_lines
from tests.cli.conftest import run_process, without
from tests.conftest import ROOT
from tests.tiny import write_tiny


def test_a_file_becomes_a_folder_and_the_command_prints_a_summary(tmp_path):
    source = write_lines(tmp_path / "in.txt", [*SENTENCES, "word " * 1030])
    out = tmp_path / "out"
    options = ("--shard-rows", "4", "--workers", "1", "--truncate", "--keep", "text")
    code, stdout, stderr = bulk(source, out, *options)
    table = table_of(out)
    tokens = sum(map(len, table["tokens"].to_pylist()))
    unknown = sum(row.count("oov") for row in table["resolutions"].to_pylist())
    assert code == 0
    assert stdout.decode().startswith(
        f"6 rows  {tokens:,} tokens  {unknown} unknown  6 words cut off  0 without a text  2 shards"
    )
    assert b"sentences and" in stderr
    assert table["text"].to_pylist() == [*SENTENCES, "word " * 1030]
    assert table["truncated"].to_pylist() == [0, 0, 0, 0, 0, 6]


@pytest.mark.slow
def test_each_row_of_a_folder_names_its_file(tmp_path):
    (tmp_path / "in").mkdir()
    write_lines(tmp_path / "in" / "a.txt", SENTENCES[:2])
    (tmp_path / "in" / "b.jsonl").write_text('{"text": "the bank"}\n{"text": null}\n')
    code, _, stderr = bulk(tmp_path / "in", tmp_path / "out", "--workers", "1")
    assert code == 0, stderr
    rows = table_of(tmp_path / "out").select(["file", "row"]).to_pylist()
    wanted = [("a.txt", 0), ("a.txt", 1), ("b.jsonl", 0), ("b.jsonl", 1)]
    assert [(row["file"], row["row"]) for row in rows] == wanted


def test_workers_read_the_models_of_the_user(tmp_path):
    write_tiny(tmp_path / "models" / "tiny")
    source = write_lines(tmp_path / "in.txt", ["river bank", "money bank"])
    options = ("--model", "tiny", "--models-dir", tmp_path / "models", "--include", "static")
    code, _, stderr = bulk(source, tmp_path / "out", *options, "--pooling", "mean")
    assert code == 0, stderr
    table = table_of(tmp_path / "out")
    # The vectors of `river bank` and `money bank` in tests/tiny.py.
    assert table["static"].to_pylist() == [
        [[0, 1, 0, 2, 0], [1, 1, 0, 0, 0]],
        [[1, 0, 0, 0, 2], [1, 1, 0, 0, 0]],
    ]
    local = polyseme.load("tiny", models_dir=tmp_path / "models")
    found = np.array(table["vector"].to_pylist(), np.float32)
    wanted = local.embed(["river bank", "money bank"], pooling="mean")
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.slow
def test_phrases_of_the_vocabulary_are_one_token(tmp_path):
    source = write_lines(tmp_path / "in.txt", ["a well known high-speed train"])
    code, _, stderr = bulk(source, tmp_path / "out", "--phrases", "--workers", "1")
    assert code == 0, stderr
    assert table_of(tmp_path / "out")["keys"].to_pylist() == [
        ["a", "well-known", "high-speed", "train"]
    ]
    code, _, stderr = bulk(source, tmp_path / "out", "--workers", "1")
    assert (code, b"another job's shards" in stderr) == (1, True)


@pytest.mark.slow
def test_the_option_words_may_be_repeated(tmp_path):
    source = write_lines(tmp_path / "in.txt", ["an apple at the bank"])
    options = ("--rows", "tokens", "--words", "bank", "--words", "apple,the")
    code, _, stderr = bulk(source, tmp_path / "out", *options, "--workers", "1")
    assert code == 0, stderr
    assert table_of(tmp_path / "out")["token"].to_pylist() == ["apple", "the", "bank"]


@pytest.mark.slow
def test_a_job_that_wrote_no_shard_does_not_block_another_one(tmp_path):
    source = write_lines(tmp_path / "in.txt", ["word " * 2000])
    assert bulk(source, tmp_path / "out", "--workers", "1")[0] == 1
    code, _, stderr = bulk(source, tmp_path / "out", "--truncate", "--workers", "1")
    assert code == 0, stderr


@pytest.mark.slow
def test_the_number_of_workers_changes_no_byte(tmp_path):
    source = write_lines(tmp_path / "in.txt", SENTENCES * 4)
    for number in ("1", "3"):
        options = ("--shard-rows", "3", "--workers", number)
        assert bulk(source, tmp_path / number, *options)[0] == 0
    assert shards_of(tmp_path / "1") == shards_of(tmp_path / "3")


def test_a_failing_row_is_named_and_written_shards_are_kept(tmp_path):
    source = write_lines(tmp_path / "in.txt", [*SENTENCES, "word " * 1030])
    options = ("--shard-rows", "2", "--workers", "1")
    code, stdout, stderr = bulk(source, tmp_path / "out", *options)
    assert (code, stdout) == (1, b"")
    assert stderr.decode().splitlines()[-1] == (
        "polyseme: Row 5 of in.txt: A sentence has too many tokens: 1030, over the limit"
        " max_sentence_tokens of 1024. --truncate cuts such sentences."
    )
    assert [one.name for one in sorted((tmp_path / "out").glob("*part*"))] == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]


WRONG = {
    "nothing to write": (("--include", "none"), 2, "nothing to write without --pooling"),
    "none and more": (("--include", "none", "--include", "static"), 2, "none cannot be combined"),
    "columns in npz": (("--format", "npz", "--keep", "id"), 2, "--keep is not for npz"),
    "an unknown array": (("--include", "scores"), 2, "Invalid value for '--include'"),
    "an unknown model": (
        ("--model", "nobody"),
        1,
        "`polyseme models import` and `polyseme models pull` add models",
    ),
    "a reserved name": (
        ("--keep", "tokens"),
        1,
        "tokens: this column name is reserved",
    ),
    "no such column": (("--column", "words"), 1, "there is no column words"),
}


@pytest.mark.parametrize(("options", "code", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_invalid_arguments_are_rejected_before_any_work(tmp_path, options, code, sentence):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    found, stdout, stderr = bulk(source, tmp_path / "out", *options)
    assert (found, stdout) == (code, b"")
    assert sentence in stderr.decode()
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("part-*"))


@pytest.mark.parametrize(
    ("package", "options", "extra"),
    [("pyarrow", (), "bulk"), ("distributed", ("--scheduler", "tcp://x:1"), "cluster")],
)
def test_a_missing_extra_is_named(tmp_path, package, options, extra):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    done = run_process("bulk", source, tmp_path / "out", *options, python=without(package))
    assert done.returncode == 1
    assert f"pip install 'polyseme[{extra}]'" in done.stderr.decode()


@pytest.mark.slow
def test_the_blocks_of_the_page_read_the_output_of_the_command(tmp_path, monkeypatch):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    assert bulk(source, tmp_path / "vectors", "--workers", "1")[0] == 0
    page = (ROOT / "docs" / "bulk.md").read_text("utf-8")
    (block,) = (one.split("```")[0] for one in page.split("```python\n")[1:])
    monkeypatch.chdir(tmp_path)
    namespace = {}
    exec(block, namespace)
    assert (
        namespace["sentence"].tobytes() == polyseme.load().encode(SENTENCES)[0].contextual.tobytes()
    )


def test_the_page_lists_every_column():
    page = (ROOT / "docs" / "bulk.md").read_text("utf-8")
    assert all(f"`{name}`" in page for names in COLUMNS.values() for name in names)


def test_an_output_folder_in_a_loop_of_links_is_rejected(tmp_path):
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    code, _, stderr = bulk(source, tmp_path / "one")
    assert (code, stderr.decode()) == (1, f"polyseme: File exists ({tmp_path / 'one'}).\n")

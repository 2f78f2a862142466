"""The command `polyseme bulk`: its output and its errors."""

import json
import multiprocessing

import pytest

import polyseme
from polyseme.bulk.run import ERRORS
from tests.bulk import SENTENCES, bulk, lines_of, parts, shards_of, table_of, write_lines
from tests.cli.conftest import run_process, without
from tests.conftest import ROOT
from tests.tiny import VECTORS, write_tiny


def test_file_becomes_a_folder_and_the_command_prints_a_summary(tmp_path):
    source = write_lines(tmp_path / "in.txt", [*SENTENCES, "word " * 1030])
    out = tmp_path / "out"
    options = ("--shard-rows", "4", "--workers", "1", "--keep", "text")
    code, stdout, stderr = bulk(source, out, *options, "--on-error", "fail")
    assert (code, stdout) == (1, b"")
    error = (
        "A sentence has too many tokens: 1030, over the limit max_sentence_tokens of 1024."
        " The option `truncate` truncates such texts."
    )
    assert stderr.decode().splitlines()[-1] == f"polyseme: Row 5 of in.txt: {error}"
    assert len(parts(out)) == 1
    code, stdout, stderr = bulk(source, out, *options)
    assert (code, b"  1 with an error  2 shards " in stdout) == (0, True)
    sentence = f"polyseme: 1 row with an error, without vectors (1 too_large); {out / ERRORS} lists"
    assert sentence in stderr.decode()
    (entry,) = map(json.loads, (out / ERRORS).read_text().splitlines())
    assert entry == {"file": "in.txt", "row": 5, "code": "too_large", "error": error}
    code, stdout, stderr = bulk(source, out, *options, "--truncate")
    table = table_of(out)
    tokens = sum(map(len, table["tokens"].to_pylist()))
    unknown = sum(row.count("oov") for row in table["resolutions"].to_pylist())
    counts = f"6 rows  {tokens:,} tokens  {unknown} unknown  6 words cut off  0 without a text"
    assert stdout.decode().startswith(f"{counts}  0 with an error  2 shards ")
    assert b" per second; " in stderr
    assert not (out / ERRORS).exists()
    assert table["text"].to_pylist() == [*SENTENCES, "word " * 1030]
    assert table["truncated"].to_pylist() == [0, 0, 0, 0, 0, 6]
    document = json.loads((out / "_bulk.json").read_bytes())
    assert document["complete"]
    assert document["totals"] == {
        "shards": 2,
        "rows": 6,
        "tokens": tokens,
        "unknown": unknown,
        "truncated": 6,
        "missing": 0,
        "failed": 0,
    }


def test_job_that_wrote_no_shard_does_not_block_another_one(tmp_path):
    source = write_lines(tmp_path / "in.txt", ["word " * 2000])
    assert bulk(source, tmp_path / "out", "--on-error", "fail")[0] == 1
    code, _, stderr = bulk(source, tmp_path / "out", "--pooling", "mean")
    assert code == 0, stderr


def test_field_to_keep_that_no_row_has_is_named(tmp_path):
    source = write_lines(tmp_path / "in.jsonl", ['{"text": "a"}', '{"text": "b", "id": 1}'])
    code, _, stderr = bulk(source, tmp_path / "out", "--keep", "id", "--keep", "name")
    message = b"polyseme: no row has a value of the --keep name."
    assert (code, message in stderr.splitlines()) == (0, True)


def test_workers_read_the_models_of_the_user_and_end(tmp_path, monkeypatch):
    monkeypatch.undo()
    write_tiny(tmp_path / "models" / "tiny")
    source = write_lines(tmp_path / "in.txt", ["river bank", "money bank", "word " * 2000])
    options = ("--model", "tiny", "--models-dir", tmp_path / "models", "--include", "static")
    options += ("--pooling", "mean", "--workers", "1")
    processes = set(multiprocessing.active_children())
    code, _, stderr = bulk(source, tmp_path / "out", *options, "--on-error", "fail")
    assert (code, b"Row 2 of in.txt" in stderr) == (1, True)
    assert set(multiprocessing.active_children()) == processes
    code, _, stderr = bulk(source, tmp_path / "out", *options)
    assert code == 0, stderr
    bank, river, money = VECTORS[3:6].tolist()
    static = table_of(tmp_path / "out")["static"].to_pylist()
    assert static == [[river, bank], [money, bank], None]


def test_occurrences_of_words_are_written(tmp_path):
    source = write_lines(tmp_path / "in.txt", [*SENTENCES, "a high speed train"])
    tokens = ("--rows", "tokens", "--format", "jsonl", "--phrases")
    words = ("--words", "bank", "--words", "APPLE, high  speed")
    code, stdout, stderr = bulk(source, tmp_path / "out", *tokens, *words)
    assert code == 0, stderr
    assert stdout.decode().startswith("6 rows  6 tokens  0 unknown")
    tokens_of_lines = [line["token"] for line in lines_of(tmp_path / "out")]
    assert tokens_of_lines == ["bank", "bank", "bank", "Apple", "apple", "high speed"]
    assert b"no token" not in stderr
    code, _, stderr = bulk(source, tmp_path / "none", *tokens, "--words", "zebra")
    assert code == 0
    assert b"polyseme: no token of the texts is one of the --words." in stderr.splitlines()


def test_inventories_are_read_and_must_fit(tmp_path, inventory):
    source = write_lines(tmp_path / "in.txt", ["The bank of the river.", "none"])
    path, other = tmp_path / "bank.senses", tmp_path / "other.senses"
    inventory.save(path)
    other.write_text(path.read_text().replace(inventory.checksum, "0" * 64))
    options = ("--include", "none", "--format", "jsonl")
    code, _, stderr = bulk(source, tmp_path / "out", *options, "--senses", path)
    assert code == 0, stderr
    assert [len(line["senses"]) for line in lines_of(tmp_path / "out")] == [1, 0]
    for inventories, message in (
        ((path, path), "another job's shards (other senses)"),
        ([source], "in.txt: This is not an inventory of senses."),
        ([other], "`inventory`: another model than wiki-en found these"),
    ):
        senses = (part for one in inventories for part in ("--senses", one))
        code, _, stderr = bulk(source, tmp_path / "out", *options, *senses)
        assert (code, message in " ".join(stderr.decode().split())) == (1, True), stderr


TOKENS = ("--rows", "tokens")
INVALID = [
    (("--include", "none"), 1, "`pooling`: without `include` and `senses`, nothing else is"),
    (("--include", "none", "--include", "static"), 2, "none cannot be combined"),
    (("--model", "nobody"), 1, "`polyseme models import` and `polyseme models pull` add models"),
    (("--column", "words"), 1, "there is no column words"),
    (("--keep", "words", "--keep", "id"), 1, "there is no column words"),
    ((*TOKENS, "--words", "bank,"), 2, "give words separated by commas"),
    ((*TOKENS, "--pooling", "sif"), 2, "--pooling is for rows of sentences"),
    (("--format", "jsonl", "--compression", "zstd"), 2, "is for Parquet"),
    (("--oov", "subword", "--model", "tiny"), 1, "this model has no subword vectors"),
]


@pytest.mark.parametrize(("options", "code", "sentence"), INVALID, ids=str)
def test_invalid_options_are_rejected_before_any_work(tmp_path, options, code, sentence):
    write_tiny(tmp_path / "models" / "tiny")
    source = tmp_path / "in.csv"
    source.write_text("id,text,token,row\na,bank,b,1\n")
    out = tmp_path / "out"
    actual, stdout, stderr = bulk(source, out, "--models-dir", tmp_path / "models", *options)
    assert (actual, stdout) == (code, b"")
    assert sentence in stderr.decode()
    assert not out.exists()


def test_input_and_output_may_be_addresses_of_files(tmp_path, monkeypatch):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    addresses = (source.as_uri(), tmp_path.joinpath("by address").as_uri())
    for arguments in (addresses, (source, tmp_path / "by path")):
        assert bulk(*arguments, "--include", "none", "--pooling", "sif")[0] == 0
    assert shards_of(tmp_path / "by address") == shards_of(tmp_path / "by path")
    monkeypatch.chdir(tmp_path)
    before = [*tmp_path.iterdir()]
    for address in ("ftp://host/a.txt", "s3:///a.txt"):
        code, _, stderr = bulk(address, "out")
        assert code == 1
        assert f"{address} is an address that Arrow cannot open: " in stderr.decode()
    code, _, stderr = bulk("in.txt", "s3://bucket/folder")
    assert (code, b"write into a folder of this machine and copy it" in stderr) == (1, True)
    assert [*tmp_path.iterdir()] == before


def test_missing_extra_is_named(tmp_path):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    done = run_process("bulk", source, tmp_path / "out", python=without("pyarrow"))
    assert done.returncode == 1
    assert "pip install 'polyseme[bulk]'" in done.stderr.decode()


@pytest.mark.slow
def test_block_of_the_page_reads_the_output_of_the_command(tmp_path, monkeypatch):
    source = write_lines(tmp_path / "in.txt", SENTENCES)
    assert bulk(source, tmp_path / "vectors", "--workers", "1")[0] == 0
    page = (ROOT / "docs" / "bulk.md").read_text("utf-8")
    block = page.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    namespace = {}
    exec(block, namespace)
    expected = polyseme.load().encode(SENTENCES)[0].contextual
    assert namespace["sentence"].tobytes() == expected.tobytes()

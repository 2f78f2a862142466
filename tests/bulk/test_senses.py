"""`polyseme bulk --senses`: a column with the senses of the words of inventories."""

import json

import orjson
import pyarrow.parquet as pq
import pytest

from polyseme.client.local import LocalModel
from polyseme.operations.inventory import load_inventory
from tests.bulk import parts, start_bulk
from tests.operations.test_senses import MONEY, RIVER

TEXTS = ["No such word.", "The bank of the river.", "", "Bank interest at the bank.", "interest"]
FIELDS = ("start", "stop", "sense", "label", "unsure")


@pytest.fixture(scope="module")
def saved(bundled, tmp_path_factory):
    """Files with the senses of *bank* and of *interest*."""
    folder, model = tmp_path_factory.mktemp("inventories"), LocalModel(bundled)
    for word in ("bank", "interest"):
        found = model.senses(word, [text.replace("bank", word) for text in RIVER + MONEY], senses=2)
        found.save(folder / f"{word}.senses")
    return [folder / "bank.senses", folder / "interest.senses"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    file = tmp_path_factory.mktemp("in") / "in.jsonl"
    lines = [json.dumps({"text": text}) for text in [*TEXTS, None]]
    file.write_text("\n".join(lines) + "\n")
    return file


def bulk(source, out, *options):
    process = start_bulk(source, out, "--workers", "1", *options)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_each_row_has_the_senses_that_the_model_applies(bundled, saved, source, tmp_path, kind):
    out = tmp_path / "out"
    options = [argument for path in saved for argument in ("--senses", path)]
    code, errors = bulk(source, out, "--include", "none", "--format", kind, *options)
    assert code == 0, errors
    (shard,) = parts(out)
    if kind == "parquet":
        rows = pq.read_table(shard).to_pylist()
    else:
        rows = [orjson.loads(line) for line in shard.read_bytes().splitlines()]
    expected = [[] for _ in TEXTS]
    for path in saved:
        inventory = load_inventory(path)
        for one in LocalModel(bundled).apply(inventory, TEXTS).occurrences:
            values = (one.start, one.end, one.sense, one.label, one.unsure)
            expected[one.text].append((inventory.word, *values))
    found = [
        [(one["word"], *(one[field] for field in FIELDS)) for one in row["senses"]]
        for row in rows[:-1]
    ]
    assert found == expected
    assert rows[-1]["senses"] is None
    assert [len(row) for row in found] == [0, 1, 0, 3, 1]


def test_another_inventory_is_another_job(saved, source, tmp_path):
    out = tmp_path / "out"
    options = ("--include", "none", "--pooling", "sif", "--senses")
    assert bulk(source, out, *options, saved[0])[0] == 0
    assert bulk(source, out, *options, saved[0])[0] == 0
    assert bulk(source, out, *options, saved[1])[0] == 1


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--senses", "{source}"), 1, "in.jsonl: This is not an inventory of senses."),
        (("--senses", "{other}"), 1, "`inventory`: another model than wiki-en found these"),
    ],
    ids=str,
)
def test_an_inventory_that_does_not_fit_is_an_error(
    saved, source, tmp_path, options, code, message
):
    document = json.loads(saved[0].read_text())
    other = tmp_path / "other.senses"
    other.write_text(json.dumps({**document, "checksum": "0" * 64}))
    names = {"saved": saved[0], "source": source, "other": other}
    result = bulk(source, tmp_path / "out", *(one.format_map(names) for one in options))
    assert result[0] == code and message in " ".join(result[1].split())


def test_rows_of_words_are_an_error(saved, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": ["the", "bank"]}\n')
    code, errors = bulk(tmp_path / "in.jsonl", tmp_path / "out", "--senses", saved[0])
    assert code == 1 and "senses need texts, not lists of words" in errors

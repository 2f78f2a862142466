"""`polyseme bulk --senses`: the senses of the words of inventories."""

import json

import pyarrow as pa
import pytest

from polyseme.arrow import Encoder
from polyseme.client.local import LocalModel
from tests.bulk import bulk, lines_of
from tests.operations.calls import senses_in
from tests.senses.test_find import MONEY, RIVER

TEXTS = ["No such word.", "The bank of the river.", "", "Bank interest at the bank.", "interest"]
FIELDS = ("start", "stop", "sense", "label", "unsure")


@pytest.fixture(scope="module")
def saved(bundled, tmp_path_factory):
    """Files with the senses of *bank* and of *interest*, and what they assign to the texts."""
    folder, model = tmp_path_factory.mktemp("inventories"), LocalModel(bundled)
    paths, expected = [], [[] for _ in TEXTS]
    for word in ("bank", "interest"):
        texts = [text.replace("bank", word) for text in RIVER + MONEY]
        inventory = model.senses(word, texts, senses=2).inventory
        paths.append(folder / f"{word}.senses")
        inventory.save(paths[-1])
        for one in model.apply(inventory, TEXTS).occurrences:
            values = (one.start, one.end, one.sense, one.label, one.unsure)
            expected[one.text].append((word, *values))
    return paths, expected


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    file = tmp_path_factory.mktemp("in") / "in.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*TEXTS, None]))
    return file


def test_each_row_has_the_senses_that_the_model_applies(saved, source, tmp_path):
    (bank, interest), expected = saved
    options = ("--include", "none", "--workers", "1", "--format", "jsonl")
    both = ("--senses", bank, "--senses", interest)
    code, _, stderr = bulk(source, tmp_path / "out", *options, *both)
    assert code == 0, stderr
    rows = lines_of(tmp_path / "out")
    senses = [
        [(one["word"], *(one[name] for name in FIELDS)) for one in row["senses"]]
        for row in rows[:-1]
    ]
    assert senses == expected
    assert rows[-1]["senses"] is None
    # Other senses are another job.
    code, _, stderr = bulk(source, tmp_path / "out", *options, "--senses", bank)
    assert (code, b"another job's shards (other senses)" in stderr) == (1, True)


@pytest.mark.parametrize("phrases", [False, True])
def test_lists_of_words_have_the_senses_of_their_texts(bundled, phrases):
    found = senses_in(bundled, "bank", RIVER + MONEY, senses=2, inventory=True, phrases=phrases)
    texts = ["the New York bank", "", "no", "Bank by bank", "the river bank " + "a " * 9 + "bank"]
    lists = pa.array([text.split() for text in texts])
    options = {"senses": (found.inventory,), "phrases": phrases, "pooling": None}
    options |= {"truncate": True, "max_sentence_tokens": 9}
    rows = Encoder(**options)(pa.record_batch({"text": texts})).to_pylist()
    of_lists = Encoder(**options)(pa.record_batch({"text": lists})).to_pylist()
    senses = [sense for row in of_lists for sense in row["senses"]]
    assert [sense["index"] for sense in senses] == [3, 0, 2, 2]
    assert {sense["start"] for sense in senses} == {None}
    for text, row, of_list in zip(texts, rows, of_lists, strict=True):
        for one, other in zip(row["senses"], of_list["senses"], strict=True):
            one |= {"index": text[: one["start"]].count(" "), "start": None, "stop": None}
            assert one == other
    for column in (lists, texts):
        tokens = Encoder(**options, rows="tokens")(pa.record_batch({"text": column})).to_pylist()
        assert [token["label"] for token in tokens] == [sense["label"] for sense in senses]
        assert {token["token"].lower() for token in tokens} == {"bank"}
    assert [token["start"] for token in tokens] == [13, 0, 8, 10]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("source", "in.jsonl: This is not an inventory of senses."),
        ("other", "`inventory`: another model than wiki-en found these"),
    ],
)
def test_inventory_that_does_not_fit_is_an_error(saved, source, tmp_path, name, message):
    document = json.loads(saved[0][0].read_text())
    other = tmp_path / "other.senses"
    other.write_text(json.dumps({**document, "checksum": "0" * 64}))
    inventory = {"source": source, "other": other}[name]
    code, _, stderr = bulk(source, tmp_path / "out", "--senses", inventory)
    assert code == 1
    assert message in " ".join(stderr.decode().split())

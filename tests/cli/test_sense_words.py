"""`polyseme senses --words`: an inventory for each word, and the samples of their sentences."""

import csv
import json

import pytest

from polyseme.cli import sense_files
from polyseme.cli.sense_files import SentenceSource, read_words, sample_words
from polyseme.errors import CommandError
from polyseme.operations.compare import WordForms
from polyseme.senses.inventory import load_inventory
from tests.cli.conftest import run
from tests.senses.test_find import MONEY, RIVER


@pytest.fixture
def corpus(tmp_path):
    file = tmp_path / "corpus.txt"
    file.write_text("\n".join([*RIVER, *MONEY, "Loans. A loan here. The LOAN there."]))
    return file


@pytest.fixture
def _in_this_process(monkeypatch):
    """Let the command find senses in this process: workers take seconds to start."""

    def inline(function, items, on_result, *, workers):
        assert workers
        for item in items:
            on_result(item, function(item))

    monkeypatch.setattr(sense_files, "run_in_processes", inline)


def words_in(tmp_path, *words):
    file = tmp_path / "words.txt"
    file.write_text("\ufeff" + "\r\n".join([*words, "", words[0]]))
    return file


def rows_of(folder):
    with (folder / "words.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_each_word_has_an_inventory_and_a_row(corpus, tmp_path):
    words, folder = words_in(tmp_path, "bank", "loan", "@sum", "zeppelin"), tmp_path / "found"
    with corpus.open("a") as file:
        file.write("\nwe met @sum by the river")
    done = run("senses", "--words", words, corpus, "--save", folder, "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().startswith("3 words in ")
    assert done.stdout.decode().endswith("; 1 word does not occur: zeppelin\n")
    bank, loan, handle = rows_of(folder)
    # A cell that a spreadsheet would compute begins with an apostrophe.
    assert (handle["word"], handle["occurrences"]) == ("'@sum", "1")
    assert load_inventory(folder / "%40sum.senses").word == "@sum"
    stored = load_inventory(folder / "bank.senses")
    assert (bank["word"], int(bank["occurrences"])) == ("bank", 16)
    assert int(bank["senses"]) == len(stored.senses) > 1
    assert float(bank["several"]) == stored.several
    assert bank["labels"] == " | ".join(sense.label for sense in stored.senses)
    assert (loan["word"], loan["senses"], loan["occurrences"]) == ("loan", "1", "3")


@pytest.mark.usefixtures("_in_this_process")
def test_an_interrupted_run_keeps_what_is_there_and_goes_on(corpus, tmp_path):
    words, folder = words_in(tmp_path, "bank", "loan"), tmp_path / "found"
    arguments = ("senses", "--words", words, corpus, "--save", folder, "--workers", "1")
    run(*arguments)
    named = load_inventory(folder / "loan.senses").with_labels(["named by hand"])
    named.save(folder / "loan.senses")
    (folder / "bank.senses").unlink()
    again = run(*arguments)
    assert again.returncode == 0 and b"the inventories of 1 word already" in again.stderr
    assert [row["labels"] for row in rows_of(folder)][1] == "named by hand"
    document = json.loads((folder / "loan.senses").read_text())
    (folder / "loan.senses").write_text(json.dumps({**document, "checksum": "0" * 64}))
    done = run(*arguments)
    assert done.returncode == 1 and b"loan.senses is of another model" in done.stderr
    (folder / "loan.senses").write_text("{}")
    assert b"loan.senses: This is not an inventory" in run(*arguments).stderr


def test_a_name_of_a_file_is_safe():
    names = [sense_files._file_name(word) for word in ("a/b", "..", "x" * 300, "x" * 301, "Bär")]
    assert not any("/" in name for name in names)
    assert len({*names}) == 5 and max(map(len, names)) < 255


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff"])
def test_a_file_without_words_is_an_error(tmp_path, content):
    (tmp_path / "words.txt").write_bytes(content)
    with pytest.raises(CommandError, match="words"):
        read_words(tmp_path / "words.txt")


def test_a_sentence_counts_once_for_each_word_in_it_in_any_case(tmp_path):
    (tmp_path / "a.txt").write_text("The bank, the Bank. A loan of a bank!\nBANK. Embankment")
    samples = sample_words(["bank", "Bank", "loan"], [tmp_path / "a.txt"], "text")
    assert sorted(samples["bank"]) == ["A loan of a bank!", "BANK.", "The bank, the Bank."]
    assert samples["Bank"] == samples["bank"]
    assert samples["loan"] == ["A loan of a bank!"]


@pytest.mark.parametrize(
    "word", ["bank", "Bank", "bank-owned", "world-famous", "$", "New York", "銀行"]
)
def test_a_sample_has_the_sentences_that_the_command_of_one_word_finds(tmp_path, word):
    lines = [
        "The bank's manager left. The world-famous bank-owned house.",
        "A bank’s, an e-bank; bank_owned. Embankment! New  york-bank.",
        "New York's banks cost $ 5. New-York $bank 5$",
        "私は銀行に行った。川に行った。",
    ]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    source = SentenceSource(
        [tmp_path / "a.txt"], "text", WordForms((word,), exact=False, phrases=False)
    )
    expected = [sentence.text for sentence, _ in source.sentences("reading")]
    samples = sample_words([word, "other"], [tmp_path / "a.txt"], "text")
    assert sorted(samples[word]) == sorted(expected) != []

"""`polyseme senses`: the table, the document, the written occurrences and the map."""

import csv as csv_module
import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import polyseme
from polyseme import terminal
from polyseme.cli.sense_files import SentenceSource, sample_words, similar_forms, tag_sentences
from polyseme.cli.senses import _picture
from polyseme.operations.compare import WordForms
from polyseme.senses.inventory import load_inventory
from polyseme.tokenizer import words_of
from tests.cli.conftest import run
from tests.operations.calls import senses_in
from tests.senses.test_find import MONEY, RIVER


@pytest.fixture(scope="module")
def found(bundled):
    return senses_in(bundled, "bank", RIVER + MONEY, senses=2, map=True, inventory=True)


def read_rows(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".csv":
        return csv.read_csv(path).to_pylist()
    return [json.loads(line) for line in path.read_text().splitlines()]


def source_of(path):
    """The sentences with *bank* in a file or folder."""
    return SentenceSource((path,), "text", WordForms(("bank",), exact=False, phrases=False))


def test_clustered_occurrences_have_their_senses_and_others_the_nearest(bundled, found, tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("\n".join([*RIVER, *MONEY, "The bank of the river at the bridge."]))
    inventory = found.inventory
    texts, labels = RIVER + MONEY, [one.sense for one in found.occurrences]
    # The labels are exchanged, so that no clustered occurrence has its nearest sense.
    clustered = {
        (texts[one.text], one.start): (1 - label, 0.5)
        for one, label in zip(found.occurrences, labels, strict=True)
    }
    (rows,) = tag_sentences(source_of(file), bundled, inventory, clustered)
    assert [row["sense"] for row in rows] == [*(1 - label for label in labels), labels[0]]
    assert [row["confidence"] for row in rows[:16]] == [0.5] * 16
    assert {row["label"] for row in rows} == {sense.label for sense in inventory.senses}


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [(700, 0, 1408), (999, 0, 2000), (700, 700, 2000), (0, 999, 2000)],
)
def test_a_long_sentence_is_cut_around_its_word(tmp_path, before, after, kept):
    file = tmp_path / "texts.txt"
    file.write_text(f"{'x ' * before}bank end{' y' * after}\n")
    (((_, _, sentence, start), _),) = source_of(file).sentences("reading")
    assert len(sentence) == kept
    assert file.read_text()[start : start + kept] == sentence
    assert "bank end" in sentence


def test_progress_counts_the_rows_of_all_files(tmp_path, monkeypatch):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("the bank. A bank.\nnothing\n")
    rows = []
    monkeypatch.setattr(terminal.ProgressBar, "reach", lambda _, _done, count: rows.append(count))
    found = list(source_of(tmp_path).sentences("reading"))
    assert (len(found), rows) == (4, [2, 4])


@pytest.mark.parametrize(
    ("word", "before", "kept"), [("x", 9, 21), ("x" * 9, 500, 201), ("", 999, 1000)]
)
def test_a_long_list_is_cut_around_its_word(tmp_path, word, before, kept):
    file = tmp_path / "words.jsonl"
    words = [word] * before + ["a", "bank", "end"] + [word] * before
    file.write_text(json.dumps({"text": words}))
    (((_, _, part, start), _),) = source_of(file).sentences("reading")
    assert part == words[start : start + len(part)] and part[before + 1 - start] == "bank"
    assert len(part) == kept


def test_columns_of_lists_give_the_same_as_columns_of_strings(tmp_path):
    texts = [" ".join(words_of(text)) for text in [*RIVER, *MONEY, "nothing here"]]
    lists = [text.split() for text in texts]
    pq.write_table(pa.table({"text": texts}), tmp_path / "strings.parquet")
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps({'text': one})}\n" for one in lists))
    results = []
    for name in ("strings.parquet", "a.jsonl"):
        saved, target = tmp_path / f"{name}.senses", tmp_path / f"{name}.csv"
        file = tmp_path / name
        done = run("senses", "bank", file, "--senses", "2", "--save", saved, "--output", target)
        applied = run("senses", "--apply", saved, file, "--output", tmp_path / "applied.jsonl")
        tables = [read_rows(target), read_rows(tmp_path / "applied.jsonl")]
        for row in (row for rows in tables for row in rows):
            index, start = row.pop("index"), row.pop("start")
            if index is not None:
                start = len(" ".join(row["text"].split()[:index])) + bool(index)
            assert row["text"][start : start + 4] == "bank"
            found = row.pop("file"), row.pop("text_start"), row.pop("end") is None
            assert found == (name, *((0, False) if index is None else (None, True)))
        results.append((done.stdout, done.stderr, saved.read_bytes(), applied.stdout, tables))
    assert "[bank]" in done.stdout.decode()
    assert results[0] == results[1]


ABSENT = "polyseme: The word does not occur in the texts; --form adds other forms."
ON_REQUEST = f"{ABSENT} --phrases finds phrases of the vocabulary."
FORMS = "Banked it\nthe bank\ntwo banks of embankments\nBanks by rivers\n"
SEARCHES = [
    # A beginning stands for tokens of any script and spelling.
    (FORMS, ("bank", "--form", "ban*"), "Forms: banks 2, banked 1, bank 1"),
    (FORMS, ("bank", "--form", "ban*", "--exact"), "Forms: bank 1, banks 1"),
    ("за\u0301мка\nЗамок", ("замо", "--form", "замо*"), "Forms: замок 1"),
    ("τράπεζες\nΤΡΑΠΕΖΕΣ", ("τράπεζ", "--form", "τράπεζ*"), "Forms: τράπεζες 1, τραπεζες 1"),
    ("«bank’s»\nbank-robber", ("bank", "--form", "bank*"), "Forms: bank 2"),
    ("the bank\n", ("river", "--form", "riv*"), f"Forms: none\n{ABSENT}"),
    ("the bank\ntwo banks\nBanked it\n", ("bank", "--form", "banks,banked"), 3),
    ("the bank_owned house\n2bank or _bank_\nthe bank", ("bank",), 4),
    ("a high  speed train\nthe High speed line\n", ("high speed", "--phrases"), 2),
    ("a high speed train\n", ("savings bank",), ON_REQUEST),
    ("a high speed train\n", ("high-speed", "--form", "high speed"), ON_REQUEST),
    ("a high speed train\n", ("speed train", "--phrases"), ABSENT),
]


@pytest.mark.parametrize(("text", "arguments", "shown"), SEARCHES)
def test_occurrences_and_their_forms_are_found(tmp_path, text, arguments, shown):
    file, save = tmp_path / "texts.txt", tmp_path / "word.json"
    file.write_text(text)
    done = run("senses", *arguments, file, "--save", save)
    if isinstance(shown, int):
        assert f" in {shown} occurrences" in done.stdout.decode()
        return
    assert done.stderr.decode().rstrip("\n").endswith(shown)
    assert done.returncode == (1 if ABSENT in shown else 0)
    if not done.returncode:
        pairs = [form.split() for form in shown.removeprefix("Forms: ").split(", ")]
        assert json.loads(save.read_bytes())["forms"] == [form for form, _ in pairs]
        count = sum(int(count) for _, count in pairs)
        assert f"in {count} occurrence" in done.stdout.decode()


@pytest.mark.parametrize("before", ["", "ше\u0301л " * 1000])
def test_a_sentence_has_another_spelling_of_the_word(tmp_path, before):
    file = tmp_path / "texts.txt"
    file.write_text(f"{before}Это за\u0301мок царя\nдом")
    word = WordForms(("замок",), exact=False, phrases=False)
    ((sentence, form),) = SentenceSource((file,), "text", word).sentences("reading")
    assert form == "за\u0301мок" and form in sentence.text
    assert len(sentence.text) <= 2000 and sentence.text_start <= len(before)
    assert form in sample_words(["замок"], [file], "text")["замок"][0]
    file.write_text("Η ΤΡΑΠΕΖΑ\nμια τράπεζα")
    assert len(sample_words(["τράπεζα"], [file], "text")["τράπεζα"]) == 2


def test_forms_that_are_similar_in_spelling_and_vector_are_shown_and_used(tmp_path):
    file, save = tmp_path / "texts.txt", tmp_path / "castle.json"
    file.write_text("Two castles by a river.\nThe castle fell.\nA casting of a cast.\n")
    done = run("senses", "castle", file, "--form", "castle~", "--save", save)
    (shown,) = [line for line in done.stderr.decode().splitlines() if line.startswith("Forms: ")]
    assert shown.startswith("Forms: castles 0.66") and "casting" not in shown
    assert "in 2 occurrences" in done.stdout.decode()
    assert "castles" in json.loads(save.read_bytes())["forms"]
    done = run("senses", "castle", file, "--form", "castle~", "--exact")
    assert "Forms: castles 0.66, Castles 0.46" in done.stderr.decode()
    assert "Forms: none" in run("senses", "castle", file, "--form", "qqzzxx~").stderr.decode()


@pytest.mark.parametrize(
    ("word", "others"),
    [
        ("τράπεζα", ["τραπεζών", "τράπεζες", "ΤΡΑΠΕΖΑ", "τραγούδι"]),
        ("ngân", ["nga\u0302ng", "NGÂNG", "nga\u0302n", "sông"]),
    ],
)
def test_similar_forms_may_have_other_accents_and_normal_forms(word, others):
    model = polyseme.from_vectors(np.ones((5, 3)), [word, *others]).model
    assert [form for form, _ in similar_forms(model, word, exact=True)] == others[:2]


LEMMATIZED = [
    [("The", "the"), ("banks", "bank"), ("lend", "lend")],
    [("Bank", "bank"), ("holidays", "holiday")],
    [("They", "they"), ("bank", "Bank"), ("there", "there")],
    [("Banking", "banking"), ("pays", "pay")],
]


@pytest.mark.parametrize("name", ["a.conllu", "a.parquet", "a.jsonl"])
def test_a_column_of_lemmas_gives_the_forms_of_a_word(tmp_path, name):
    file, save = tmp_path / name, tmp_path / "bank.json"
    rows = [
        dict(zip(("text", "lemma"), zip(*pairs, strict=True), strict=True)) for pairs in LEMMATIZED
    ]
    match file.suffix:
        case ".conllu":
            lines = (
                f"{i}\t{word}\t{lemma}" + "\t_" * 7 + "\n" * (1 + (i == len(pairs)))
                for pairs in LEMMATIZED
                for i, (word, lemma) in enumerate(pairs, 1)
            )
            file.write_text("".join(lines))
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), file)
        case _:
            file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    done = run("senses", "bank", file, "--lemmas", "lemma", "--save", save)
    assert "Forms: bank 2, banks 1" in done.stderr.decode()
    assert "in 3 occurrences" in done.stdout.decode()
    assert json.loads(save.read_bytes())["forms"] == ["bank", "banks"]
    done = run("senses", "bank", file, "--lemmas", "lemma", "--exact")
    assert "Forms: banks 1, Bank 1, bank 1" in done.stderr.decode()
    assert "in 3 occurrences" in done.stdout.decode()


@pytest.mark.parametrize("lemmas", [["the"], None])
def test_a_row_without_a_lemma_for_each_word_is_reported(tmp_path, lemmas):
    file = tmp_path / "a.jsonl"
    rows = [{"text": ["a", "bank"], "lemma": of} for of in (["a", "bank"], lemmas)]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    message = run("senses", "bank", file, "--lemmas", "lemma").stderr.decode().splitlines()[-1]
    assert message.startswith("polyseme: a.jsonl: row 1 has no lemma for each word")


@pytest.fixture
def file(tmp_path):
    """A file of the texts, the last of which does not contain the word."""
    file = tmp_path / "texts.jsonl"
    texts = [*RIVER, *MONEY, "nothing here"]
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return file


def test_the_command_prints_the_document_and_writes_the_occurrences(file, tmp_path):
    command = ("senses", "bank", file, "--senses", "2")
    document = json.loads(run(*command, "--json").stdout)
    assert np.bincount([one["sense"] for one in document["occurrences"]]).tolist() == [8, 8]
    for name, plot, start in (
        ("all.parquet", "map.SVG", b"<?xml"),
        ("all.csv", "map.png", b"\x89PNG"),
    ):
        target, drawn = tmp_path / name, tmp_path / plot
        done = run(*command, "--output", target, "--plot", drawn)
        assert done.returncode == 0, done.stderr
        assert drawn.read_bytes().startswith(start)
        printed = done.stdout.decode()
        assert printed.startswith("bank: 2 senses in 16 occurrences; separation 0.")
        assert "1  50 %  (8)\n" in printed and "[bank]" in printed and "\nas 3: " in printed
        rows = read_rows(target)
        assert [int(one["row"]) for one in rows] == list(range(16))
        assert {one["file"] for one in rows} == {"texts.jsonl"}
        assert [int(one["sense"]) for one in rows] == [
            one["sense"] for one in sorted(document["occurrences"], key=lambda one: one["text"])
        ]
        first = rows[0]
        assert first["text"][int(first["start"]) : int(first["end"])] == "bank"


FORMULAS = ["=HYPERLINK(1)", "+1 ", "-1 ", "@SUM(1)", "\uff1d1"]


def test_texts_that_a_spreadsheet_would_compute_begin_with_an_apostrophe(tmp_path):
    file, saved = tmp_path / "=1.txt", tmp_path / "bank.senses"
    texts = [f"{start} the bank of the river" for start in FORMULAS] + ["a bank = +1"]
    file.write_text("\n".join(texts))
    done = run("senses", "bank", file, "--save", saved, "--labels=-label", "--senses", "1")
    assert done.returncode == 0, done.stderr
    for name in ("all.csv", "all.jsonl"):
        run("senses", "--apply", saved, file, "--output", tmp_path / name)
    with (tmp_path / "all.csv").open(newline="") as cells:
        rows = list(csv_module.DictReader(cells))
    assert [row["text"] for row in rows] == [*(f"'{text}" for text in texts[:-1]), texts[-1]]
    assert {(row["file"], row["label"]) for row in rows} == {("'=1.txt", "'-label")}
    assert [int(row["row"]) for row in rows] == [0, 1, 2, 3, 4, 5]
    assert [row["text"] for row in read_rows(tmp_path / "all.jsonl")] == texts


def test_a_row_that_cannot_be_read_is_left_out_and_counted(file, tmp_path):
    first, *others = file.read_bytes().splitlines()
    bad = tmp_path / "a.jsonl"
    bad.write_bytes(b"\n".join([first, b"{bank", *others, b"{bank"]))
    done = run("senses", "bank", bad, "--senses", "2", "--output", tmp_path / "all.jsonl")
    assert done.returncode == 0, done.stderr
    assert "in 16 occurrences" in done.stdout.decode()
    problem = "a.jsonl: row 1 is not well-formed JSON"
    sentence = f"reading: 2 rows that cannot be read left out. The first: {problem}"
    assert sentence in done.stderr.decode()
    assert [row["row"] for row in read_rows(tmp_path / "all.jsonl")] == [0, *range(2, 17)]


def test_twenty_senses_have_different_marks(found):
    drawn = _picture(replace(found, senses=found.senses * 10), "svg").decode()
    legend = drawn[drawn.index('id="legend_1"') :]
    marks = re.findall(r'xlink:href="(#m\w+)" .*?style="fill: (#\w+);', legend)
    assert len(marks) == len(set(marks)) == 20


def test_a_saved_inventory_is_applied_to_other_files(file, tmp_path):
    saved, target = tmp_path / "bank.senses", tmp_path / "tagged.parquet"
    named = ("--labels", "river, money")
    done = run("senses", "bank", file, "--senses", "2", "--save", saved, *named)
    assert done.returncode == 0, done.stderr
    assert "label      river" in done.stdout.decode()
    (tmp_path / "new.txt").write_text(
        "He swam from the bank of the river. No.\nYes. A bank lends money."
    )
    done = run("senses", "--apply", saved, tmp_path / "new.txt", "--output", target)
    assert done.returncode == 0, done.stderr
    rows = read_rows(target)
    labels = {row["label"] for row in rows}
    # Offsets are those of the line, as in `load().apply` and in bulk; a text is a sentence of it.
    assert [(row["row"], row["start"], row["end"]) for row in rows] == [(0, 17, 21), (1, 7, 11)]
    assert [(row["text_start"], row["text"][:6]) for row in rows] == [(0, "He swa"), (5, "A bank")]
    assert labels == {"river", "money"}
    assert [row["confidence"] > 0.8 for row in rows] == [True, True]
    relabelled = ("--labels", "a,b", "--save", tmp_path / "named.senses")
    out = run("senses", "--apply", saved, tmp_path / "new.txt", *relabelled).stdout.decode()
    assert out.startswith("bank: 2 occurrences") and "a\n" in out and "b\n" in out
    stored = load_inventory(tmp_path / "named.senses")
    assert [sense.label for sense in stored.senses] == ["a", "b"]


def test_wrong_labels_are_an_error_that_shows_the_senses(file, tmp_path):
    arguments = ("senses", "bank", file, "--senses", "2", "--labels", "a,b,c")
    done = run(*arguments, "--save", tmp_path / "bank.senses")
    assert done.returncode == 1
    assert done.stdout.decode().startswith("bank: 2 senses in 16 occurrences")
    assert "label " not in done.stdout.decode()
    assert "2 different labels, one for each sense. No file is written." in done.stderr.decode()
    assert not (tmp_path / "bank.senses").exists()
    assert len(json.loads(run(*arguments, "--json").stdout)["senses"]) == 2


ERRORS = [
    (("bank",), 2, "Give a WORD and the FILES"),
    (("bank", "{file}", "--output", "all.xlsx"), 2, ".parquet, .csv, .jsonl"),
    (("zeppelin", "{file}"), 1, "does not occur"),
    (("bank", "{file}", "--plot", "map.pdf"), 2, ".svg or .png"),
    (("--apply", "{saved}", "{file}", "--exact", "--json"), 2, "--exact, --json: not used"),
    (("--apply", "{saved}", "{file}", "--save", "x"), 2, "needs --labels"),
    (("--apply", "{file}", "{file}"), 1, "This is not an inventory of senses."),
    (("--apply", "{saved}", "{file}", "--labels", "a"), 1, "2 different labels"),
    (("--apply", "{other}", "{file}", "--model", "wiki-en"), 1, "another model than wiki-en"),
    (("--words", "{file}", "{file}"), 2, "--words needs --save"),
    (("--words", "{file}", "{file}", "--save", "x", "--form", "a"), 2, "--form: not used"),
    (("--words", "{file}", "{file}", "--save", "x", "--output", "a.csv"), 2, "--output: not"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), ERRORS, ids=str)
def test_arguments_that_cannot_be_used_are_errors(file, found, tmp_path, arguments, code, message):
    saved, other = tmp_path / "bank.senses", tmp_path / "other.senses"
    found.inventory.save(saved)
    document = json.loads(saved.read_text())
    other.write_text(json.dumps({**document, "checksum": "0" * 64}))
    names = {"saved": saved, "file": file, "other": other}
    done = run("senses", *(one.format_map(names) for one in arguments))
    assert done.returncode == code
    assert message in done.stderr.decode()

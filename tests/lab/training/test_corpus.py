"""Samples of text, and sentences with sense tags; invalid files are rejected."""

import gzip
import json
import lzma
import sys
from collections import Counter

import pytest

from polyseme.errors import CommandError
from polyseme_lab.training.corpus import read_tagged, sample_paragraphs
from tests.lab.evaluation.sets import archived


def corpus(path, count, words=5):
    path.write_text("".join(f"w{n} " + "x " * (words - 2) + "y\n" for n in range(count)))
    return path


def numbers(lines):
    return [int(line.split()[0][1:]) for line in lines]


def test_small_corpus_is_sampled_whole_and_in_order(tmp_path):
    paths = [corpus(tmp_path / "one", 50), corpus(tmp_path / "two", 50), tmp_path / "three"]
    paths[2].write_text("a b c\n\na b c d\n  \nHeading\n")
    read = []
    *sample, short = sample_paragraphs(paths, 1000, 1, read.append)
    assert numbers(sample) == [*range(50), *range(50)]
    assert short == "a b c d\n"  # shorter ones are skipped
    assert sum(read) == sum(path.stat().st_size for path in paths)


def test_lines_of_scripts_without_spaces_have_words(tmp_path):
    line = "私は銀行に行った。"
    (tmp_path / "ja").write_text(f"{line}\n" * 100 + "東京都\n")
    assert sample_paragraphs([tmp_path / "ja"], 1000, 1) == [f"{line}\n"] * 100
    assert len(sample_paragraphs([tmp_path / "ja"], 50, 1)) == 10


def test_sample_has_the_fewest_paragraphs_for_its_words(tmp_path):
    path = corpus(tmp_path / "c", 500)
    found = [numbers(sample_paragraphs([path], words, 1)) for words in (100, 101)]
    assert list(map(len, found)) == [20, 21]
    assert found == list(map(sorted, found))


def test_paragraphs_are_equally_likely(tmp_path):
    path = corpus(tmp_path / "c", 10)
    counts = Counter(n for seed in range(300) for n in numbers(sample_paragraphs([path], 15, seed)))
    assert len(counts) == 10
    assert all(57 < count < 123 for count in counts.values())  # 90 ± 4.2 σ


LINE = {"tokens": ["the", "bank"], "tags": [{"token": 1, "lemma": "bank/noun", "sense": "money"}]}
XML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE SimpleWsdDoc SYSTEM "simple-wsd-doc.dtd">
<SimpleWsdDoc name="br-k18">
  <word text="She" break_level="NO_BREAK"/>
  <word text="sat" lemma="Sit" pos="VERB" sense="sit.1" break_level="SPACE_BREAK"/>
  <word text="&#252;ber" lemma="over" pos="ADV" break_level="SPACE_BREAK"/>
  <word text="He" break_level="SENTENCE_BREAK"/>
  <word text="ran" lemma="run" pos="VERB" sense="run.4" break_level="PARAGRAPH_BREAK"/>
</SimpleWsdDoc>
"""
READ = [
    (["She", "sat", "über"], [(1, "sit/verb", "sit.1")]),
    (["He"], []),
    (["ran"], [(0, "run/verb", "run.4")]),
]
BANK = (["the", "bank"], [(1, "bank/noun", "money")])


def read(path):
    return [
        (one.tokens, [(tag.token, tag.lemma, tag.sense) for tag in one.tags])
        for one in read_tagged(path)
    ]


def written(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_json_lines_are_read(tmp_path):
    text = f"{json.dumps(LINE)}\n\n" * 500 + json.dumps({"tokens": ["a"], "tags": []})
    expected = [BANK] * 500 + [(["a"], [])]
    assert read(written(tmp_path / "t.jsonl.gz", gzip.compress(text.encode()))) == expected


def test_documents_archives_and_folders_are_read(tmp_path):
    (tmp_path / "b").mkdir()
    written(tmp_path / "b" / "two.xml", XML)
    written(tmp_path / "a.jsonl.xz", lzma.compress(json.dumps(LINE).encode()))
    written(tmp_path / "notes.txt", "nothing")
    assert read(tmp_path) == [BANK, *READ]  # in the order of the names
    members = {"x/readme.txt": b"<not xml", "b.xml": XML.encode(), "a.xml": XML.encode()}
    assert read(archived(tmp_path / "t.tar", members)) == [*READ, *READ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(CommandError, match=r"has no \.xml or \.jsonl file"):
        read(tmp_path / "empty")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "is not well-formed JSON"),
        ("[]", ".*object"),
        ('{"tokens": ["a"]}', "tags: is required"),
        ('{"tokens": ["a"], "tags": [], "more": 1}', "more: is not a known field"),
        ('{"tokens": "a b", "tags": []}', "tokens: must be a list"),
        ('{"tokens": [""], "tags": []}', "tokens.0: "),
        ('{"tokens": ["a"], "tags": [{"token": 1, "lemma": "a", "sense": "b"}]}', ".*beyond"),
        ('{"tokens": ["a"], "tags": [{"token": -1, "lemma": "a", "sense": "b"}]}', ".*at least 0"),
        ('{"tokens": ["a"], "tags": [{"token": 0, "lemma": "", "sense": "b"}]}', "tags.0.lemma"),
        ('{"tokens": ["a"], "tags": [{"token": 0, "lemma": "a", "sense": 3}]}', "tags.0.sense"),
        ("[" * 100_000, ""),
        ('{"tokens": ["\\ud800"], "tags": []}', ""),
    ],
)
def test_error_of_an_invalid_line_has_its_number(tmp_path, line, message):
    path = written(tmp_path / "t.jsonl", f"{json.dumps(LINE)}\n{line}\n")
    with pytest.raises(CommandError, match=rf"^t\.jsonl, line 2: {message}"):
        read(path)


NESTED_ENTITIES = """<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a "ha">
<!ENTITY b "&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;">]><d><word text="&c;"/></d>"""
EXTERNAL_ENTITY = """<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/hostname">]>
<d><word text="x"/>&a;</d>"""


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (NESTED_ENTITIES, "entity declarations"),
        (EXTERNAL_ENTITY, "entity declarations"),
        ("<d>", r"t\.xml: this is not well-formed XML"),
        ("<d/><d/>", "not well-formed"),
        ("<\xff", "not well-formed"),
    ],
)
def test_invalid_document_is_rejected(tmp_path, document, message):
    with pytest.raises(CommandError, match=message):
        read(written(tmp_path / "t.xml", document.encode("latin-1")))


def test_missing_defusedxml_is_reported_with_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "defusedxml", None)
    with pytest.raises(CommandError, match=r"needs defusedxml: .*pip install 'polyseme\[train\]'"):
        read(written(tmp_path / "t.xml", XML))

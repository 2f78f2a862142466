"""Tagged sentences: JSON lines, XML documents, archives and folders; hostile ones are rejected."""

import gzip
import io
import json
import lzma
import sys
import tarfile
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest

from polyseme.errors import CommandError
from polyseme_lab.training.tags import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES, Tag, read_tagged

needs_xml = pytest.mark.skipif(
    find_spec("defusedxml") is None, reason="the extra [train] is not installed"
)

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
    (["She", "sat", "über"], [Tag(1, "sit/verb", "sit.1")]),
    (["He"], []),
    (["ran"], [Tag(0, "run/verb", "run.4")]),
]


def read(path):
    return [tuple(one) for one in read_tagged(path)]


def written(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def archive(*members, mode="w:xz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def test_json_lines_are_read(tmp_path):
    text = f"{json.dumps(LINE)}\n\n{json.dumps({'tokens': ['a'], 'tags': []})}"
    assert read(written(tmp_path / "t.jsonl", text)) == [
        (["the", "bank"], [Tag(1, "bank/noun", "money")]),
        (["a"], []),
    ]


def test_json_lines_may_be_compressed(tmp_path):
    data = f"{json.dumps(LINE)}\n".encode() * 5000
    assert len(read(written(tmp_path / "t.jsonl.gz", gzip.compress(data)))) == 5000


@needs_xml
def test_an_xml_document_is_read(tmp_path):
    assert read(written(tmp_path / "t.xml", XML)) == READ


@needs_xml
def test_a_long_document_is_read_to_its_end(tmp_path):
    words = "".join(f'<word text="w{n}" break_level="SPACE_BREAK"/>' for n in range(50_000))
    [(tokens, _)] = read(written(tmp_path / "t.xml", f"<d>{words}</d>"))
    assert tokens[-1] == "w49999"


@needs_xml
@pytest.mark.parametrize("mode", ["w", "w:xz", "w:gz", "w:bz2"])
def test_an_archive_is_read_without_extracting_it(tmp_path, mode):
    data = archive(
        ("x/readme.txt", b"<not xml"), ("x/../../a.xml", XML.encode()), ("/b.xml", XML.encode()),
        mode=mode,
    )  # fmt: skip
    assert read(written(tmp_path / "t.tar", data)) == [*READ, *READ]
    assert [path.name for path in tmp_path.iterdir()] == ["t.tar"]


@needs_xml
def test_the_files_of_a_folder_are_read_in_the_order_of_their_names(tmp_path):
    (tmp_path / "b").mkdir()
    written(tmp_path / "b" / "two.xml", XML)
    written(tmp_path / "a.jsonl.xz", lzma.compress(json.dumps(LINE).encode()))
    written(tmp_path / "notes.txt", "nothing")
    assert read(tmp_path) == [(["the", "bank"], [Tag(1, "bank/noun", "money")]), *READ]


def test_a_folder_without_tag_files_is_reported(tmp_path):
    with pytest.raises(CommandError, match=r"has no \.xml or \.jsonl file"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "line 2: is not well-formed JSON"),
        ("[]", "line 2: .*object"),
        ('{"tokens": ["a"]}', "line 2: tags: is required"),
        ('{"tokens": ["a"], "tags": [], "more": 1}', "line 2: more: is not a known field"),
        ('{"tokens": "a b", "tags": []}', "line 2: tokens: must be a list"),
        ('{"tokens": [""], "tags": []}', "line 2: tokens.0: "),
        ('{"tokens": ["a"], "tags": [{"token": 1, "lemma": "a", "sense": "b"}]}', "beyond"),
        (
            '{"tokens": ["a"], "tags": [{"token": -1, "lemma": "a", "sense": "b"}]}',
            "must be at least 0",
        ),
        ('{"tokens": ["a"], "tags": [{"token": 0.0, "lemma": "a", "sense": "b"}]}', "integer"),
        ('{"tokens": ["a"], "tags": [{"token": 0, "lemma": "", "sense": "b"}]}', "tags.0.lemma"),
        ('{"tokens": ["a"], "tags": [{"token": 0, "lemma": "a", "sense": 3}]}', "tags.0.sense"),
        ("[" * 100_000, "line 2: "),
        ('{"tokens": ["\\ud800"], "tags": []}', "line 2: "),
    ],
)
def test_the_error_of_an_invalid_line_has_its_number(tmp_path, line, message):
    path = written(tmp_path / "t.jsonl", f"{json.dumps(LINE)}\n{line}\n")
    with pytest.raises(CommandError, match=message) as caught:
        read(path)
    assert caught.value.sentence.startswith("t.jsonl, line 2: ")


def test_a_long_line_is_rejected_before_it_is_read_whole(tmp_path):
    path = written(tmp_path / "t.jsonl.xz", lzma.compress(b"{" + b" " * (8 * MAX_LINE_BYTES)))
    with pytest.raises(CommandError, match="line 1: longer than"):
        read(path)


NESTED_ENTITIES = """<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a "ha">
<!ENTITY b "&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;">]><d><word text="&c;"/></d>"""
EXTERNAL_ENTITY = """<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/hostname">]>
<d><word text="x"/>&a;</d>"""


@needs_xml
@pytest.mark.parametrize("document", [NESTED_ENTITIES, EXTERNAL_ENTITY])
def test_a_document_with_entity_declarations_is_rejected(tmp_path, document):
    with pytest.raises(CommandError, match="entity declarations"):
        read(written(tmp_path / "t.xml", document))


@needs_xml
@pytest.mark.parametrize("document", ["<d>", "<d><word text=></d>", "<d/><d/>", "<\xff", "<"])
def test_a_document_that_is_not_well_formed_is_rejected(tmp_path, document):
    with pytest.raises(CommandError, match=r"t\.xml: this is not well-formed XML"):
        read(written(tmp_path / "t.xml", document.encode("latin-1")))


@needs_xml
def test_a_document_that_is_too_large_is_rejected(tmp_path):
    data = lzma.compress(b"<d>" + b" " * MAX_DOCUMENT_BYTES, preset=0)
    with pytest.raises(CommandError, match="larger than 64 MiB"):
        read(written(tmp_path / "t.xml.xz", data))


@needs_xml
def test_a_truncated_archive_is_reported(tmp_path):
    whole = archive(("a.xml", XML.encode() * 100), mode="w")
    with pytest.raises(CommandError, match="damaged"):
        read(written(tmp_path / "t.tar", whole[:5000]))


@needs_xml
def test_an_archive_with_a_link_is_rejected(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        link = tarfile.TarInfo("a.xml")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(CommandError, match="is a link"):
        read(written(tmp_path / "t.tar", buffer.getvalue()))


@pytest.mark.slow
@needs_xml
def test_the_sense_annotations_of_google_are_read():
    path = Path(__file__).parents[4] / "shared/data/senses/google_wsd.tar.xz"
    if not path.exists():
        pytest.skip("needs shared/data")
    # All 253,752 sentences would take long.
    tags = [tag for one in islice(read_tagged(path), 3000) for tag in one.tags]
    assert len(tags) == 9841
    assert all(tag.lemma.count("/") >= 1 and tag.sense for tag in tags)


def test_missing_defusedxml_is_reported_with_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "defusedxml", None)
    with pytest.raises(CommandError, match=r"needs defusedxml: .*pip install 'polyseme\[train\]'"):
        read(written(tmp_path / "t.xml", XML))

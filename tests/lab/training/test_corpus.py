"""Corpora and tagged sentences: read, compressed or plain; hostile files are rejected."""

import bz2
import gzip
import io
import json
import lzma
import os
import sys
import tarfile
from collections import Counter
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from polyseme.errors import CommandError
from polyseme_lab.training.corpus import (
    Tag,
    open_decompressed,
    read_lines,
    read_tagged,
    sample_paragraphs,
    sha256,
)


def corpus(path, count, words=5):
    path.write_text("".join(f"w{n} " + "x " * (words - 2) + "y\n" for n in range(count)))
    return path


def numbers(lines):
    return [int(line.split()[0][1:]) for line in lines]


def test_a_small_corpus_of_any_files_is_sampled_whole_and_in_order(tmp_path):
    paths = [corpus(tmp_path / "one", 50), corpus(tmp_path / "two", 50), tmp_path / "three"]
    paths[2].write_text("a b c\n\na b c d\n  \nHeading\n")
    read = []
    *sample, short = sample_paragraphs(paths, 1000, 1, read.append)
    assert numbers(sample) == [*range(50), *range(50)]
    assert short == "a b c d\n"  # shorter ones are skipped
    assert sum(read) == sum(path.stat().st_size for path in paths)
    (tmp_path / "empty").write_text("")
    assert sample_paragraphs([tmp_path / "empty"], 100, 1) == []


def test_lines_of_scripts_without_spaces_have_words(tmp_path):
    line = "私は銀行に行った。"
    (tmp_path / "ja").write_text(f"{line}\n" * 100 + "東京都\n")
    assert sample_paragraphs([tmp_path / "ja"], 1000, 1) == [f"{line}\n"] * 100
    assert len(sample_paragraphs([tmp_path / "ja"], 50, 1)) == 10


def test_a_sample_fills_the_limit_of_words_with_the_fewest_paragraphs(tmp_path):
    found = sample_paragraphs([corpus(tmp_path / "c", 500)], 100, 1)
    assert len(found) == 20
    assert len(sample_paragraphs([tmp_path / "c"], 101, 1)) == 21
    assert numbers(found) == sorted(numbers(found))


def test_every_paragraph_is_as_likely_as_any_other(tmp_path):
    path = corpus(tmp_path / "c", 40)
    counts = Counter(n for seed in range(400) for n in numbers(sample_paragraphs([path], 50, seed)))
    assert len(counts) == 40
    assert all(60 < count < 145 for count in counts.values())  # 100 ± at least 4.6 σ


NOISE = np.random.default_rng(1).bytes(100_000)
"""Bytes that do not become shorter by compression."""
TEXT = "one line\nanother, with ü, 😀 and \x00\n"


def zstd(data):
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


def checked_zstd(data):
    return pytest.importorskip("zstandard").ZstdCompressor(write_checksum=True).compress(data)


def zstd_in_frames(data):
    return zstd(data[:7]) + zstd(data[7:])


PACKERS = {
    "plain": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd,
    "frames": zstd_in_frames,
}


@pytest.mark.parametrize("packer", PACKERS.values(), ids=PACKERS)
def test_a_text_is_the_same_from_any_compression(tmp_path, packer):
    path = tmp_path / "text"
    path.write_bytes(packer(TEXT.encode() + b"a\xffb"))
    read = []
    assert list(read_lines(path, read.append)) == [*TEXT.splitlines(keepends=True), "a\ufffdb"]
    assert sum(read) == path.stat().st_size


def truncated(data):
    return data[: len(data) // 2]


def damaged(data):
    return data[:5000] + bytes(100) + data[5100:]


@pytest.mark.parametrize(
    ("packer", "change"),
    [
        *((packer, truncated) for packer in (gzip.compress, bz2.compress, lzma.compress, zstd)),
        *((packer, damaged) for packer in (gzip.compress, bz2.compress, lzma.compress)),
        (checked_zstd, damaged),
    ],
)
def test_a_truncated_or_damaged_file_is_reported(tmp_path, packer, change):
    (tmp_path / "text.gz").write_bytes(change(packer(NOISE)))
    with pytest.raises(CommandError, match=r"text\.gz: the file is damaged or truncated"):
        list(read_lines(tmp_path / "text.gz"))


def test_a_long_text_is_read_completely_from_any_compression(tmp_path):
    text = "".join(f"line {n} {n * n}\n" for n in range(100_000))
    for packer in (gzip.compress, zstd, zstd_in_frames):
        (tmp_path / "text").write_bytes(packer(text.encode()))
        assert "".join(read_lines(tmp_path / "text")) == text


def test_a_path_that_is_not_a_regular_file_is_reported(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "none", tmp_path / "pipe"):
        with (
            pytest.raises(CommandError, match="does not exist or cannot be read"),
            open_decompressed(path),
        ):
            pass
    with pytest.raises(CommandError, match="does not exist or cannot be read"):
        sha256(tmp_path / "none")


def test_missing_zstandard_is_reported_with_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "text.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(9))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(CommandError, match=r"needs zstandard: .*pip install 'polyseme\[train\]'"):
        list(read_lines(path))


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
    text = f"{json.dumps(LINE)}\n\n" * 5000 + json.dumps({"tokens": ["a"], "tags": []})
    expected = [(["the", "bank"], [Tag(1, "bank/noun", "money")])] * 5000 + [(["a"], [])]
    assert read(written(tmp_path / "t.jsonl", text)) == expected
    assert read(written(tmp_path / "t.jsonl.gz", gzip.compress(text.encode()))) == expected


@needs_xml
def test_an_xml_document_is_read(tmp_path):
    assert read(written(tmp_path / "t.xml", XML)) == READ
    words = "".join(f'<word text="w{n}" break_level="SPACE_BREAK"/>' for n in range(50_000))
    [(tokens, _)] = read(written(tmp_path / "long.xml", f"<d>{words}</d>"))
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
def test_a_truncated_archive_is_reported(tmp_path):
    whole = archive(("a.xml", XML.encode() * 100), mode="w")
    with pytest.raises(CommandError, match="damaged"):
        read(written(tmp_path / "t.tar", whole[:5000]))


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

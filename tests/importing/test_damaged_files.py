"""Damaged files of vectors: each is refused with its own sentence and position."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from tests.importing.damaged_fasttext import FASTTEXTS, at
from tests.importing.damaged_rows import ROWS, SKIP, place_of
from tests.importing.files import (
    FASTTEXT,
    PACKINGS,
    WORDS,
    binary,
    fasttext,
    packed,
    rows,
    text,
)
from tests.importing.other_formats import FOREIGN, MARK, PICKLED

pytestmark = pytest.mark.slow

SPOILED = {**ROWS, **FASTTEXTS, **FOREIGN}
CASES = [(kind, case) for kind, cases in SPOILED.items() for case in cases]


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize(("kind", "case"), CASES)
def test_a_damaged_file_is_rejected_with_its_position(importer, monkeypatch, kind, case, packing):
    monkeypatch.chdir(importer.place)  # where the effect of an unpickled file would show
    content, sentence = SPOILED[kind][case]
    assert importer.refusal(packed(content, packing)) == sentence


def test_no_two_kinds_of_damage_share_a_sentence():
    kinds = {}
    for kind, case in CASES:
        kinds.setdefault(re.sub(r"-?\d+", "N", SPOILED[kind][case][1]), set()).add(kind)
    assert {sentence: kinds for sentence, kinds in kinds.items() if len(kinds) > 1} == {}
    assert len(CASES) > 150
    assert len(kinds) > 40


def test_the_pickles_that_are_rejected_do_harm_where_they_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for protocol in range(6):
        pickle.loads(pickle.dumps(PICKLED["harmful"], protocol)).close()
        Path(MARK).unlink()


def test_the_undamaged_files_are_valid(importer):
    for content in (rows(), text(), binary(), fasttext(), fasttext(new=False)):
        assert importer.read(content)[0] == list(WORDS)


def test_words_that_are_equal_after_decoding_are_rejected(importer):
    same = [*WORDS[:3], "+AHo-ebra"]  # UTF-7 for zebra
    said = importer.refusal(rows(same), "--encoding", "utf-7")
    assert said == f"Line 4 repeats the word of line 1{SKIP}"
    said = importer.refusal(fasttext(same), "--encoding", "utf-7")
    assert said == at(place_of(fasttext(), b"1999"), "has a word twice")


def test_a_word_that_is_no_text_after_decoding_is_rejected(importer):
    halved = [*WORDS[:3], "+2AA-"]  # UTF-7 for half of a pair
    said = importer.refusal(rows(halved), "--encoding", "utf-7")
    assert said == f"Line 4 has a word that is not UTF-7 (--encoding names another encoding){SKIP}"
    said = importer.refusal(fasttext(halved), "--encoding", "utf-7")
    place = place_of(fasttext(), b"1999")
    assert said == at(place, f"has a word that is not UTF-7{SKIP[:-1]}")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (rows(), f"Line 3 has a value that is not finite as float16{SKIP}"),
        (
            binary(),
            f"Byte {place_of(binary(), b'okapi')} has a value that is not finite as float16{SKIP}",
        ),
        (fasttext(), "The file has a value that is not finite as float16."),
    ],
    ids=["text", "binary", "fastText"],
)
def test_a_number_too_large_for_float16_is_rejected(importer, content, sentence):
    assert importer.refusal(content, "--dtype", "float16") == sentence


@pytest.mark.parametrize("new", [True, False], ids=["new", "old"])
def test_every_beginning_of_a_fasttext_file_is_rejected(importer, new):
    whole = fasttext(new=new)
    path = importer.file(b"")
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        done = importer.run(path, "--format", "fasttext")
        assert (done.code, done.out) == (1, ""), end
        early = f"polyseme: The fastText file ends too early, at byte {end}.\n"
        assert done.err == (early if end else "polyseme: The file is empty.\n")
    assert not any(importer.models.iterdir())


@pytest.mark.parametrize("build", [text, binary])
def test_every_beginning_of_a_word2vec_file_is_rejected(importer, build):
    whole = build().rstrip(b"\n")
    path = importer.file(b"")
    kind = "word2vec-text" if build is text else "word2vec-binary"
    # Of text the last number may be cut short and still be one.
    for end in range(whole.rindex(b" ") if build is text else len(whole)):
        path.write_bytes(whole[:end])
        done = importer.run(path, "--format", kind)
        assert (done.code, done.out) == (1, ""), end
        refused = done.err.splitlines()[-1]
        assert re.match(r"polyseme: (Line \d|The file is empty)", refused)
    assert not any(importer.models.iterdir())


@pytest.mark.parametrize("field", FASTTEXT)
def test_any_number_in_a_fasttext_header_is_taken_or_rejected(importer, field):
    """gensim, which trusts the header, never gets an invalid one."""
    for number in (-(2**31), -1, 0, 1, 7, 2**16, 2**31 - 1):
        for new in (True, False):
            done = importer.run(fasttext(new=new, **{field: number}), "--name", "m", "--replace")
            assert done.code == 0 or refusal_of(done)


def refusal_of(done):
    return done.code == 1 and done.err.splitlines()[-1].startswith("polyseme: ")


@pytest.mark.parametrize("count", [2**31, 2**62, 2**63 - 1])
def test_impossible_counts_do_no_harm(importer, count):
    done = importer.run(fasttext(counts=[count] * 4))
    assert done.code == 0
    assert done.err.count("\n") == 1


def test_vectors_at_the_edge_of_float32_do_no_harm(importer):
    for number in (3.4e38, -3.4e38, 1e-45, 0.0):
        for build in (binary, fasttext):
            vectors = np.full((4, 3), number, np.float32)
            done = importer.run(build(WORDS, vectors), "--name", "m", "--replace")
            assert done.code == 0, done.err

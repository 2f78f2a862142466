"""Damaged files of vectors: each kind is rejected with its own message and position."""

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

DAMAGED = {**ROWS, **FASTTEXTS, **FOREIGN}
CASES = [(kind, case) for kind, cases in DAMAGED.items() for case in cases]


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize(("kind", "case"), CASES)
def test_a_damaged_file_is_rejected_with_its_position(importer, monkeypatch, kind, case, packing):
    monkeypatch.chdir(importer.place)  # an unpickled file would create a file here
    content, message = DAMAGED[kind][case]
    assert importer.refusal(packed(content, packing)) == message


def test_kinds_of_damage_have_distinct_messages():
    kinds = {}
    for kind, case in CASES:
        kinds.setdefault(re.sub(r"-?\d+", "N", DAMAGED[kind][case][1]), set()).add(kind)
    assert {message: several for message, several in kinds.items() if len(several) > 1} == {}
    assert len(CASES) > 150
    assert len(kinds) > 40


def test_the_rejected_pickles_run_code_if_they_are_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for protocol in range(6):
        pickle.loads(pickle.dumps(PICKLED["harmful"], protocol)).close()
        Path(MARK).unlink()


def test_the_undamaged_files_are_valid(importer):
    for content in (rows(), text(), binary(), fasttext(), fasttext(new=False)):
        assert importer.read(content)[0] == list(WORDS)


def test_words_that_are_equal_after_decoding_are_rejected(importer):
    same = [*WORDS[:3], "+AHo-ebra"]  # UTF-7 for zebra
    message = importer.refusal(rows(same), "--encoding", "utf-7")
    assert message == f"Line 4 repeats the word of line 1{SKIP}"
    message = importer.refusal(fasttext(same), "--encoding", "utf-7")
    assert message == at(place_of(fasttext(), b"1999"), "has a word twice")


def test_a_word_that_decodes_to_a_lone_surrogate_is_rejected(importer):
    words = [*WORDS[:3], "+2AA-"]  # UTF-7 for a lone surrogate
    message = importer.refusal(rows(words), "--encoding", "utf-7")
    assert (
        message == f"Line 4 has a word that is not UTF-7 (--encoding names another encoding){SKIP}"
    )
    message = importer.refusal(fasttext(words), "--encoding", "utf-7")
    place = place_of(fasttext(), b"1999")
    assert message == at(place, f"has a word that is not UTF-7{SKIP[:-1]}")


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
    # In text the last number may be cut and still be a number.
    for end in range(whole.rindex(b" ") if build is text else len(whole)):
        path.write_bytes(whole[:end])
        done = importer.run(path, "--format", kind)
        assert (done.code, done.out) == (1, ""), end
        message = done.err.splitlines()[-1]
        assert re.match(r"polyseme: (Line \d|The file is empty)", message)
    assert not any(importer.models.iterdir())


@pytest.mark.parametrize("field", FASTTEXT)
def test_any_number_in_a_fasttext_header_is_read_or_rejected(importer, field):
    """gensim, which trusts the header, never gets an invalid one."""
    for number in (-(2**31), -1, 0, 1, 7, 2**16, 2**31 - 1):
        for new in (True, False):
            done = importer.run(fasttext(new=new, **{field: number}), "--name", "m", "--replace")
            assert done.code == 0 or is_rejected(done)


def is_rejected(done):
    return done.code == 1 and done.err.splitlines()[-1].startswith("polyseme: ")


@pytest.mark.parametrize("count", [2**31, 2**62, 2**63 - 1])
def test_huge_counts_of_words_are_read(importer, count):
    done = importer.run(fasttext(counts=[count] * 4))
    assert done.code == 0
    assert done.err.count("\n") == 1


def test_the_largest_and_smallest_numbers_of_float32_are_read(importer):
    for number in (3.4e38, -3.4e38, 1e-45, 0.0):
        for build in (binary, fasttext):
            vectors = np.full((4, 3), number, np.float32)
            done = importer.run(build(WORDS, vectors), "--name", "m", "--replace")
            assert done.code == 0, done.err

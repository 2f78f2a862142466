"""The ends of sentences in several languages."""

import lzma
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.sentences import split_sentences

SHARED = Path(__file__).parents[2] / "shared" / "data"
TREEBANKS = Path(os.environ.get("POLYSEME_TEST_DATA", SHARED)) / "languages" / "ud"


def sentences(text, language="en"):
    return [sentence for _, sentence in split_sentences(text, language)]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("de", ["Er traf Dr. Müller am 3. Oktober 1990 in der Bank, z. B. um Geld gem. § 5."]),
        ("de", ["Er kam am 23. Oktober.", "Sie ging."]),
        ("en", ["On Oct. 3 he met Dr. J. Miller, e.g. to get approx. 5 dollars.", "He left."]),
        ("en", ["“Really?” she asked.", "“Yes!”", "It rained... a lot."]),
        ("ru", ["Он родился в 1990 г. в г. Москве.", "Потом уехал!"]),
        ("tr", ["Saat 5. katta durdu.", "Işık söndü mü?", "Evet."]),
        ("ka", ["ბანკი სად არის აქ?", "1990 წ. დაიხურა.", "მერე წავიდა ის."]),
        ("hi", ["एम. के. गांधी और डॉ. शर्मा बैंक गए।", "वे आए॥"]),
        ("ru", ["Он ждал… и ждал…", "«Потом ушёл…»", "Всё."]),
    ],
)
def test_sentences_of_a_line(language, expected):
    assert sentences(" ".join(expected), language) == expected


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("zh", ["我去银行存钱。", "他在银行工作！", "“利率很高。”", "好。"]),
        ("ja", ["私は銀行に行った。", "「はい。」", "「行こう！」と彼は言った。"]),
        ("hi", ["मैंने आम खरीदे।", "आम मीठे थे।"]),
        ("zh", ["银行在哪里?", "在这里!!", "利率3.5%!好。"]),
        ("km", ["ខ្ញុំទៅធនាគារ។", "គាត់ទៅផ្សារ៕"]),
        ("am", ["ባንኩ እዚህ ነው።", "አዎ።"]),
    ],
)
def test_some_scripts_need_no_space_after_a_sentence(language, expected):
    assert sentences("".join(expected), language) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("a" * 200_000 + " b! A. C", "A. B. " * 30_000, "A! " * 30_000),
        *("銀!" * 30_000, "銀" + "!" * 200_000 + "銀", "… " * 30_000),
    ],
)
def test_long_texts_take_seconds(text):
    start = time.thread_time()
    assert sentences(text)
    assert time.thread_time() - start < 5


def test_line_breaks_end_sentences():
    assert sentences("one\n\ntwo\r\n three") == ["one", "two", "three"]
    assert sentences(["One.", "Two."]) == [["One.", "Two."]]


@given(
    st.text(st.sampled_from("aB1 .!?…銀\n。”\u2028"), max_size=40), st.sampled_from(["en", "de"])
)
def test_starts_point_into_the_text(text, language):
    end = 0
    for start, sentence in split_sentences(text, language):
        assert text[start : start + len(sentence)] == sentence == sentence.strip() != ""
        assert not text[end:start].strip()
        end = start + len(sentence)
    assert not text[end:].strip()


@pytest.mark.parametrize(
    ("name", "language", "max_cut", "min_split"),
    [
        *(("de_gsd", "de", 0.005, 0.95), ("ru_gsd", "ru", 0.005, 0.95)),
        *(("ja_gsd", "ja", 0.005, 0.95), ("tr_imst", "tr", 0.011, 0.95)),
    ],
)
def test_sentences_of_treebanks(name, language, max_cut, min_split):
    file = TREEBANKS / f"{name}-ud-dev.conllu.xz"
    if not file.exists():
        pytest.skip("needs the shared data (POLYSEME_TEST_DATA)")
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        texts = [line[9:].strip() for line in lines if line.startswith("# text = ")]
    cut = sum(len(sentences(text, language)) > 1 for text in texts)
    assert cut / len(texts) <= max_cut
    space = "" if language == "ja" else " "
    pairs = [(a, b) for a, b in zip(texts[::2], texts[1::2], strict=False) if a[-1] in ".!?。"]
    split = sum(
        any(start == len(a + space) for start, _ in split_sentences(a + space + b, language))
        for a, b in pairs
    )
    assert split / len(pairs) >= min_split

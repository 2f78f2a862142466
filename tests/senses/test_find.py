"""The senses of a word: in texts, and of given occurrences."""

from dataclasses import replace

import numpy as np
import orjson
import pytest
from pydantic import TypeAdapter

from polyseme.engine import unit
from polyseme.errors import InvalidError, TooLargeError
from polyseme.operations.compare import Occurrence
from polyseme.operations.limits import Limits
from polyseme.senses.find import MappedSenses, Senses, SensesRequest, best_keywords
from polyseme.senses.find import find_senses as senses
from polyseme.senses.inventory import ApplySensesRequest, apply_senses
from polyseme.senses.occurrences import surround
from tests.operations.calls import senses_in, senses_of_occurrences

RIVER = [
    "He sat on the bank of the river and watched the water flow.",
    "The boat reached the muddy bank of the stream.",
    "Trees grow along the bank of the river.",
    "They fished from the river bank all afternoon.",
    "The flooded river washed the bank away.",
    "Ducks sleep on the grassy bank near the lake.",
    "We walked along the bank of the canal to the bridge.",
    "The river rose over its bank after the rain.",
]
MONEY = [
    "The bank raised its interest rates again.",
    "She opened a savings account at the bank.",
    "The bank lends money to small companies.",
    "He asked the bank for a loan to buy a house.",
    "The central bank controls inflation and the currency.",
    "My bank charges a fee for each credit card payment.",
    "The bank reported a loss of ten million dollars.",
    "Investors lost money when the bank failed.",
]


@pytest.fixture(scope="module")
def found(bundled):
    return senses_in(bundled, "bank", RIVER + MONEY, senses=2, map=True)


def labels_of(found):
    """The sense of each occurrence."""
    return np.array([one.sense for one in found.occurrences])


def test_the_river_and_the_money_bank_are_two_senses(found):
    labels = labels_of(found)
    assert len(set(labels[:8].tolist())) == len(set(labels[8:].tolist())) == 1
    assert labels[0] != labels[8]
    assert [(one.id, one.size, one.proportion) for one in found.senses] == [
        (0, 8, 0.5),
        (1, 8, 0.5),
    ]
    for label, keyword, other in [(labels[0], "river", "money"), (labels[8], "money", "river")]:
        sense = found.senses[label]
        words = {one.word for one in sense.keywords}
        assert keyword in words and not words & {"bank", other}
        weights = [one.weight for one in sense.keywords]
        assert weights == sorted(weights, reverse=True) and weights[0] <= 1
        neighbors = {one.word for one in sense.neighbors}
        assert neighbors and not neighbors & {"bank", "Bank", "BANK"}
        assert set(labels[sense.examples]) == {label}


def test_the_evidence_of_an_example_is_for_its_sense_and_against_the_other(bundled, found):
    labels = labels_of(found)
    tokens = [bundled.tokenizer.tokens(text) for text in RIVER + MONEY]
    places = [[[token.text for token in one].index("bank")] for one in tokens]
    contexts = surround(bundled, tokens, places)[:, : bundled.manifest.dimension]
    centers = unit(np.stack([contexts[labels == label].mean(axis=0) for label in (0, 1)]))
    for sense in found.senses:
        direction = centers[sense.id] - centers[1 - sense.id]
        for example, evidence in zip(sense.examples, sense.evidence, strict=True):
            text = (RIVER + MONEY)[example]
            assert all(text[one.start : one.end] == one.word for one in evidence)
            sizes = [abs(one.weight) for one in evidence]
            assert sizes == sorted(sizes, reverse=True) and evidence[0].weight > 0
            # The words that are left out have less than 2 % each.
            said = sum(one.weight for one in evidence)
            assert said == pytest.approx(contexts[example] @ direction, rel=0.1)
    alone = senses_in(bundled, "bank", RIVER, senses=1).senses[0]
    assert all(one[0].weight > 0 for one in alone.evidence)


def test_other_forms_and_cases_count_on_request(bundled):
    texts = ["Bank of the river", "the BANK failed", "two banks", "no such word"]
    assert len(senses_in(bundled, "bank", texts).occurrences) == 2
    assert len(senses_in(bundled, "bank", texts, forms=["banks"]).occurrences) == 3
    exact = senses_in(bundled, "Bank", texts, case="exact").occurrences
    assert [(one.text, one.start, one.end) for one in exact] == [(0, 0, 4)]
    for word, hint in (("high speed", "found only with `phrases`"), ("zebra", "other forms")):
        with pytest.raises(InvalidError) as caught:
            senses_in(bundled, word, texts)
        assert hint in caught.value.hint


def test_lists_of_words_have_the_senses_of_their_texts(bundled):
    texts = [f"The Bank {text}"[:-1] for text in RIVER + MONEY]
    lists = [text.split() for text in texts]
    options = {"senses": 2, "map": True, "inventory": True}
    found = senses(bundled, SensesRequest.of(word="bank", texts=texts, **options))
    mixed = senses(bundled, SensesRequest.of(word="bank", texts=texts[:9] + lists[9:], **options))
    same = senses(bundled, SensesRequest.of(word="bank", texts=lists, **options))
    assert same.inventory.to_json() == found.inventory.to_json() == mixed.inventory.to_json()
    expected = [(one.text, texts[one.text][: one.start].count(" ")) for one in found.occurrences]
    assert [(one.text, one.index) for one in same.occurrences] == expected
    for one, other in zip(same.occurrences, found.occurrences, strict=True):
        assert replace(one, start=other.start, end=other.end, index=None) == other
        assert one.start is one.end is None is other.index
    assert mixed.occurrences == found.occurrences[:18] + same.occurrences[18:]
    request = ApplySensesRequest.of(inventory=found.inventory, texts=texts[:9] + lists[9:])
    applied = [(one.text, one.offset) for one in apply_senses(bundled, request).occurrences]
    assert applied == [(one.text, one.offset) for one in mixed.occurrences]


def test_a_phrase_is_an_occurrence_with_offsets_or_an_index(bundled):
    texts = [["a", "high", "speed", "train"], ["", "by", "high", "speed", "bank", "of", "bank"]]
    texts += ["a high  speed train", "The High speed line", "high-speed rail"]
    found = senses_in(bundled, "high speed", texts, phrases=True)
    places = [(one.text, one.index, one.start, one.end) for one in found.occurrences]
    assert places == [(0, 1, None, None), (1, 2, None, None), (2, None, 2, 13), (3, None, 4, 14)]
    assert len(found.senses) == 1 and any("too few" in note for note in found.notes)
    banks = senses_in(bundled, "bank", texts, phrases=True).occurrences
    assert [(one.text, one.index) for one in banks] == [(1, 4), (1, 6)]
    given = [{"text": texts[1], "index": at} for at in (6, 2, 3)]
    request = SensesRequest.of(occurrences=given, phrases=True)
    assert [one.index for one in senses(bundled, request).occurrences] == [6, 2, 2]


def test_texts_in_another_order_have_the_same_senses(bundled):
    def read(texts):
        options = {"senses": 5, "map": True, "divisions": True, "neighbors": 0}
        found = senses_in(bundled, "bank", texts, **options)
        names = [f"{texts[one.text]} {one.start}" for one in found.occurrences]
        examples = [[names[i] for i in one.examples] for one in found.senses]
        columns = [[(one.sense, one.confidence, one.x, one.y) for one in found.occurrences]]
        columns += [zip(one.labels, one.confidence, strict=True) for one in found.alternatives]
        rows = [sorted(zip(names, column, strict=True)) for column in columns]
        evidence = [(one.separation, one.sizes) for one in found.alternatives]
        senses = [replace(one, examples=[]) for one in found.senses]
        return examples, rows, evidence, senses, found.several

    texts = [*RIVER, *MONEY, ["a", "bank"], "The Bank", "bank bank", RIVER[0]]
    expected = read(texts)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(texts))
        assert read([texts[i] for i in order]) == expected


def test_texts_without_the_word_give_an_import_their_mean(bundled):
    """Only the probability of several senses depends on them."""
    imported = replace(bundled, senses=None)  # the projection is estimated, as that of an import
    others = [text.replace("bank", "place") for text in RIVER + MONEY] * 10

    def read(model, others):
        found = senses_in(model, "bank", [*RIVER, *MONEY, *others], senses=2, neighbors=0)
        return found.several, replace(found, several=0)

    several, rest = read(imported, [])
    assert read(imported, others[:80]) == (several, rest)
    with_others, rest_with_others = read(imported, others)
    assert with_others > several + 0.05 and rest_with_others == rest
    shuffled = np.random.default_rng(1).permutation(others).tolist()
    assert read(imported, shuffled) == (with_others, rest)
    assert abs(read(imported, [text.split() for text in others])[0] - several) > 1e-3
    # A model that was fitted to texts has their mean already.
    assert read(bundled, others) == read(bundled, [])


def test_every_alternative_has_its_evidence_and_on_request_its_senses(bundled):
    texts = RIVER + MONEY
    result = senses_in(bundled, "bank", texts, senses=2)
    assert TypeAdapter(Senses).validate_json(orjson.dumps(result)) == result
    assert 0 < result.several < 1
    assert [one.senses for one in result.alternatives] == [1, 2, 3, 4, 5, 6]
    assert [one.sizes for one in result.alternatives[:2]] == [[16], [8, 8]]
    assert result.alternatives[0].separation == 0
    assert result.alternatives[1].separation == result.separation
    assert not hasattr(result.alternatives[0], "labels")
    assert not hasattr(result.occurrences[0], "x")
    described = senses_in(bundled, "bank", texts, senses=2, divisions=True, map=True)
    assert TypeAdapter(MappedSenses).validate_json(orjson.dumps(described)) == described
    assert described.alternatives[1].described == described.senses == result.senses
    assert described.alternatives[1].labels == [one.sense for one in described.occurrences]
    for one in described.alternatives:
        assert [sense.size for sense in one.described] == one.sizes
        assert np.bincount(one.labels).tolist() == one.sizes
    three = described.alternatives[2]
    alone = senses_in(bundled, "bank", texts, senses=3)
    assert alone.senses == three.described
    assert [each.confidence for each in alone.occurrences] == three.confidence


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"word": "apple", "texts": RIVER}, "/word"),
        ({"word": "bank", "texts": [[], ["", " "], ["ban", "k"], ["bank bank"]]}, "/word"),
        ({"word": " ", "texts": [["", " "], ["bank bank"]]}, "/word"),
        ({"word": "bank"}, ""),
        ({"texts": RIVER}, ""),
        ({"word": "bank", "texts": RIVER, "occurrences": []}, "/occurrences"),
        ({"word": "bank", "texts": RIVER, "senses": 9}, "/senses"),
        ({"word": "bank", "texts": RIVER, "senses": 21}, "/senses"),
        ({"word": "bank", "texts": RIVER, "senses": "few"}, "/senses"),
        ({"word": "bank", "texts": RIVER, "case": "lower"}, "/case"),
        ({"word": "bank", "occurrences": [{"text": "a bank", "word": "bank"}]}, ""),
        ({"word": "bank", "texts": []}, "/texts"),
        ({"word": "bank", "texts": ["a bank", 1]}, "/texts/1"),
        ({"word": "bank", "texts": ["a bank", ["a", ["bank"]]]}, "/texts/1/1"),
    ],
)
def test_an_invalid_request_is_rejected_without_its_words(bundled, fields, pointer):
    with pytest.raises(InvalidError) as caught:
        senses(bundled, SensesRequest.of(**fields))
    (error,) = caught.value.errors
    assert error.pointer == pointer
    assert "apple" not in caught.value.message()


def test_an_unknown_word_has_senses_by_its_contexts(bundled):
    texts = [text.replace("bank", "qzxqzx" * 50) for text in RIVER + MONEY]
    found = senses_in(bundled, "qzxqzx" * 50, texts, senses=2)
    labels = labels_of(found)
    assert (labels[:8] == labels[0]).mean() > 0.8 and (labels[8:] == labels[8]).mean() > 0.8
    assert any("not in the vocabulary" in note for note in found.notes)


def test_keywords_of_equal_weight_are_in_alphabetical_order():
    words, scores = ["d", "b", "zero", "c", "a"], np.array([1, 1, 0, 2, 1.0])
    assert [one.word for one in best_keywords(words, scores, 3)] == ["c", "a", "b"]
    assert [one.word for one in best_keywords(words, scores, 9)] == ["c", "a", "b", "d"]
    assert best_keywords(words, scores, 0) == best_keywords([], np.zeros(0), 3) == []


def test_a_text_with_several_occurrences_is_encoded_once(bundled, encoded):
    text, other = "bank of the bank by the river Bank", "the bank"
    given = [
        Occurrence(other, "bank"),
        *(Occurrence(text, start=start, end=start + 4) for start in (12, 0, 30)),
        Occurrence(other, start=4, end=8),
    ]
    limits = Limits(max_sentences=2, max_tokens=10, max_occurrences=5)
    found = senses_of_occurrences(bundled, given, limits, senses=2)
    assert encoded == [2, 8]
    assert [(one.text, one.start) for one in found.occurrences] == [
        *((0, 4), (1, 12), (2, 0), (3, 30), (4, 4))
    ]
    apart = [replace(one, text=one.text + " " * n) for n, one in enumerate(given)]
    separate = senses_of_occurrences(bundled, apart, senses=2)
    assert found == separate


def test_too_many_occurrences_are_rejected_before_they_are_encoded(bundled, encoded):
    given = [Occurrence("the bank", "bank")] * 4
    calls = [(senses_in, "bank", ["bank bank", "the bank bank"]), (senses_of_occurrences, given)]
    for call, *arguments in calls:
        with pytest.raises(TooLargeError) as caught:
            call(bundled, *arguments, Limits(max_occurrences=3))
        assert caught.value.extra == {"setting": "max_occurrences", "limit": 3, "size": 4}
        assert "sample of the texts, or use the command `polyseme senses`" in caught.value.hint
        assert encoded == []
        assert len(call(bundled, *arguments, Limits(max_occurrences=4)).occurrences) == 4
        encoded.clear()

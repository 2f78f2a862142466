"""Inventories: what they contain, how they are applied, and which documents are rejected."""

import math
import re

import numpy as np
import orjson
import pytest
from pydantic import TypeAdapter

from polyseme.engine import unit
from polyseme.errors import InvalidError, TooLargeError
from polyseme.operations.limits import Limits
from polyseme.senses import inventory as inventories
from polyseme.senses.find import SensesRequest
from polyseme.senses.find import find_senses as senses
from polyseme.senses.inventory import (
    AppliedSenses,
    ApplySensesRequest,
    apply_senses,
    load_inventory,
    read_inventory,
)
from polyseme.senses.occurrences import find_projection, project, surround
from tests.senses.test_find import MONEY, RIVER


@pytest.fixture(scope="module")
def result(bundled):
    request = SensesRequest.of(word="bank", texts=RIVER + MONEY, senses=2, inventory=True)
    return senses(bundled, request)


@pytest.fixture(scope="module")
def document(result):
    return orjson.loads(result.inventory.to_json())


def applied(model, inventory, texts, limits=None, **fields):
    given = {"texts": texts} if texts else {}
    return apply_senses(
        model, ApplySensesRequest.of(inventory=inventory, **given, **fields), limits
    )


def test_an_inventory_describes_the_senses_and_its_model(bundled, result, tmp_path):
    result.save(tmp_path / "bank.senses")
    stored = load_inventory(tmp_path / "bank.senses")
    assert stored.to_json() == result.inventory.to_json()
    assert (stored.format, stored.version, stored.model) == ("polyseme-senses", 1, "wiki-en")
    assert stored.checksum == bundled.manifest.checksum
    assert (stored.word, stored.forms, stored.case, stored.phrases) == ("bank", [], "any", False)
    for sense, found in zip(stored.senses, result.senses, strict=True):
        assert (sense.size, sense.keywords) == (found.size, found.keywords)
        assert sense.label == " ".join(one.word for one in found.keywords[:3])
        assert np.linalg.norm(sense.centroid) == pytest.approx(1)
    assert senses(bundled, SensesRequest.of(word="bank", texts=RIVER)).inventory is None
    # Senses of the same keywords have different labels.
    request = SensesRequest.of(word="bank", texts=["the bank"] * 3, senses=3, inventory=True)
    stored = senses(bundled, request).inventory.senses
    assert len({one.label for one in stored} - {""}) == 3
    assert np.isfinite([one.threshold for one in stored]).all()  # of a single occurrence


def test_an_inventory_tags_its_own_texts_as_they_were_clustered(bundled, result):
    found = applied(bundled, result.inventory, RIVER + MONEY)
    assert TypeAdapter(AppliedSenses).validate_json(orjson.dumps(found)) == found
    for one, clustered in zip(found.occurrences, result.occurrences, strict=True):
        assert (one.text, one.start, one.end) == (clustered.text, clustered.start, clustered.end)
        assert one.sense == clustered.sense
        assert one.confidence == pytest.approx(clustered.confidence, abs=1e-4)
        assert one.label == result.inventory.senses[one.sense].label
    # A threshold is above five percent of the occurrences, by their similarity to the others.
    tokens = [bundled.tokenizer.tokens(text) for text in RIVER + MONEY]
    places = [[i for i, one in enumerate(s) if one.text == "bank"] for s in tokens]
    points = project(surround(bundled, tokens, places), find_projection(bundled))
    labels = np.array([one.sense for one in result.occurrences])
    for index, sense in enumerate(result.inventory.senses):
        members = points[labels == index]
        rest = [unit(np.delete(members, i, 0).sum(axis=0)[None])[0] for i in range(len(members))]
        cosines = (members * rest).sum(axis=1)
        assert sense.threshold == pytest.approx(np.quantile(cosines, 0.05), abs=1e-4)


def test_given_occurrences_are_tagged_in_their_order(bundled, result):
    text = "Bank of the river bank"
    given = [{"text": text, "start": 18, "end": 22}, {"text": "a bank", "word": "bank"}]
    given.append({"text": text, "word": "Bank"})
    found = applied(bundled, result.inventory, None, occurrences=given).occurrences
    assert [(one.text, one.start) for one in found] == [(0, 18), (1, 2), (2, 0)]
    given = [{"text": "the River Bank", "word": "Bank"}, {"text": "a loan", "word": "loan"}]
    found = senses(bundled, SensesRequest.of(occurrences=given, inventory=True))
    assert found.word == found.inventory.word == "Bank"
    found = applied(bundled, result.inventory, ["no such word", ""])
    assert (found.occurrences, found.unsure) == ([], 0)


def test_nearest_sense_and_confidence_follow_from_the_cosines(bundled, result):
    texts = ["The boat lay at the bank of the lake.", "no", "Bank shares fell", "bank bank"]
    tokens = [bundled.tokenizer.tokens(text) for text in texts]
    rows = surround(bundled, [tokens[0], tokens[2], tokens[3]], [[5], [0], [0, 1]])
    stored = result.inventory.senses
    cosines = project(rows, find_projection(bundled)) @ np.stack([one.centroid for one in stored]).T
    found = applied(bundled, result.inventory, texts)
    assert [(one.text, one.start) for one in found.occurrences] == [(0, 20), (2, 0), (3, 0), (3, 5)]
    for one, row in zip(found.occurrences, cosines.tolist(), strict=True):
        assert one.sense == row.index(max(row))
        exponentials = [math.exp(cosine / 0.1) for cosine in row]
        expected = max(exponentials) / sum(exponentials)
        assert one.confidence == pytest.approx(expected, abs=1e-4)
        assert one.unsure == (max(row) < stored[one.sense].threshold)
    assert found.unsure == pytest.approx(np.mean([one.unsure for one in found.occurrences]))


def test_forms_case_and_phrases_are_those_of_the_search(bundled):
    texts = ["a high speed train", "High speed rail", "high speeds"]
    options = {"forms": ["high speeds"], "case": "exact", "phrases": True, "inventory": True}
    found = senses(bundled, SensesRequest.of(word="high speed", texts=texts, **options))
    again = applied(bundled, found.inventory, texts).occurrences
    spans = [[(one.text, one.start) for one in some] for some in (found.occurrences, again)]
    assert spans[0] == spans[1]


def test_senses_without_a_known_word_in_a_context_are_saved_and_applied(bundled):
    texts = ["बैंक बंद", "नदी का बैंक"]
    request = SensesRequest.of(word="बैंक", texts=texts, inventory=True)
    inventory = read_inventory(senses(bundled, request).inventory.to_json())
    assert not inventory.senses[0].centroid.any()
    assert [one.unsure for one in applied(bundled, inventory, texts).occurrences] == [True] * 2


def test_labels_are_those_of_the_user(bundled, result):
    named = result.inventory.with_labels(["money", "river"])
    labels = {one.label for one in applied(bundled, named, RIVER + MONEY).occurrences}
    assert labels == {"money", "river"}
    for wrong in (["money"], ["a", "a"], ["a", ""], ["a", "b" * 101], ["a", "b", "c"]):
        with pytest.raises(InvalidError):
            result.inventory.with_labels(wrong)


@pytest.mark.parametrize("changed", ["checksum", "width"])
def test_the_senses_of_another_model_are_an_error(bundled, document, changed):
    senses_of = document["senses"]
    if changed == "width":
        senses_of = [{**one, "centroid": [1.0, 0.0]} for one in senses_of]
    checksum = "0" * 64 if changed == "checksum" else document["checksum"]
    other = read_inventory(orjson.dumps({**document, "checksum": checksum, "senses": senses_of}))
    with pytest.raises(InvalidError, match="another model than wiki-en found these senses"):
        applied(bundled, other, RIVER)


def changed(document, path, value):
    """A copy of a document with one value replaced, or removed if it is `...`."""
    document = orjson.loads(orjson.dumps(document))
    *parents, last = path
    at = document
    for part in parents:
        at = at[part]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return document


FIRST = ("senses", 0)
HOSTILE = [
    (("format",), "other"),
    (("version",), 2),
    (("version",), True),
    (("model",), "../wiki-en"),
    (("checksum",), "Z" * 64),
    (("word",), ""),
    (("forms",), ["a"] * 65),
    (("case",), "lower"),
    (("phrases",), 1),
    (("several",), 1.5),
    (("separation",), "0"),
    (("senses",), []),
    (("more",), 1),
    ((*FIRST, "more"), 1),
    ((*FIRST, "label"), ""),
    ((*FIRST, "label"), "x" * 101),
    ((*FIRST, "size"), -1),
    ((*FIRST, "keywords"), [{"word": "a"}]),
    ((*FIRST, "keywords"), [{"word": "a", "weight": 1.0}] * 101),
    ((*FIRST, "threshold"), 1.1),
    ((*FIRST, "threshold"), ...),
    ((*FIRST, "centroid"), []),
    ((*FIRST, "centroid"), "AAAA"),
    ((*FIRST, "centroid"), [1.0] * 200),
    ((*FIRST, "centroid"), [[1.0], 2.0]),
    ((*FIRST, "centroid"), [None]),
    ((*FIRST, "centroid"), [True]),
    ((*FIRST, "centroid"), [1e300]),
    ((*FIRST, "centroid"), [0.0] * 65_537),
]


@pytest.mark.parametrize(("path", "value"), HOSTILE, ids=str)
def test_a_damaged_document_is_rejected_with_the_place(document, path, value):
    with pytest.raises(InvalidError) as caught:
        read_inventory(orjson.dumps(changed(document, path, value)))
    (error, *_) = caught.value.errors
    assert error.path[: len(path)] == path
    assert "not an inventory" in str(caught.value)


def test_centroids_of_different_lengths_are_rejected(document):
    with pytest.raises(InvalidError, match="one length"):
        read_inventory(orjson.dumps(changed(document, (*FIRST, "centroid"), [1.0])))


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e999", b"-1e999", b"1" + b"0" * 400])
def test_a_number_that_is_not_finite_is_rejected(document, number):
    good = orjson.dumps(document)
    for before in (rb'"centroid":\[', rb'"weight":', rb'"threshold":', rb'"separation":'):
        pattern = b"(%b)[^],}]+" % before
        same = re.sub(pattern, rb"\g<1>0.5", good, count=1)
        assert same != good and orjson.loads(same)  # only the number can be the reason
        with pytest.raises(InvalidError):
            read_inventory(re.sub(pattern, rb"\g<1>%b" % number, good, count=1))


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b"\x80\x04]q", b'"x"'], ids=len
)
def test_what_is_no_inventory_is_rejected(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InvalidError, match=r"^This is not an inventory of senses\."):
        load_inventory(tmp_path / "file")


def test_a_huge_file_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(inventories, "MAX_FILE_BYTES", 1 << 20)
    (tmp_path / "file").write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(InvalidError, match="more than 1 MiB"):
        load_inventory(tmp_path / "file")


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({}, ""),
        ({"texts": []}, "/texts"),
        ({"texts": ["a"], "occurrences": [{"text": "a", "word": "a"}]}, ""),
        ({"texts": ["a"], "word": "a"}, "/word"),
        ({"occurrences": [{"text": "a", "word": "b"}]}, "/occurrences/0/word"),
    ],
)
def test_an_invalid_request_is_rejected(bundled, result, fields, pointer):
    with pytest.raises(InvalidError) as caught:
        apply_senses(bundled, ApplySensesRequest.of(inventory=result.inventory, **fields))
    assert caught.value.errors[0].pointer == pointer


def test_the_limits_hold(bundled, result):
    texts = ["bank bank", "the bank bank"]
    for limits in ({"max_occurrences": 3}, {"max_sentences": 1}, {"max_tokens": 4}):
        with pytest.raises(TooLargeError) as caught:
            applied(bundled, result.inventory, texts, Limits(**limits))
        assert {caught.value.extra["setting"]} == {*limits}

"""The senses of a word: in process, over HTTP, with the client and on the command line."""

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from pydantic import TypeAdapter

from polyseme import progress
from polyseme.cli.senses import _picture, _Source, _write_occurrences
from polyseme.client.local import LocalModel
from polyseme.engine.arrays import unit
from polyseme.engine.layers import contextualize
from polyseme.errors import InvalidError, TooLargeError
from polyseme.models.reader import read_model
from polyseme.models.registry import bundled_models
from polyseme.operations.compare import Occurrence
from polyseme.operations.options import EncodeOptions, Limits
from polyseme.operations.senses import MappedSenses, _best_words, senses_of
from polyseme.senses import occurrences
from polyseme.senses.occurrences import REACH, encode_occurrences
from polyseme.tokenizer import resolve_all
from tests.cli.conftest import run
from tests.http.conftest import expect_problem
from tests.operations.calls import senses_in, senses_of_occurrences
from tests.tiny import VECTORS, WORDS, full_layer, tiny_model

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
def model():
    return read_model(bundled_models() / "wiki-en")


@pytest.fixture(scope="module")
def found(model):
    return senses_in(model, "bank", RIVER + MONEY, senses=2, map=True)


def test_the_river_and_the_money_bank_are_two_senses(found):
    labels = found.clusters.labels
    assert len(set(labels[:8].tolist())) == len(set(labels[8:].tolist())) == 1
    assert labels[0] != labels[8]
    assert [one.size for one in found.senses] == [8, 8]
    for label, keyword, other in [(labels[0], "river", "money"), (labels[8], "money", "river")]:
        words = {one.word for one in found.senses[label].keywords}
        assert keyword in words
        assert not words & {"bank", other}
        assert set(labels[found.senses[label].examples]) == {label}


def test_keywords_are_ordered_and_neighbors_exclude_the_word(found):
    for sense in found.senses:
        weights = [one.weight for one in sense.keywords]
        assert weights == sorted(weights, reverse=True) and weights[0] <= 1
        neighbors = {one.word for one in sense.neighbors}
        assert neighbors
        assert not neighbors & {"bank", "Bank", "BANK"}


def test_surroundings_are_means_of_the_other_words(tmp_path):
    bias = np.zeros(len(WORDS), np.float32)
    bias[WORDS.index("money")] = np.log(0.25)  # a quarter as informative
    tiny = tiny_model(tmp_path, layers=[full_layer(1)], word_bias=bias)
    tokens = resolve_all(["bank", "river", "absent", "bank", "money"], tiny.vocabulary)
    (found,) = encode_occurrences(tiny, tokens, [0], 0)
    d = len(found.context)
    river, money = (unit(VECTORS[[WORDS.index(word)]])[0] for word in ("river", "money"))
    expected = [river + money / 4, river * np.exp(-1 / 2) + money / 4 * np.exp(-4 / 2)]
    np.testing.assert_allclose(found.surroundings[:d], found.context)
    np.testing.assert_allclose(
        found.surroundings[d:].reshape(2, d), unit(np.stack(expected)), rtol=1e-5, atol=1e-6
    )


def test_other_forms_and_cases_count_on_request(model):
    texts = ["Bank of the river", "the BANK failed", "two banks", "no such word"]
    assert len(senses_in(model, "bank", texts).occurrences) == 2
    assert len(senses_in(model, "bank", texts, forms=["banks"]).occurrences) == 3
    exact = senses_in(model, "Bank", texts, case="exact").occurrences
    assert [(one.text, one.start, one.end) for one in exact] == [(0, 0, 4)]


def test_a_phrase_has_senses(model):
    texts = ["a high  speed train", "The High speed line", "high-speed rail"]
    found = senses_in(model, "high speed", texts, phrases=True).occurrences
    assert [(one.text, one.start, one.end) for one in found] == [(0, 2, 13), (1, 4, 14)]
    with pytest.raises(InvalidError):
        senses_in(model, "high speed", texts)


def test_few_occurrences_are_one_sense_with_a_note(model):
    found = senses_in(model, "bank", RIVER[:3])
    assert len(found.senses) == 1
    assert any("too few" in note for note in found.notes)


def test_more_senses_than_occurrences_are_rejected(model):
    with pytest.raises(InvalidError) as caught:
        senses_in(model, "bank", RIVER[:3], senses=4)
    assert caught.value.errors[0].pointer == "/senses"


def test_an_unknown_word_has_senses_by_its_contexts(model):
    texts = [text.replace("bank", "qzxqzx" * 50) for text in RIVER + MONEY]
    found = senses_in(model, "qzxqzx" * 50, texts, senses=2)
    labels = found.clusters.labels
    assert (labels[:8] == labels[0]).mean() > 0.8 and (labels[8:] == labels[8]).mean() > 0.8
    assert any("not in the vocabulary" in note for note in found.notes)


def read_rows(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".csv":
        return csv.read_csv(path).to_pylist()
    return [json.loads(line) for line in path.read_text().splitlines()]


def post(client, **body):
    return client.post("/v1/senses", json=body)


def test_the_response_is_that_of_the_contract(client, found):
    body = {"word": "bank", "texts": RIVER + MONEY, "senses": 2, "map": True}
    document = post(client, **body).json()
    TypeAdapter(MappedSenses).validate_python(document)
    assert [one["id"] for one in document["senses"]] == [0, 1]
    assert [one["proportion"] for one in document["senses"]] == [0.5, 0.5]
    assert [one["sense"] for one in document["occurrences"]] == found.clusters.labels.tolist()
    first = document["occurrences"][0]
    assert RIVER[0][first["start"] : first["end"]] == "bank" and {"x", "y"} <= set(first)
    assert post(client, **body).json() == document
    assert "x" not in post(client, **{**body, "map": False}).json()["occurrences"][0]


def test_given_occurrences_are_those_that_are_clustered(client):
    occurrences = [{"text": text, "word": "bank"} for text in RIVER + MONEY]
    document = post(client, occurrences=occurrences, senses=2).json()
    assert [one["text"] for one in document["occurrences"]] == list(range(16))
    assert document["word"] == "bank"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"word": "apple", "texts": RIVER}, "/word"),
        ({"word": "bank"}, ""),
        ({"texts": RIVER}, ""),
        ({"word": "bank", "texts": RIVER, "occurrences": []}, "/occurrences"),
        ({"word": "bank", "texts": RIVER, "senses": 21}, "/senses"),
        ({"word": "bank", "texts": RIVER, "senses": "few"}, "/senses"),
        ({"word": "bank", "texts": RIVER, "case": "lower"}, "/case"),
        ({"word": "bank", "occurrences": [{"text": "a bank", "word": "bank"}]}, ""),
    ],
)
def test_an_invalid_request_is_a_422_without_its_words(client, body, pointer):
    problem = expect_problem(post(client, **body), 422, "invalid")
    assert problem["errors"][0]["pointer"] == pointer
    assert "apple" not in json.dumps(problem)


def test_the_model_in_process_gives_what_the_service_gives(client, model):
    local = LocalModel(model).senses("bank", RIVER + MONEY, senses=2, forms=["banks"])
    document = post(client, word="bank", texts=RIVER + MONEY, senses=2, forms=["banks"]).json()
    assert [one.sense for one in local.occurrences] == [
        one["sense"] for one in document["occurrences"]
    ]
    assert tuple(local.senses[0].keywords[0]) == tuple(
        document["senses"][0]["keywords"][0].values()
    )
    assert local.separation == pytest.approx(document["separation"])


def test_the_written_occurrences_have_the_senses_of_the_clusters(model, found, tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("\n".join([*RIVER, *MONEY, "The bank of the river at the bridge."]))
    clusters = found.clusters
    # The labels are exchanged, so that no clustered occurrence has its nearest sense.
    other = replace(found, clusters=replace(clusters, labels=1 - clusters.labels))
    source = _Source((file,), "text", ("bank",), exact=False)
    _write_occurrences(tmp_path / "a.jsonl", source, model, other, RIVER + MONEY, EncodeOptions())
    senses = [int(one["sense"]) for one in read_rows(tmp_path / "a.jsonl")]
    assert senses[:16] == other.clusters.labels.tolist()
    # The last occurrence was not clustered and gets the nearest sense.
    assert senses[16] == clusters.labels[0]


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [(700, 0, 1408), (999, 0, 2000), (700, 700, 2000), (0, 999, 2000)],
)
def test_a_long_sentence_is_cut_around_its_word(tmp_path, before, after, kept):
    file = tmp_path / "texts.txt"
    file.write_text(f"{'x ' * before}bank end{' y' * after}\n")
    ((_, _, sentence),) = _Source((file,), "text", ("bank",), exact=False).sentences("reading")
    assert len(sentence) == kept
    assert "bank end" in sentence


def test_progress_counts_the_rows_of_all_files(tmp_path, monkeypatch):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("the bank. A bank.\nnothing\n")
    rows = []
    monkeypatch.setattr(progress.ConsoleBar, "reach", lambda _, _done, count: rows.append(count))
    found = list(_Source((tmp_path,), "text", ("bank",), exact=False).sentences("reading"))
    assert (len(found), rows) == (4, [2, 4])


def test_forms_may_be_separated_by_commas(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("the bank\ntwo banks\nBanked it\n")
    done = run("senses", "bank", file, "--form", "banks,banked")
    assert "in 3 occurrences" in done.stdout.decode()


@pytest.fixture
def file(tmp_path):
    """A file of the texts, the last of which does not contain the word."""
    file = tmp_path / "texts.jsonl"
    texts = [*RIVER, *MONEY, "nothing here"]
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return file


def test_the_command_prints_a_table(file):
    done = run("senses", "bank", file, "--senses", "2")
    assert done.returncode == 0, done.stderr
    out = done.stdout.decode()
    assert "bank: 2 senses in 16 occurrences" in out and "[bank]" in out and "50 %" in out


def test_the_command_prints_the_document_and_writes_the_occurrences(file, tmp_path):
    document = json.loads(run("senses", "bank", file, "--senses", "2", "--json").stdout)
    assert np.bincount([one["sense"] for one in document["occurrences"]]).tolist() == [8, 8]
    for name in ("all.parquet", "all.csv", "all.jsonl"):
        target = tmp_path / name
        done = run("senses", "bank", file, "--senses", "2", "--output", target)
        assert done.returncode == 0, done.stderr
        rows = read_rows(target)
        assert [int(one["row"]) for one in rows] == list(range(16))
        assert {one["file"] for one in rows} == {"texts.jsonl"}
        assert [int(one["sense"]) for one in rows] == [
            one["sense"] for one in sorted(document["occurrences"], key=lambda one: one["text"])
        ]
        first = rows[0]
        assert first["text"][int(first["start"]) : int(first["end"])] == "bank"


def test_the_command_plots_the_map(file, tmp_path):
    for name, start in (("map.svg", b"<?xml"), ("map.png", b"\x89PNG")):
        target = tmp_path / name
        done = run("senses", "bank", file, "--senses", "2", "--plot", target)
        assert done.returncode == 0, done.stderr
        assert target.read_bytes().startswith(start)


def test_the_command_finds_phrases_on_request(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("a high  speed train\nthe High speed line\n")
    target = tmp_path / "phrase.jsonl"
    done = run("senses", "high speed", file, "--phrases", "--output", target)
    assert "high speed: 1 sense in 2 occurrences" in done.stdout.decode()
    assert [(int(one["start"]), int(one["end"])) for one in read_rows(target)] == [(2, 13), (4, 14)]


def test_a_phrase_that_is_not_found_is_an_error_that_names_the_option(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("a high speed train\n")
    absent = "polyseme: The word does not occur in the texts; --form adds other forms."
    on_request = f"{absent} --phrases finds phrases of the vocabulary."
    for arguments, message in (
        (("savings bank",), on_request),
        (("high speed",), on_request),
        (("high-speed", "--form", "high speed"), on_request),
        (("speed train", "--phrases"), absent),
    ):
        done = run("senses", *arguments, file)
        assert (done.returncode, done.stderr.decode().splitlines()[-1]) == (1, message)


def test_the_command_rejects_an_unknown_format_and_an_absent_word(file, tmp_path):
    bad = run("senses", "bank", file, "--output", tmp_path / "all.xlsx")
    assert bad.returncode == 2 and b".parquet, .csv, .jsonl" in bad.stderr
    missing = run("senses", "zeppelin", file)
    assert missing.returncode == 1 and b"does not occur" in missing.stderr


def test_twenty_senses_have_different_marks(found):
    drawn = _picture(replace(found, senses=found.senses * 10), "svg").decode()
    legend = drawn[drawn.index('id="legend_1"') :]
    marks = re.findall(r'xlink:href="(#m\w+)" .*?style="fill: (#\w+);', legend)
    assert len(marks) == len(set(marks)) == 20


def expected_occurrence(model, tokens, place):
    """The surroundings and the attended words of a token, by definition."""
    inputs = model.sentence(tokens)
    last = len(model.layers) - 1
    result = contextualize(inputs, model.layers, ("weights",), (last,))
    names = [token.text.casefold() for token in tokens]
    informative = np.exp(np.minimum(inputs.word_bias, 0))
    static = unit(inputs.vectors).astype(np.float64)
    means, attended = np.zeros((2, static.shape[1])), {}
    weights = result.records[last]["weights"].mean(axis=0)[place]
    for other, name in enumerate(names):
        if name != names[place]:
            means[0] += informative[other] * static[other]
            means[1] += informative[other] * np.exp(-abs(other - place) / REACH) * static[other]
            if name.isalnum():
                weight = float(weights[other] * informative[other])
                attended[name] = attended.get(name, 0) + weight
    return unit(means), attended


def test_all_occurrences_of_a_text_have_their_own_words_and_means(tmp_path):
    bias = np.linspace(-2, 0.5, len(WORDS), dtype=np.float32)
    tiny = tiny_model(tmp_path, layers=[full_layer(1)], word_bias=bias)
    words = ["bank", "River", "-", "absent", "Bank", "money", "river", "end", "bank"] * 20
    tokens = resolve_all(words, tiny.vocabulary)
    places = [at for at, word in enumerate(words) if word != "-"]  # more than one block
    found = encode_occurrences(tiny, tokens, places, 0)
    for one, place in zip(found, places, strict=True):
        means, attended = expected_occurrence(tiny, tokens, place)
        d = len(one.context)
        np.testing.assert_allclose(one.surroundings[d:].reshape(2, d), means, atol=1e-6)
        shares = {w: s for w, s in zip(one.words, one.attended.tolist(), strict=True) if s}
        assert shares == pytest.approx({word: one for word, one in attended.items() if one})
    (alone,) = encode_occurrences(tiny, tokens, places[70:71], 0)
    assert np.array_equal(alone.surroundings, found[70].surroundings)
    assert np.array_equal(alone.attended, found[70].attended)


def test_an_occurrence_keeps_no_array_of_its_text(model):
    tokens = model.tokenizer.tokens("the bank " * 200)
    found = encode_occurrences(model, tokens, [1], 0)[0]
    owners = [one if one.base is None else one.base for one in (found.static, found.context)]
    assert all(owner.size == len(found.context) for owner in owners)


def test_keywords_of_equal_weight_are_in_alphabetical_order():
    words, scores = ["d", "b", "zero", "c", "a"], np.array([1, 1, 0, 2, 1.0])
    assert [one.word for one in _best_words(words, scores, 3)] == ["c", "a", "b"]
    assert [one.word for one in _best_words(words, scores, 9)] == ["c", "a", "b", "d"]
    assert _best_words(words, scores, 0) == _best_words([], np.zeros(0), 3) == []


@pytest.fixture
def encoded(monkeypatch):
    """The numbers of tokens of the sentences that are encoded."""
    lengths = []

    def count(inputs, *arguments, **options):
        lengths.append(len(inputs.vectors))
        return contextualize(inputs, *arguments, **options)

    monkeypatch.setattr(occurrences, "contextualize", count)
    return lengths


def test_a_text_with_several_occurrences_is_encoded_once(model, encoded):
    text, other = "bank of the bank by the river Bank", "the bank"
    given = [
        Occurrence(other, "bank"),
        *(Occurrence(text, start=start, end=start + 4) for start in (12, 0, 30)),
        Occurrence(other, start=4, end=8),
    ]
    limits = Limits(max_sentences=2, max_tokens=10, max_occurrences=5)
    found = senses_of_occurrences(model, given, limits, senses=2)
    assert encoded == [2, 8]
    assert [(one.text, one.start) for one in found.occurrences] == [
        *((0, 4), (1, 12), (2, 0), (3, 30), (4, 4))
    ]
    apart = [replace(one, text=one.text + " " * n) for n, one in enumerate(given)]
    separate = senses_of_occurrences(model, apart, senses=2)
    assert senses_of("m", found) == senses_of("m", separate)


def test_too_many_occurrences_are_rejected_before_they_are_encoded(model, encoded):
    def find(**limits):
        return senses_in(model, "bank", ["bank bank", "the bank bank"], Limits(**limits))

    def find_given(**limits):
        given = [Occurrence("the bank", "bank")] * 4
        return senses_of_occurrences(model, given, Limits(**limits))

    for senses in (find, find_given):
        with pytest.raises(TooLargeError) as caught:
            senses(max_occurrences=3)
        expected = {"setting": "max_occurrences", "limit": 3, "size": 4}
        assert caught.value.extra == expected
        assert "sample of the texts" in caught.value.hint
        assert "`polyseme senses`" in caught.value.hint
        assert encoded == []
        assert len(senses(max_occurrences=4).occurrences) == 4
        encoded.clear()


def test_the_forms_of_the_word_are_folded_once(model):
    class Counted(str):
        __slots__ = ()
        folded = 0

        def casefold(self):
            Counted.folded += 1
            return super().casefold()

    senses_in(model, Counted("bank"), RIVER + MONEY, forms=[Counted("banks")])
    assert Counted.folded == 2

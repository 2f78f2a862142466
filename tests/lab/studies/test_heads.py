"""What heads attend to: treebanks, coreference, fixed distances and names, by hand."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra `evaluate`")

from lab.studies.heads import (
    Sums,
    Tokens,
    add_similarity,
    add_weights,
    head_hits,
    measure,
    name_of,
    offsets,
    read,
    relations_of,
    tokens_of,
    tops_of,
    word_hits,
)
from lab.studies.pronouns import antecedents, resampled
from lab.studies.treebank import (
    Mention,
    ParsedSentence,
    Pronoun,
    halves,
    head_of,
    pronouns_of,
    read_conllu,
)

from polyseme.client.local import LocalModel
from tests.tiny import WORDS, deep_model

CONLLU = """\
# newdoc id = GUM_bio_bank
# text = The old bank didn't see that it owns a river.
1\tThe\tthe\tDET\tDT\t_\t3\tdet\t_\tEntity=(7-place-new-cf1-3-coref-The_Bank
2\told\told\tADJ\tJJ\t_\t3\tamod\t_\t_
3\tbank\tbank\tNOUN\tNN\t_\t6\tnsubj\t_\tEntity=7)|SpaceAfter=Yes
4-5\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
4\tdid\tdo\tAUX\tVBD\t_\t6\taux\t_\t_
5\tn't\tnot\tPART\tRB\t_\t6\tadvmod\t_\t_
6\tsee\tsee\tVERB\tVB\t_\t0\troot\t_\t_
6.1\tsee\tsee\tVERB\tVB\t_\t_\t_\t_\t_
7\triver\triver\tNOUN\tNN\t_\t6\tobj\t_\tEntity=(8-place-new-cf2-1-sgl(9-place-new-cf2-1-sgl)8)
8\tthat\tthat\tSCONJ\tIN\t_\t10\tmark\t_\t_
9\tit\tit\tPRON\tPRP\t_\t10\tnsubj\t_\tEntity=(7-place-giv:act-cf1-1-ana)
10\towns\town\tVERB\tVBZ\t_\t6\tccomp\t_\t_

1\tEnd\tend\tNOUN\tNN\t_\t0\troot\t_\t_
"""


@pytest.fixture
def sentence():
    return next(read_conllu(CONLLU.splitlines(keepends=True)))


def test_a_treebank_is_read_without_ranges_and_empty_nodes(sentence):
    assert sentence.document == "GUM_bio_bank"
    assert " ".join(sentence.words) == "The old bank did n't see river that it owns"
    assert sentence.heads == [2, 2, 5, 5, 5, -1, 5, 9, 9, 5]
    assert sentence.relations[:3] == ["det", "amod", "nsubj"]
    last = list(read_conllu(CONLLU.rstrip().splitlines()))[-1]
    assert (last.words, last.heads, last.document) == (["End"], [-1], "GUM_bio_bank")
    with pytest.raises(ValueError, match="Line 2 has 3 columns"):
        list(read_conllu(["# a comment", "1\tThe\tthe"]))


def test_only_sentences_of_some_length_with_words_are_read(tmp_path):
    file = tmp_path / "a.conllu"
    hidden = "".join(f"{n}\t_\t_\tX\t_\t_\t0\troot\t_\t_\n" for n in range(1, 7))
    file.write_text(f"{CONLLU}\n{hidden}", encoding="utf-8")
    assert [len(one.words) for one in read([file, file])] == [10, 10]


def test_mentions_are_brackets_that_may_be_nested(sentence):
    assert sentence.mentions == [
        Mention("7", 0, 3),
        Mention("9", 6, 7),
        Mention("8", 6, 7),
        Mention("7", 8, 9),
    ]
    assert [head_of(sentence, mention) for mention in sentence.mentions] == [2, 6, 6, 8]


def test_an_antecedent_is_the_head_of_a_mention_of_the_same_entity(sentence):
    assert list(pronouns_of(sentence)) == [Pronoun(8, "it", [2, 6], [2])]
    # The part of a name is no candidate, and without another noun there is no choice.
    part = [*sentence.relations[:6], "flat:name", *sentence.relations[7:]]
    assert not list(pronouns_of(replace(sentence, relations=part)))
    assert not list(pronouns_of(replace(sentence, mentions=sentence.mentions[1:])))
    assert not list(pronouns_of(replace(sentence, mentions=sentence.mentions[:-1])))


def test_a_document_is_in_one_half():
    of = [ParsedSentence(name, [], [], [], [], []) for name in ("c", "a", "b", "c")]
    assert halves(of) == [0, 0, 1, 0]


def tokens(top):
    """Two sentences of a subject, a verb, an article and an object: verbs at 1 and 5."""
    return Tokens(
        sentence=np.array([0] * 4 + [1] * 4),
        half=np.array([0] * 4 + [1] * 4),
        head=np.array([1, -1, 3, 1, 5, -1, 7, 5]),
        relation=np.array(["nsubj", "root", "det", "obj"] * 2),
        known=np.array([True] * 8),
        top=np.array(top),
    )


def test_a_hit_is_the_head_of_a_word_or_a_dependent_of_a_head():
    of = tokens([[1, 3, 3, 1, 5, 4, 7, 6], [1, 0, 1, 2, 5, 4, 5, 6]])
    hits, words = word_hits(of, "obj", of.top)
    assert words.tolist() == [3, 7]
    assert hits.tolist() == [[True, False], [False, False]]
    hits, heads = head_hits(of, "nsubj", of.top)
    assert heads.tolist() == [1, 5]
    assert hits.tolist() == [[False, True], [True, True]]
    unknown = replace(of, known=of.known & (np.arange(8) != 5))
    assert head_hits(unknown, "nsubj", of.top)[1].tolist() == [1]
    assert word_hits(unknown, "nsubj", of.top)[1].tolist() == [0, 4]
    unknown = replace(of, known=of.known & (np.arange(8) != 4))
    assert word_hits(unknown, "nsubj", of.top)[1].tolist() == [0]


def test_a_fixed_distance_stays_in_its_sentence():
    of = tokens([[0] * 8])
    distances, fixed = offsets(of)
    assert 0 not in distances
    assert fixed[distances.index(1)].tolist() == [1, 2, 3, -1, 5, 6, 7, -1]
    assert fixed[distances.index(-2)].tolist() == [-1, -1, 0, 1, -1, -1, 4, 5]
    by_rule = tops_of(of, fixed)
    # Words with a head: subject, article and object. The next word is that of two of them.
    assert by_rule["head"][distances.index(1)] == pytest.approx(2 / 3)
    # Of all words, the dependent of verb and object is the word before.
    assert by_rule["dependent"][distances.index(-1)] == pytest.approx(1 / 2)
    assert by_rule["previous"][distances.index(-1)] == pytest.approx(3 / 4)


def test_the_best_head_and_distance_are_chosen_in_one_half_and_measured_in_the_other():
    of = tokens([[1, 0, 1, 0, 4, 4, 4, 5], [1, 3, 3, 1, 6, 6, 6, 6]])
    found = relations_of(of)
    of_object = found["head"]["obj"]
    assert of_object["name"] == "object → verb"
    assert of_object["best"] == 1  # although head 0 is better in the second half
    assert (of_object["share"]["value"], of_object["heads"]) == (0, [100, 0])
    assert (of_object["distance"], of_object["distance_share"]["value"]) == (-2, 100)
    assert of_object["gain"]["value"] == -100
    assert not of_object["certain"]
    assert found["dependent"]["obj"]["name"] == "verb → object"
    assert "amod" not in found["head"]


def test_weights_are_summed_over_known_words(sentence):
    short = replace(sentence, words=list("abc"), tags=["DET", "NOUN", "PUNCT"])
    weights = np.array([[[0.5, 0.3, 0.2], [0.0, 0.6, 0.4], [9, 9, 9]]])
    sums = Sums()
    add_weights(sums, weights, short, np.array([True, True, False]))
    expected = {
        "at 0": (0.5 + 0.6) / 2,
        "at 1": (0.3 + 0.4) / 2,
        "at -1": 0.0,
        "at 2": 0.2,
        "near": (0.5 + 0.4) / 2,
        "before": 0.0,
        "after": (0.5 + 0.4) / 2,
        "function words": 0.0,
        "punctuation": (0.2 + 0.4) / 2,
        "function words, uniform": (0 + 1) / 2,
        "punctuation, uniform": 0.0,  # it has no vector, so no word can attend to it
        "distance": (0.3 + 0.4 + 0.4) / 2,
    }
    for name, value in expected.items():
        assert sums.mean(name)[0] == pytest.approx(value), name
    bits = [-sum(p * np.log2(p) for p in row if p) for row in ((0.5, 0.3, 0.2), (0.6, 0.4))]
    assert sums.mean("entropy")[0] == pytest.approx(np.mean(bits))


def test_similarity_is_a_rank_correlation_with_cosines_of_the_other_words():
    angles = np.array([0, 0.1, 0.35, 0.8, 1.5])
    static = 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    nearness = -abs(np.subtract.outer(angles, angles))
    sums = Sums()
    add_similarity(sums, np.stack([nearness, -nearness]), static, np.array([True] * 5))
    np.testing.assert_allclose(sums.mean("similarity"), [1, -1])
    few = Sums()
    add_similarity(few, nearness[None], static, np.array([True] * 4 + [False]))
    assert not few.values


def head(**changes):
    """A head that no rule names."""
    at = [5.0] * 17
    for distance, weight in changes.pop("weights", {}).items():
        at[distance + 8] = weight
    kinds = {"punctuation": 10, "function words": 30}
    kinds |= {f"{kind}, uniform": weight for kind, weight in kinds.items()}
    plain = {"relations": [], "near": 30, "before": 40, "after": 40, "similarity": 0}
    return {"weight_at": at, **plain, **kinds, **changes}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "wide context"),
        ({"weights": {0: 40}}, "itself"),
        ({"weights": {-1: 50, 0: 45}}, "previous word"),
        ({"weights": {3: 40.0}}, "three words ahead"),
        ({"weights": {4: 90}}, "wide context"),
        ({"weights": {1: 39}, "relations": ["object → verb", "b"]}, "object → verb"),
        ({"punctuation": 20}, "punctuation"),
        ({"punctuation": 19, "function words": 60}, "function words"),
        ({"similarity": 20, "near": 80}, "similar words"),
        ({"near": 60}, "near words"),
        ({"near": 60, "before": 80}, "words just before"),
        ({"before": 20}, "words after"),
    ],
)
def test_the_first_rule_that_holds_names_a_head(changes, name):
    assert name_of(head(**changes), of_pronouns=False) == name
    related = "relations" in changes or name in {"itself", "previous word", "three words ahead"}
    assert name_of(head(**changes), of_pronouns=True) == (name if related else "antecedents")


def test_an_interval_resamples_groups():
    values = np.array([True] * 8 + [False] * 2)
    one_group = resampled(values, np.zeros(10))
    assert one_group == {"value": 80, "low": 80, "high": 80}
    found = resampled(values, np.array(list("aaaaaaaabb")))
    assert (found["value"], found["low"], found["high"]) == (80, 0, 100)


def test_tops_are_other_words_with_the_largest_weight_of_the_model(tmp_path):
    encoder = LocalModel(deep_model(tmp_path))
    tags, relations = ["NOUN"] * 5, ["root", *["obj"] * 4]
    of = [
        ParsedSentence(name, words, tags, [-1, 0, 1, 2, 3], relations, [])
        for name, words in (("a", list(WORDS[3:8])), ("b", ["river", "zzz", "did", "n't", "-"]))
    ]
    sums, found, shape = measure(encoder, of)
    assert shape == (2, 3)
    assert found.known.tolist() == [True] * 6 + [False] + [True] * 3
    assert found.head.tolist() == [-1, 0, 1, 2, 3, -1, 5, 6, 7, 8]
    for number, (one, encoded) in enumerate(
        zip(of, encoder.encode([one.words for one in of]), strict=True)
    ):
        weights = encoded.attention.reshape(6, 5, 5).copy()
        weights[:, np.arange(5), np.arange(5)] = -1
        tops = found.top[:, 5 * number : 5 * number + 5] - 5 * number
        np.testing.assert_array_equal(tops, weights.argmax(axis=-1))
        assert len(one.words) == 5
    near, far = sums.mean("near"), sums.mean("distance")
    assert near.shape == far.shape == (6,)
    same = tokens_of(of, [found.top[:, :5], found.top[:, 5:] - 5], [found.known[:5]] * 2)
    np.testing.assert_array_equal(same.top, found.top)


def test_the_head_for_pronouns_is_chosen_in_one_half(tmp_path):
    encoder = LocalModel(deep_model(tmp_path))
    # The vocabulary lacks "it": an unknown pronoun attends to the nouns.
    words = ["bank", "river", "money", "did", "it"]
    of = [
        ParsedSentence(
            f"document {number}",
            words,
            ["NOUN", "NOUN", "NOUN", "VERB", "PRON"],
            [3, 3, 3, -1, 3],
            ["nsubj", "obj", "obl", "root", "obl"],
            [Mention("1", place, place + 1), Mention("1", 4, 5)],
        )
        for number, place in enumerate((1, 0, 2, 2, 1))
    ]
    # Documents 1 and 3 are measured: the antecedent is the first and the last of three nouns.
    found = antecedents(encoder, of)
    assert (found["all"]["pronouns"], found["it"]["pronouns"]) == (2, 2)
    assert found["all"]["elsewhere"] == 1
    assert found.keys() == {"all", "it"}
    rules = {name: one["share"]["value"] for name, one in found["all"]["rules"].items()}
    assert rules["chance"] == pytest.approx(33.3)
    assert (rules["nearest noun"], rules["first noun"]) == (50, 50)
    (encoded,) = encoder.encode([words])
    guesses = encoded.attention[:, :, 4, :3].argmax(axis=-1)  # [L, h]
    for layer, chosen in enumerate(found["all"]["layers"]):
        choosing = np.mean([guesses[layer] == place for place in (1, 2, 1)], axis=0)
        assert chosen["head"] == choosing.argmax() + 1
        measured = np.mean([guesses[layer] == place for place in (0, 2)], axis=0)
        assert measured.argmax() != choosing.argmax()  # otherwise the half makes no difference
        assert chosen["share"]["value"] == 100 * measured[chosen["head"] - 1]

"""The training data and the held-out data: read, split, drawn, in contexts, and scored."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.engine import unit
from polyseme.errors import CommandError
from polyseme.terminal import SILENT, Progress
from polyseme_lab.training.config import TrainingConfig
from polyseme_lab.training.corpus import is_held_out, is_lemma_held_out, word_of_lemma
from polyseme_lab.training.data import (
    MAX_TOKENS,
    ContextReader,
    Draw,
    LemmaSampler,
    Lexicon,
    Occurrences,
    PseudoWordSampler,
    Sentences,
    TokenTable,
    TrainingFiles,
    merge_draws,
    read_training_files,
)
from polyseme_lab.training.held_out import (
    MAX_SCORED,
    MAX_SCORED_OF_GROUP,
    centroids_f1,
    pairs_auc,
    score_vectors,
    select_measurable,
    split_data,
)
from polyseme_lab.training.network import TableTensors
from tests.lab.training.world import AMBIGUOUS, word
from tests.tiny import SUBWORDS, WORDS, tiny_model
from tests.tokenizer.vocabularies import PROPERTY


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    bias = np.arange(len(WORDS), dtype=np.float32)
    return tiny_model(tmp_path_factory.mktemp("tiny"), word_bias=bias, subwords=SUBWORDS)


@PROPERTY
@given(text=st.text("aApPlLeE bnkBgGuU'’.-,:3@_/hwtd\n", max_size=60))
def test_text_has_vectors_of_service(model, text):
    for one in (text, "Apple's bank, MONEY didn't end gnu gnat @gnu high-end apple Apple"):
        lexicon, sentence = Lexicon(model), model.inputs(model.tokenizer.tokens(one))
        rows = np.array([entry for entry, _ in lexicon.of_text(one)], int)
        table, known = lexicon.table(), sentence.known
        rows[rows == Lexicon.UNKNOWN] = table.unknown
        np.testing.assert_array_equal(table.vectors[rows], sentence.vectors)
        np.testing.assert_array_equal(rows != table.unknown, known)
        np.testing.assert_array_equal(table.word_bias[rows][known], sentence.word_bias[known])
        same, expected = (w[known, None] == w[known] for w in (table.words[rows], sentence.words))
        np.testing.assert_array_equal(same, expected)


def test_pretokenized_words_are_not_split_and_have_a_lower_case_entry(model):
    lexicon = Lexicon(model, composing=False)
    split, (written, lowered), gnu = lexicon.of_words(["high-end", "APPLE", "gnu"])
    table = lexicon.table()
    assert split == gnu == (Lexicon.UNKNOWN, Lexicon.UNKNOWN)
    assert (table.keys[written], table.keys[lowered]) == ("APPLE", "apple")
    assert table.rows[[written, lowered]].tolist() == [2, 0]
    assert table.words[written] == table.words[lowered]
    # The last entry is for unknown words.
    assert table.unknown == 2
    assert not table.vectors[-1].any()
    assert (table.words[-1], table.word_bias[-1], table.rows[-1]) == (-1, 0, -1)


def read(model, *, tags=None, corpus=None, **recipe):
    recipe = TrainingConfig(steps=1, **{"fewest": 2, "held_out": 0.3, **recipe})
    files = TrainingFiles((corpus,) if corpus else (), (tags,) if tags else ())
    return read_training_files(model, files, recipe, SILENT), recipe


@pytest.mark.parametrize(
    ("tune", "keys", "rows", "entries"),
    [
        (False, ["Apple", "apple", "gnu", "bank"], [1, 0, -1, 3], [0, 2, 3, 3, 1, 2]),
        (True, ["Apple", "apple", "bank"], [1, 0, 3], [0, 3, 2, 2, 1, 3]),
    ],
)
def test_words_are_not_composed_if_vectors_are_trained(model, tmp_path, tune, keys, rows, entries):
    (tmp_path / "text.txt").write_text("Apple gnu  bank\nbank apple  gnu\n")
    data, _ = read(model, corpus=tmp_path / "text.txt", tune_embeddings=tune)
    assert data.table.keys == (*keys, "")
    assert data.table.rows.tolist() == [*rows, -1]
    assert data.sentences.entries.tolist() == entries
    assert data.sentences.lowered.tolist() == [entry or 1 for entry in entries]
    assert data.sentences.offsets.tolist() == [0, 3, 6]


def drawn(split, recipe, steps=60):
    """The positions of all occurrences that some steps draw, and whether they are hidden."""
    draws = [split.draw(recipe, np.random.default_rng(seed)) for seed in range(steps)]
    positions = np.concatenate([draw.occurrences.positions for draw in draws])
    return positions, np.concatenate([draw.hidden for draw in draws])


def keys_of(data, positions):
    """The vocabulary entries at some positions."""
    return {data.table.keys[entry] for entry in data.sentences.entries[positions]}


def test_lemmas_are_trained_on_or_held_out(world, tags):
    data, recipe = read(world, tags=tags)
    split = split_data(data, recipe)
    names = [name for name in data.tagged.names if is_lemma_held_out(name, 0.3, recipe.split)]
    held = {word_of_lemma(name) for name in names}
    assert len(held) > 3
    trained = keys_of(data, drawn(split, recipe)[0])
    assert trained == {word("bank", n) for n in range(AMBIGUOUS)} - held
    assert keys_of(data, split.held_out.occurrences.positions) == held


def test_words_of_a_corpus_are_trained_on_or_held_out(world, corpus):
    data, recipe = read(world, corpus=corpus, pseudo_words=2)
    split = split_data(data, recipe)
    positions, hidden = drawn(split, recipe)
    assert hidden.all()
    trained, scored = (
        keys_of(data, part) for part in (positions, split.held_out.occurrences.positions)
    )
    assert len(trained) > 10 and len(scored) > 3
    assert not trained & scored


@pytest.mark.parametrize("mix", [0.0, 0.25, 1.0])
def test_tags_and_a_corpus_are_mixed_and_held_out_together(world, tags, corpus, mix):
    data, recipe = read(world, tags=tags, corpus=corpus, mix=mix, pseudo_words=2, groups=8)
    split, offsets = split_data(data, recipe), data.sentences.offsets
    draw = split.draw(recipe, np.random.default_rng(1))
    groups = draw.occurrences.groups
    assert len(np.unique(groups)) == 8
    assert len(np.unique(groups[draw.hidden])) == 8 * mix
    # Only tagged words are scored. The held-out lemmas are held out in the corpus too.
    scored, (positions, hidden) = split.held_out.occurrences.positions, drawn(split, recipe)
    begin = offsets[data.paragraphs_from]
    assert scored.max() < begin
    assert not keys_of(data, positions) & keys_of(data, scored)
    # Pseudo-words are not drawn from tagged sentences.
    np.testing.assert_array_equal(hidden, positions >= begin)
    # No target is in a held-out sentence. Each tagged sentence has one tag.
    held_out = split.held_out_sentences
    assert not set(held_out) & set(np.searchsorted(offsets, positions, "right") - 1)
    paragraphs = held_out[held_out >= data.paragraphs_from]
    assert len(paragraphs) == len(set(paragraphs)) == 60  # a tenth
    held = [is_lemma_held_out(data.tagged.names[n], 0.3, recipe.split) for n in data.tagged.groups]
    assert len(held_out) - 60 == sum(held) > 100


def test_too_long_short_and_unknown_data_is_skipped(world, tmp_path):
    text = "bankaa " * (MAX_TOKENS + 1) + "\n" + "bankab " * MAX_TOKENS + "\n"
    (tmp_path / "text.txt").write_text(text)
    data, _ = read(world, corpus=tmp_path / "text.txt")
    assert data.sentences.offsets.tolist() == [0, MAX_TOKENS]
    assert keys_of(data, np.arange(MAX_TOKENS)) == {"bankab"}
    tag = {"lemma": "the", "sense": "1"}
    lines = [
        {"tokens": ["theaa"], "tags": [{"token": 0, **tag}]},
        {"tokens": ["zzz", "theaa"], "tags": [{"token": 0, **tag, "lemma": "zzz"}]},
        {"tokens": ["zzz", "theaa"], "tags": [{"token": 1, **tag}]},
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data, _ = read(world, tags=tmp_path / "t.jsonl")
    assert data.tagged.names == ("the",)
    assert data.facts() == {"tagged_sentences": 1, "tags": 1, "paragraphs": 0, "tokens": 2}


def test_too_little_data_is_reported(world, tmp_path):
    for text in ("theaa theab theac thead\n", ""):
        (tmp_path / "text.txt").write_text(text)
        with pytest.raises(CommandError, match="too little training data"):
            split_data(*read(world, corpus=tmp_path / "text.txt"))


def test_excluded_tags_are_counted_for_each_word(world, tags, capsys):
    data, _ = read(world, tags=tags)
    assert data.left_out == ""
    counts = Counter(word_of_lemma(data.tagged.names[n]) for n in data.tagged.groups)
    (one, first), *_, (other, last) = counts.most_common()
    recipe = TrainingConfig(steps=1, leave_out=("absent", other.upper(), one))
    data = read_training_files(world, TrainingFiles(tags=(tags,)), recipe, Progress())
    excluded = f"excludes {first + last} tags: {one} {first}, {other} {last}."
    assert data.left_out.endswith(excluded)
    assert capsys.readouterr().err == f"polyseme: Warning: {data.left_out}\n"
    data, recipe = read(world, tags=tags, leave_out=tuple(counts))
    with pytest.raises(CommandError, match=r"times in --corpus\. --leave-out, by default"):
        split_data(data, recipe)


def occurrences(groups, labels):
    return Occurrences(np.arange(len(groups)) * 10, np.array(groups), np.array(labels))


def rng(seed=1):
    return np.random.default_rng(seed)


def test_lemmas_with_two_senses_one_of_which_occurs_twice_are_drawn():
    lemmas = LemmaSampler(occurrences([0, 0, 0, 1, 1, 2, 2, 2], [0, 0, 1, 2, 2, 3, 4, 5]))
    drawn = lemmas.draw(rng(), 5, 16)
    assert sorted(drawn.occurrences.positions) == [0, 10, 20]
    assert not drawn.hidden.any()
    assert (len(lemmas), len(LemmaSampler(occurrences([], [])))) == (1, 0)


def test_a_draw_has_distinct_lemmas_and_more_of_rare_senses():
    groups = np.repeat(np.arange(10), 40)
    lemmas = LemmaSampler(occurrences(groups, groups * 4 + np.arange(400) % 4))
    drawn = lemmas.draw(rng(), 6, 16).occurrences
    names, counts = np.unique(drawn.groups, return_counts=True)
    assert (len(names), set(counts), len(np.unique(drawn.positions))) == (6, {16}, 96)
    # Rare senses: 10 % of the occurrences have 25 % of the weight.
    lemmas = LemmaSampler(occurrences([0] * 100, [0] * 90 + [1] * 10))
    drawn = np.concatenate([lemmas.draw(rng(s), 1, 16).occurrences.labels for s in range(50)])
    assert 0.17 < np.mean(drawn) < 0.35


def corpus():
    """Words a, b, … of which the n-th occurs 100 − n times, in sentences of ten."""
    keys = [chr(97 + n) for n in range(26)] + ["x1", ""]
    table = TokenTable(
        np.zeros((28, 2), np.float32), np.array([*range(27), -1]), None, tuple(keys), np.arange(28)
    )
    entries = np.repeat(np.arange(27, dtype=np.int32), np.arange(100, 73, -1))
    entries = rng().permutation(entries)
    return table, Sentences(
        entries, entries, np.append(np.arange(0, len(entries), 10), len(entries))
    )


def test_a_pseudo_word_joins_words_of_similar_frequency():
    table, sentences = corpus()
    words = PseudoWordSampler(table, sentences, frozenset(), 2)
    assert len(words) == 26  # without x1, which has a digit
    draw = words.draw(rng(), 40, 6)
    drawn = draw.occurrences
    assert draw.hidden.all()
    for group in range(40):
        positions = drawn.positions[drawn.groups == group]
        found = sentences.entries[positions]
        assert len(np.unique(found)) == 2
        assert len(np.unique(positions)) == len(positions) == 12
        assert np.ptp(found) <= 20
    words_of_labels = {*zip(drawn.labels, sentences.entries[drawn.positions], strict=True)}
    groups_of_labels = {*zip(drawn.labels, drawn.groups, strict=True)}
    assert len(set(drawn.labels)) == len(words_of_labels) == len(groups_of_labels) == 80


def test_excluded_rare_and_less_frequent_words_are_no_targets():
    table, sentences = corpus()
    assert len(PseudoWordSampler(table, sentences, frozenset({"a", "c"}), 3)) == 24
    few = Sentences(sentences.entries[:50], sentences.lowered[:50], np.array([0, 50]))
    counts = np.bincount(few.entries, minlength=28)[:26]
    assert len(PseudoWordSampler(table, few, frozenset(), 3)) == np.count_nonzero(counts >= 5)
    commonest = PseudoWordSampler(table, sentences, frozenset({"a"}), 2, 5)
    assert len(commonest) == 5
    assert 0 not in commonest.by_frequency  # excluded words do not count
    drawn = commonest.restricted(np.array([3, 4, 5])).draw(rng(), 20, 6).occurrences
    assert set(sentences.entries[drawn.positions]) == {3, 4, 5}


def test_merged_draws_have_distinct_groups_and_labels():
    one, two = occurrences([0, 0, 2], [0, 1, 5]), occurrences([0, 1], [0, 3])
    both = merge_draws([Draw(one, np.zeros(3, bool)), Draw(two, np.ones(2, bool))])
    assert both.occurrences.groups.tolist() == [0, 0, 2, 3, 4]
    assert both.occurrences.labels.tolist() == [0, 1, 5, 6, 9]
    assert both.occurrences.positions.tolist() == [0, 10, 20, 0, 10]
    assert both.hidden.tolist() == [False] * 3 + [True] * 2


def test_the_held_out_words_stay_the_same():
    # An evaluation selects the words that a published model was not trained on.
    held = [n for n in range(40) if is_held_out(f"word{n}", 0.2, 1)]
    assert held == [7, 12, 18, 20, 24, 30, 34, 35]


UNKNOWN = 5
TABLE = TokenTable(
    np.array([[1, 0], [2, 0], [0, 3], [0, 4], [5, 5], [0, 0]], np.float32),
    np.array([0, 0, 1, 2, 3, -1]),  # Apple and apple are one word
    np.array([-1, -2, -3, -4, -5, 0], np.float32),
    ("Apple", "apple", "bank", "the", "a", ""),
    np.arange(6),
)
FIRST, SECOND = [0, 2, 3, 1, 5, 4], [2, 3, 4]
SENTENCES = Sentences(
    np.array(FIRST + SECOND, np.int32),
    np.array([1, 2, 3, 1, 5, 4, *SECOND], np.int32),
    np.array([0, 6, 9]),
)
CONTEXTS = ContextReader(TABLE, SENTENCES)


def draw(*positions, hidden=False):
    zeros = np.zeros(len(positions), np.int64)
    return Draw(Occurrences(np.array(positions), zeros, zeros), np.full(len(positions), hidden))


def without_augmentation(**changes):
    """A configuration without random changes of contexts, but for those given."""
    return TrainingConfig(**{"cut": 0, "key_dropout": 0, **changes})


@pytest.mark.parametrize(
    ("drawn", "window", "rows", "targets"),
    [
        (draw(2, 6), 60, [FIRST, [*SECOND, *[UNKNOWN] * 3]], [2, 0]),
        (draw(0, 2, 5), 1, [[0, 2, UNKNOWN], [2, 3, 1], [5, 4, UNKNOWN]], [0, 1, 1]),
        # A hidden word is hidden everywhere, in any case.
        (draw(0, hidden=True), 60, [[UNKNOWN, 2, 3, UNKNOWN, UNKNOWN, 4]], [0]),
    ],
)
def test_a_context_is_a_window_of_its_sentence(drawn, window, rows, targets):
    for contexts in (
        CONTEXTS.whole(drawn, window),
        CONTEXTS.augmented(drawn, without_augmentation(window=window), np.random.default_rng(1)),
    ):
        assert contexts.rows.tolist() == rows
        assert contexts.targets.tolist() == targets


def augmented(contexts, position, **changes):
    """The contexts of 2,000 occurrences at a position, augmented in one way."""
    config = without_augmentation(**changes)
    return contexts.augmented(draw(*[position] * 2000), config, np.random.default_rng(1))


def test_contexts_are_augmented_at_the_configured_rates():
    lowered = augmented(CONTEXTS, 0, lower=1).rows
    assert lowered[0].tolist() == lowered[1999].tolist() == [1, 2, 3, 1, 5, 4]
    rows = augmented(CONTEXTS, 0, hide=0.3).rows
    hidden = rows[:, 0] == UNKNOWN
    assert 0.25 < hidden.mean() < 0.35
    np.testing.assert_array_equal(rows[:, 3], np.where(hidden, UNKNOWN, 1))  # the same word
    dropped = augmented(CONTEXTS, 2, key_dropout=0.2).rows == UNKNOWN
    assert not dropped[:, 2].any()  # the target
    assert 0.17 < dropped[:, [0, 1, 3, 5]].mean() < 0.23
    line = Sentences(np.zeros(101, np.int32), np.zeros(101, np.int32), np.array([0, 101]))
    entries = augmented(ContextReader(TABLE, line), 50, cut=0.4)
    lengths = (entries.rows != UNKNOWN).sum(axis=1)
    assert set(lengths) == {61, *range(5, 18, 2)}
    assert 0.35 < (lengths < 61).mean() < 0.45
    assert set(entries.targets[lengths < 61]) == set(range(2, 9))


def test_a_batch_has_the_vectors_of_its_entries():
    tensors = TableTensors(TABLE)
    batch = tensors.batch(CONTEXTS.whole(draw(6), 60))
    np.testing.assert_array_equal(batch.vectors[0], TABLE.vectors[SECOND])
    np.testing.assert_array_equal(batch.word_bias[0], TABLE.word_bias[SECOND])
    np.testing.assert_array_equal(batch.words[0], TABLE.words[SECOND])
    assert batch.known.all()
    assert batch.targets.tolist() == [[0]]
    other = tensors.batch(CONTEXTS.whole(draw(6), 60), tensors.vectors * 2)
    np.testing.assert_array_equal(other.vectors[0], 2 * TABLE.vectors[SECOND])


def test_orthogonal_senses_have_perfect_scores():
    labels = np.repeat(np.arange(4), 8)
    one = occurrences(labels // 2, labels)
    assert score_vectors(np.eye(4)[labels], one, 1)._asdict() == {"auc": 100.0, "macro_f1": 100.0}


def test_the_auc_is_estimated_over_the_pairs_of_each_lemma():
    rng, groups = np.random.default_rng(2), np.repeat([0, 1, 2], 30)
    labels = np.arange(90) % 3 + 3 * groups
    vectors = unit(rng.standard_normal((90, 4)) + np.eye(3, 4)[labels % 3])
    cosines, pairs = vectors @ vectors.T, groups[:, None] == groups
    same = labels[:, None] == labels
    np.fill_diagonal(pairs, val=False)
    wins = np.mean(cosines[pairs & same][:, None] > cosines[pairs & ~same])
    parts = [np.flatnonzero(groups == group) for group in range(3)]
    assert pairs_auc(vectors, parts, labels, rng) == pytest.approx(100 * wins, abs=2.5)
    # A single sense has no pair of different ones.
    assert pairs_auc(np.ones((4, 2)), [np.arange(4)], np.zeros(4, int), rng) is None


def test_the_macro_f1_is_that_of_the_nearest_centroids():
    # One of the four of sense 1 has the vector of sense 0: recalls 1 and 3/4, precisions 4/5 and 1.
    labels, vectors = np.repeat([0, 1], 4), np.eye(2)[[0, 0, 0, 0, 1, 1, 1, 0]]
    expected = (2 * 0.8 / 1.8 + 2 * 0.75 / 1.75) / 2
    found = [centroids_f1(vectors, labels, np.random.default_rng(seed)) for seed in range(5)]
    assert found == pytest.approx([expected] * 5)


def test_only_lemmas_with_two_frequent_senses_are_measured():
    labels = [0] * 5 + [1] * 5 + [2] * 4 + [3] * 9 + [4] * 4
    groups = [7] * 14 + [8] * 13
    kept = select_measurable(occurrences(groups, labels), 5, 1)
    assert kept.positions.tolist() == list(range(0, 100, 10))
    assert len(select_measurable(occurrences(groups, labels), 6, 1)) == 0
    assert len(select_measurable(occurrences([], []), 2, 1)) == 0


def test_many_occurrences_are_reduced_to_a_sample():
    groups = np.repeat(np.arange(100), 400)
    every = occurrences(groups, groups * 2 + np.arange(40_000) % 2)
    kept, again = (select_measurable(every, 8, 1) for _ in range(2))
    _, counts = np.unique(kept.groups, return_counts=True)
    assert counts.max() <= MAX_SCORED_OF_GROUP
    assert MAX_SCORED <= len(kept) < MAX_SCORED + MAX_SCORED_OF_GROUP
    np.testing.assert_array_equal(kept.positions, again.positions)

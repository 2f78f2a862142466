"""The training data and the held-out data: read, split and drawn."""

import numpy as np
import pytest

from polyseme.errors import CommandError
from polyseme.progress import SILENT
from polyseme_lab.training.config import TrainingConfig
from tests.lab.training.world import AMBIGUOUS, word
from tests.tiny import SUBWORDS, tiny_model

pytest.importorskip("torch", reason="the extra [train] is not installed")
pytest.importorskip("sklearn", reason="the extra [train] is not installed")

from polyseme_lab.training.data import MAX_TOKENS, TrainingFiles, read_training_files
from polyseme_lab.training.held_out import held_out_lemmas, split_data


def read(model, *, tags=None, corpus=None, **recipe):
    recipe = TrainingConfig(steps=1, **{"fewest": 2, "held_out": 0.3, **recipe})
    files = TrainingFiles((corpus,) if corpus else (), (tags,) if tags else ())
    data = read_training_files(model, files, recipe, SILENT)
    return data, recipe


def drawn(split, recipe, steps=60):
    """The positions of all occurrences that some steps draw, and whether they are hidden."""
    draws = [split.draw(recipe, np.random.default_rng(seed)) for seed in range(steps)]
    positions = np.concatenate([draw.occurrences.positions for draw in draws])
    return positions, np.concatenate([draw.hidden for draw in draws])


def keys_of(data, positions):
    """The vocabulary entries at some positions."""
    return {data.table.keys[entry] for entry in data.sentences.entries[positions]}


def test_a_lemma_is_trained_on_or_held_out_but_never_both(world, tags):
    data, recipe = read(world, tags=tags)
    split = split_data(data, recipe)
    trained = keys_of(data, drawn(split, recipe)[0])
    held = {
        name.split("/")[0]
        for name, out in zip(
            data.tagged.names, held_out_lemmas(data.tagged.names, recipe), strict=True
        )
        if out
    }
    assert len(held) > 3
    assert trained == {word("bank", n) for n in range(AMBIGUOUS)} - held
    scored = keys_of(data, split.held_out.occurrences.positions)
    assert scored == held


def test_the_held_out_lemmas_do_not_depend_on_the_seed_of_training(world, tags):
    held = [
        held_out_lemmas(data.tagged.names, recipe).tolist()
        for data, recipe in (read(world, tags=tags, seed=seed) for seed in (1, 2))
    ]
    assert held[0] == held[1]
    assert True in held[0]


def test_a_word_of_the_corpus_is_trained_on_or_held_out_but_never_both(world, corpus):
    data, recipe = read(world, corpus=corpus, pseudo_words=2)
    split = split_data(data, recipe)
    positions, hidden = drawn(split, recipe)
    assert hidden.all()
    trained = keys_of(data, positions)
    scored = keys_of(data, split.held_out.occurrences.positions)
    assert len(trained) > 10
    assert len(scored) > 3
    assert not trained & scored


def test_only_tagged_words_are_scored_if_there_are_tags(world, tags, corpus):
    data, recipe = read(world, tags=tags, corpus=corpus)
    scored = split_data(data, recipe).held_out.occurrences.positions
    assert scored.max() < data.sentences.offsets[data.paragraphs_from]


def test_pseudo_words_are_drawn_from_the_corpus_and_not_from_tagged_sentences(world, tags, corpus):
    data, recipe = read(world, tags=tags, corpus=corpus, mix=1)
    positions, hidden = drawn(split_data(data, recipe), recipe)
    assert hidden.all()
    assert positions.min() >= data.sentences.offsets[data.paragraphs_from]


@pytest.mark.parametrize("mix", [0.0, 0.25, 1.0])
def test_a_step_has_the_configured_share_of_pseudo_words(world, tags, corpus, mix):
    data, recipe = read(world, tags=tags, corpus=corpus, mix=mix, groups=8)
    draw = split_data(data, recipe).draw(recipe, np.random.default_rng(1))
    groups = draw.occurrences.groups
    assert len(np.unique(groups)) == 8
    assert len(np.unique(groups[draw.hidden])) == 8 * mix


def test_words_are_not_composed_if_vectors_are_trained(tmp_path):
    model = tiny_model(tmp_path, subwords=SUBWORDS)
    (tmp_path / "text.txt").write_text("apple gnu bank river\n")
    for tune, known in ((False, 4), (True, 3)):
        data, _ = read(model, corpus=tmp_path / "text.txt", tune_embeddings=tune)
        assert (data.sentences.entries != data.table.unknown).sum() == known


def test_a_too_long_paragraph_is_skipped(world, tmp_path):
    (tmp_path / "text.txt").write_text(
        "bankaa " * (MAX_TOKENS + 1) + "\n" + "bankab " * MAX_TOKENS + "\n"
    )
    data, _ = read(world, corpus=tmp_path / "text.txt")
    assert data.sentences.offsets.tolist() == [0, MAX_TOKENS]
    assert keys_of(data, np.arange(MAX_TOKENS)) == {"bankab"}


def test_a_tagged_sentence_of_one_token_is_skipped(world, tmp_path):
    (tmp_path / "t.jsonl").write_text(
        '{"tokens": ["theaa"], "tags": [{"token": 0, "lemma": "the", "sense": "1"}]}\n'
    )
    data, _ = read(world, tags=tmp_path / "t.jsonl")
    assert data.facts() == {"tagged_sentences": 0, "tags": 0, "paragraphs": 0, "tokens": 0}


def test_tagged_words_missing_from_the_model_are_skipped(world, tmp_path):
    (tmp_path / "t.jsonl").write_text(
        '{"tokens": ["zzz", "theaa"], "tags": [{"token": 0, "lemma": "zzz", "sense": "1"}]}\n'
        '{"tokens": ["zzz", "theaa"], "tags": [{"token": 1, "lemma": "the", "sense": "1"}]}\n'
    )
    data, _ = read(world, tags=tmp_path / "t.jsonl")
    assert data.tagged.names == ("the",)
    assert data.facts() == {"tagged_sentences": 1, "tags": 1, "paragraphs": 0, "tokens": 2}


def test_too_little_data_is_reported(world, tmp_path):
    (tmp_path / "text.txt").write_text("theaa theab theac thead\n")
    data, recipe = read(world, corpus=tmp_path / "text.txt")
    with pytest.raises(CommandError, match="too little training data"):
        split_data(data, recipe)


def test_the_document_has_the_kind_name_and_sha256_of_each_file(tags, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b.jsonl").write_text("{}")
    (tmp_path / "folder" / "a.jsonl").write_text("")
    found = TrainingFiles((tags,), (tmp_path / "folder",)).document()
    assert [(one["kind"], one["name"]) for one in found] == [
        ("corpus", "tags.jsonl"),
        ("tags", "a.jsonl"),
        ("tags", "b.jsonl"),
    ]
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert found[1]["sha256"] == empty


def test_held_out_lemmas_are_held_out_in_the_corpus_too(world, tags, corpus):
    data, recipe = read(world, tags=tags, corpus=corpus, mix=0.5, pseudo_words=2)
    split = split_data(data, recipe)
    trained = keys_of(data, drawn(split, recipe)[0])
    scored = keys_of(data, split.held_out.occurrences.positions)
    assert len(scored) > 3
    assert not trained & scored

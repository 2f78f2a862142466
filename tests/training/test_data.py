"""The training data and the held-out data, from files to numbers."""

import numpy as np
import pytest

from polyseme.command_error import CommandError
from polyseme.progress import SILENT
from polyseme.training.config import TrainingConfig
from tests.tiny import SUBWORDS, tiny_model
from tests.training.world import AMBIGUOUS, word

pytest.importorskip("torch", reason="the extra [train] is not installed")
pytest.importorskip("sklearn", reason="the extra [train] is not installed")

from polyseme.training.data import MAX_TOKENS, TrainingFiles, read_training_files
from polyseme.training.held_out import held_out_lemmas, split_data


def read(model, *, tags=None, corpus=None, **recipe):
    recipe = TrainingConfig(steps=1, **{"fewest": 2, "held_out": 0.3, **recipe})
    sources = TrainingFiles((corpus,) if corpus else (), (tags,) if tags else ())
    material = read_training_files(model, sources, recipe, SILENT)
    return material, recipe


def drawn(one, recipe, steps=60):
    """All occurrences that some steps draw."""
    draws = [one.draw(recipe, np.random.default_rng(seed)) for seed in range(steps)]
    positions = np.concatenate([draw.occurrences.positions for draw in draws])
    return positions, np.concatenate([draw.hidden for draw in draws])


def keys_of(material, positions):
    return {material.table.keys[entry] for entry in material.sentences.entries[positions]}


def test_a_lemma_is_trained_on_or_held_out_but_never_both(world, tags):
    material, recipe = read(world, tags=tags)
    one = split_data(material, recipe)
    trained = keys_of(material, drawn(one, recipe)[0])
    held = {
        name.split("/")[0]
        for name, out in zip(
            material.tagged.names, held_out_lemmas(material.tagged.names, recipe), strict=True
        )
        if out
    }
    assert len(held) > 3
    assert trained == {word("bank", n) for n in range(AMBIGUOUS)} - held
    scored = keys_of(material, one.held_out.occurrences.positions)
    assert scored == held


def test_which_lemmas_are_held_out_does_not_depend_on_the_seed_of_the_training(world, tags):
    held = [
        held_out_lemmas(material.tagged.names, recipe).tolist()
        for material, recipe in (read(world, tags=tags, seed=seed) for seed in (1, 2))
    ]
    assert held[0] == held[1]


def test_a_word_of_the_corpus_is_trained_on_or_held_out_but_never_both(world, corpus):
    material, recipe = read(world, corpus=corpus, pseudo_words=2)
    one = split_data(material, recipe)
    positions, hidden = drawn(one, recipe)
    assert hidden.all()
    trained = keys_of(material, positions)
    scored = keys_of(material, one.held_out.occurrences.positions)
    assert len(trained) > 10
    assert len(scored) > 3
    assert not trained & scored


def test_senses_are_scored_if_there_are_tags(world, tags, corpus):
    material, recipe = read(world, tags=tags, corpus=corpus)
    scored = split_data(material, recipe).held_out.occurrences.positions
    assert scored.max() < material.sentences.offsets[material.paragraphs_from]


def test_tagged_words_are_excluded_from_the_corpus(world, tags, corpus):
    material, recipe = read(world, tags=tags, corpus=corpus, mix=1)
    positions, hidden = drawn(split_data(material, recipe), recipe)
    assert hidden.all()
    assert positions.min() >= material.sentences.offsets[material.paragraphs_from]


@pytest.mark.parametrize("mix", [0.0, 0.25, 1.0])
def test_the_groups_of_a_step_mix_both_at_the_configured_share(world, tags, corpus, mix):
    material, recipe = read(world, tags=tags, corpus=corpus, mix=mix, groups=8)
    draw = split_data(material, recipe).draw(recipe, np.random.default_rng(1))
    groups = draw.occurrences.groups
    assert len(np.unique(groups)) == 8
    assert len(np.unique(groups[draw.hidden])) == 8 * mix


def test_learned_vectors_are_not_composed(tmp_path):
    model = tiny_model(tmp_path, subwords=SUBWORDS)
    (tmp_path / "text.txt").write_text("apple gnu bank river\n")
    for tune, known in ((False, 4), (True, 3)):
        material, _ = read(model, corpus=tmp_path / "text.txt", tune_embeddings=tune)
        assert (material.sentences.entries != material.table.unknown).sum() == known


def test_too_long_or_too_short_sentences_are_skipped(world, tmp_path):
    (tmp_path / "text.txt").write_text(
        "bankaa " * (MAX_TOKENS + 1) + "\n" + "bankab " * MAX_TOKENS + "\n" + "theaa-b-c d e f\n"
    )
    material, _ = read(world, corpus=tmp_path / "text.txt")
    assert (
        "bankaa" not in material.table.keys
        or (material.sentences.entries != material.table.keys.index("bankaa")).all()
    )
    assert (np.diff(material.sentences.offsets) <= MAX_TOKENS).all()
    assert len(material.sentences.offsets) == 3


def test_tagged_words_missing_from_the_model_are_skipped(world, tmp_path):
    (tmp_path / "t.jsonl").write_text(
        '{"tokens": ["zzz", "theaa"], "tags": [{"token": 0, "lemma": "zzz", "sense": "1"}]}\n'
        '{"tokens": ["zzz", "theaa"], "tags": [{"token": 1, "lemma": "the", "sense": "1"}]}\n'
    )
    material, _ = read(world, tags=tmp_path / "t.jsonl")
    assert material.tagged.names == ("the",)
    assert material.facts() == {"tagged_sentences": 1, "tags": 1, "paragraphs": 0, "tokens": 2}


def test_too_little_data_is_reported(world, tmp_path):
    (tmp_path / "text.txt").write_text("theaa theab theac thead\n")
    material, recipe = read(world, corpus=tmp_path / "text.txt")
    with pytest.raises(CommandError, match="too little training data"):
        split_data(material, recipe)


def test_a_source_has_name_and_digest(tags, tmp_path):
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


def test_held_out_words_are_held_out_in_the_corpus(world, tags, corpus):
    material, recipe = read(world, tags=tags, corpus=corpus, mix=0.5, pseudo_words=2)
    one = split_data(material, recipe)
    trained = keys_of(material, drawn(one, recipe)[0])
    scored = keys_of(material, one.held_out.occurrences.positions)
    assert len(scored) > 3
    assert not trained & scored

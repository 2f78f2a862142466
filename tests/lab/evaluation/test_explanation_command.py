"""The command `polyseme evaluate attention`."""

import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from polyseme_lab.report import markdown
from polyseme_lab.training.corpus import is_lemma_held_out
from tests.cli.conftest import run
from tests.lab.evaluation.test_explanation import VOCABULARY, cue_layer, sentences, vector
from tests.tiny import write_tiny

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
DATA = Path(os.environ.get("POLYSEME_TEST_DATA", ROOT.parent / "shared" / "data")) / "senses"


def json_lines(sentences):
    return "".join(
        json.dumps(
            {
                "tokens": words,
                "tags": [{"token": t, "lemma": lemma, "sense": s} for t, lemma, s in tags],
            }
        )
        + "\n"
        for words, tags in sentences
    )


def find_split(lemma, *, held):
    """The first split that holds the lemma out of training, or that does not."""
    return next(split for split in range(99) if is_lemma_held_out(lemma, 0.5, split) == held)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of models, and a file of tagged sentences."""
    folder = tmp_path_factory.mktemp("models")
    vectors = np.stack([vector(word) for word in VOCABULARY])
    facts = {"words": VOCABULARY, "vectors": vectors, "layers": [cue_layer()]}
    write_tiny(folder / "tiny", **facts)
    write_tiny(folder / "deep", **{**facts, "layers": [cue_layer()] * 2})
    for name, recipe in (
        ("unheld", {"held_out": 0.0, "split": 1}),
        ("odd", {"held_out": "many"}),
        ("seen", {"held_out": 0.5, "split": find_split("pen/noun", held=False)}),
        ("unseen", {"held_out": 0.5, "split": find_split("pen/noun", held=True)}),
    ):
        write_tiny(folder / name, **facts, training={"recipe": recipe})
    tags = folder.parent / f"{folder.name}.jsonl"
    tags.write_text(json_lines(sentences()))
    return folder, tags


def attention(place, *arguments, model="tiny", tags=None):
    given = ("evaluate", "attention", tags or place[1], *arguments)
    return run(*given, models_dir=place[0], POLYSEME_MODEL=model)


def test_the_report_of_the_document_is_printed(place, tmp_path):
    file = tmp_path / "a.json"
    done = attention(place, "--lemmas", "all", "--json", file)
    assert (done.returncode, done.stderr) == (0, b"")
    found = json.loads(file.read_bytes())
    assert done.stdout.decode() == markdown("attention", found)
    assert (found["task"], found["chosen_lemmas"], found["seed"]) == ("attention", "all", 1)
    assert round(found["swaps"]["head 0"]["value"], 1) == 38.9


def test_lemmas_of_the_training_are_excluded(place):
    """By the split of the model's own training, else by the default one."""
    codes = [attention(place, model=model).returncode for model in ("unseen", "seen")]
    assert codes == [0, 1]
    assert attention(place).stderr.endswith(b"use more tags.\n")


def test_words_of_the_evaluation_sets_are_excluded(place, tmp_path):
    tagged = [(words, [(t, "Bank/noun", s) for t, _, s in tags]) for words, tags in sentences()]
    tags = tmp_path / "tags.jsonl"
    tags.write_text(json_lines(tagged))
    done = attention(place, "--lemmas", "all", tags=tags)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.endswith(b"use more tags.\n")


@pytest.mark.parametrize(
    ("model", "content", "message"),
    [
        ("tiny", "nonsense", "line 1: "),
        ("tiny", "", "use more tags"),
        ("unheld", None, "use --lemmas all"),
        ("odd", None, "use more tags"),
        ("nobody", None, "No model is named 'nobody'"),
    ],
)
def test_an_impossible_measurement_is_reported_in_one_sentence_without_a_file(
    place, tmp_path, model, content, message
):
    tags = tmp_path / "tags.jsonl"
    tags.write_text(json_lines(sentences()) if content is None else content)
    done = attention(place, "--json", tmp_path / "a.json", model=model, tags=tags)
    assert (done.returncode, done.stdout) == (1, b"")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("polyseme: ") and message in line
    assert not (tmp_path / "a.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [("--occurrences", "0"), ("--lemmas", "some"), ("--seed", "-1"), ("--json", "nowhere/a")],
    ids=" ".join,
)
def test_a_usage_error_is_reported_before_the_tags_are_read(place, tmp_path, arguments):
    tags = tmp_path / "tags.jsonl"
    tags.write_text("nonsense")
    done = attention(place, *arguments, tags=tags)
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.skipif(not DATA.exists(), reason="needs the tagged text (POLYSEME_TEST_DATA)")
def test_the_bundled_model_attends_to_words_that_decide_the_sense(tmp_path):
    """The areas are larger than those of a ranking by chance, which are 50."""
    file, fifth = tmp_path / "a.json", tmp_path / "fifth.tar"
    with tarfile.open(DATA / "google_wsd.tar.xz") as whole, tarfile.open(fifth, "w") as part:
        texts = [one for one in whole if one.name.endswith(".xml")]
        for one in texts[::5]:
            part.addfile(one, whole.extractfile(one))
    done = run("evaluate", "attention", fifth, "--occurrences", 20, "--json", file)
    assert done.returncode == 0
    found = json.loads(file.read_bytes())["rankings"]
    for name in ("evidence_auc", "flip_auc"):
        assert found["head 0"][name]["value"] > 60

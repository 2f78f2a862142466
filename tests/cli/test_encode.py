"""`polyseme encode` and `polyseme compare`."""

import json
import os
import subprocess

import numpy as np
import orjson
import pytest
from threadpoolctl import threadpool_limits

from polyseme.engine.layers import Layer, Residual
from polyseme.models.reader import read_model
from polyseme.operations.compare import Occurrence
from tests.cli.conftest import run, run_process
from tests.operations.calls import compare_occurrences, document_of, npz_of
from tests.tiny import SUBWORDS, VECTORS, WORDS, write_tiny

TEXTS = ["Bank zebra didn't", "river river money"]
FAR = np.concatenate([VECTORS[:-1], VECTORS[-1:] * np.float32(1e30)])
"""The score of `end` with itself overflows float32."""


@pytest.fixture(scope="module")
def tiny(models_dir):
    """The model of the commands, which compute with one thread."""
    with threadpool_limits(1):
        yield read_model(models_dir / "tiny")


def test_texts_are_encoded_as_by_the_service(polyseme, tiny, models_dir):
    document = document_of(tiny, TEXTS)
    done = polyseme("encode", *TEXTS)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == document
    assert document["usage"] == {"tokens": 7, "oov": 1, "truncated": 0}
    lines = polyseme("encode", "--format", "ndjson", *TEXTS).stdout.splitlines()
    assert [json.loads(line) for line in lines] == document["results"]
    assert polyseme("encode", "--format", "npz", *TEXTS).stdout == npz_of(tiny, TEXTS)
    # Lines of standard input are texts, too; flags select the model.
    flags = ("--models-dir", models_dir, "--model", "tiny")
    assert run("encode", *flags, stdin="\n".join(TEXTS) + "\n").stdout == done.stdout
    assert run("encode", *flags).returncode == 2  # there is no text


@pytest.mark.parametrize("kind", ["json", "ndjson", "npz"])
def test_a_file_has_the_bytes_of_standard_output(polyseme, tmp_path, kind):
    arguments = ("encode", "--format", kind, *TEXTS * 50, "--output")
    file = tmp_path / "answer"
    assert polyseme(*arguments, file) == (0, b"", b"")
    assert polyseme(*arguments, "-") == (0, file.read_bytes(), b"")


def test_an_error_leaves_the_output_file_unchanged(tmp_path):
    models = write_tiny(tmp_path / "models" / "far", vectors=FAR).parent
    target = tmp_path / "answer"
    target.write_bytes(b"before")
    arguments = ("--model", "far", "--output", target, "--include", "attention")
    done = run("encode", *arguments, "bank river", "river end end", models_dir=models)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"not finite" in done.stderr
    assert target.read_bytes() == b"before"
    assert {file.name for file in tmp_path.iterdir()} == {"models", "answer"}


def test_a_pipe_is_written_to_and_not_replaced(polyseme, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    done = polyseme("encode", "--output", pipe, *TEXTS)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert reader.communicate(timeout=60)[0] == polyseme("encode", *TEXTS).stdout
    assert pipe.is_fifo()


def test_options_select_the_arrays(polyseme):
    options = ["--include", "values", "--include", "attention", "--heads", "mean"]
    done = polyseme("encode", *options, "--case", "exact", "Bank river")
    result = json.loads(done.stdout)["results"][0]
    assert set(result) == {"tokens", "truncated", "values", "attention"}
    assert np.shape(result["attention"]) == (2, 2, 2)
    assert np.shape(result["values"]) == (2, 3, 2, 7)
    assert [token["key"] for token in result["tokens"]] == [None, "river"]


def test_a_limit_of_the_environment_applies_and_truncates_on_request(polyseme):
    limit = {"POLYSEME_MAX_SENTENCE_TOKENS": "2"}
    rejected = polyseme("encode", "bank river money", **limit)
    assert rejected.stderr.decode() == (
        "polyseme: A sentence has too many tokens: 3, over the limit max_sentence_tokens of 2."
        " `texts[0]`: has 3 tokens. Shorten the input, or raise the limit with"
        " POLYSEME_MAX_SENTENCE_TOKENS. `polyseme encode --truncate` truncates sentences.\n"
    )
    truncated = polyseme("encode", "--truncate", "bank river money", **limit)
    assert json.loads(truncated.stdout)["results"][0]["truncated"] == 1


ERRORS = {
    ("encode", "--oov", "error", "bank", "zebra bank gnu"): (
        "A word of the request is not in the vocabulary: zebra, gnu. `texts[1]`: token 0 is not in"
        " the vocabulary; `texts[1]`: token 2 is not in the vocabulary. `--oov zero` gives such"
        " words a zero vector."
    ),
    ("encode", "--share", "1", "bank"): (
        "An argument is invalid. `share`: the last residual of this model is not `unit`, so it has"
        " no share. Omit `share` for this model."
    ),
    ("compare", "--word", "bank", "bank", "river"): (
        "An argument is invalid. `occurrences[1].word`: the text does not contain this word as a"
        " token. `--help` describes the options."
    ),
}


@pytest.mark.parametrize(("arguments", "message"), ERRORS.items(), ids=map(" ".join, ERRORS))
def test_an_error_is_one_line_that_names_the_argument(polyseme, arguments, message):
    done = polyseme(*arguments)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"polyseme: {message}\n"


def test_text_that_is_not_utf8_is_a_usage_error(polyseme):
    read = run_process("encode", stdin=b"bank\n\xff\n")
    for done in (
        read,
        polyseme("encode", "\udcff"),
        polyseme("compare", "--word", "\udcff", *PAIR),
    ):
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.endswith(b"\nError: A text is not valid UTF-8.\n")


PAIR = ["bank river", "money bank"]


def test_compare_prints_the_response_of_the_service_or_a_table(polyseme, tiny):
    compared = compare_occurrences(tiny, [Occurrence(text, "bank") for text in PAIR], neighbors=2)
    done = polyseme("compare", "--json", "--neighbors", "2", "--word", "bank", *PAIR)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == json.loads(
        orjson.dumps(compared, option=orjson.OPT_SERIALIZE_NUMPY)
    )
    done = polyseme("compare", "--neighbors", "2", "--word", "bank", *PAIR)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [line.strip() for line in done.stdout.decode().splitlines()]
    for number, one in enumerate(compared.occurrences):
        start = lines.index(f"{number}  bank  (exact, shift {one.shift:.2f})")
        attends_to, static, contextual = (line.split(maxsplit=2) for line in lines[start + 1 :][:3])
        assert attends_to[2] == ", ".join(f"{key.text} {key.weight:.2f}" for key in one.attends_to)
        words = ", ".join(word for word, _ in one.static_neighbors)
        assert static == ["static", *words.split(maxsplit=1)]
        assert contextual[1].rstrip(",") == one.contextual_neighbors[0].word
    assert "static       1.00  1.00" in lines
    assert lines[-1] == f"note: {compared.notes[0]}"


def test_a_text_may_have_its_word_and_a_repeated_pair_is_the_next(polyseme):
    texts = ["bank river bank", "bank river bank", "money"]
    words = ["--word", "bank", "--word", "bank", "--word", "money"]
    done = polyseme("compare", "--json", *words, *texts)
    starts = [one["token"]["start"] for one in json.loads(done.stdout)["occurrences"]]
    assert starts == [0, 11, 0]


def test_phrases_unknown_words_and_the_share_are_options(tmp_path):
    words = ["river_bank", *WORDS[1:]]
    layers = [Layer(residual=Residual("unit", 0.5))]
    write_tiny(tmp_path / "tiny", words=words, layers=layers, subwords=SUBWORDS)
    model = ["--models-dir", tmp_path, "--model", "tiny", "--phrases"]
    parts = ["--include", "features", "--include", "contextual", "--share", "2"]
    for oov, resolution in (((), "subword"), (("--oov", "zero"), "oov")):
        done = run("encode", *model, *parts, *oov, "river bank gnu")
        result = json.loads(done.stdout)["results"][0]
        keys = [(one["text"], one["key"], one["resolution"]) for one in result["tokens"]]
        assert keys == [("river bank", "river_bank", "exact"), ("gnu", None, resolution)]
        features, contextual = (np.array(result[part]) for part in ("features", "contextual"))
        np.testing.assert_allclose(contextual, features[:, 5:] + 2 * features[:, :5], atol=1e-6)
    done = run("compare", *model, "--word", "river bank", "a River bank", "river bank end")
    assert done.stdout.decode().startswith("0  River bank  (lower, shift ")

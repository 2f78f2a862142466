"""`polyseme models`."""

import json

import pytest


def test_models_are_listed_and_the_default_one_is_marked(polyseme):
    done = polyseme("models", "list")
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert "* tiny  11 words  5 wide  float32  3 heads  2 layers" in lines
    assert "  broken  11 words  5 wide  float32  1 heads  1 layers" in lines
    assert "  unreadable  broken: manifest.json, name: Field required." in lines
    names = [line[2:].split("  ")[0] for line in lines]
    assert names == sorted(names)


def test_a_model_is_shown_as_json(polyseme):
    done = polyseme("models", "show", "tiny")
    assert (done.returncode, done.stderr) == (0, b"")
    document = json.loads(done.stdout)
    assert (document["name"], document["dimension"], document["heads"]) == ("tiny", 5, 3)
    assert document["vocabulary_size"] == 11


def test_a_whole_model_is_verified(polyseme):
    done = polyseme("models", "verify", "tiny")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"tiny: whole\n"


def test_verifying_goes_on_after_a_broken_model_and_fails(polyseme):
    done = polyseme("models", "verify", "broken", "unreadable", "tiny")
    assert done.returncode == 1
    assert (done.stdout + done.stderr).decode().splitlines() == [
        "broken: vectors.npy has another number of bytes than manifest.json says.",
        "unreadable: manifest.json, name: Field required.",
        "tiny: whole",
    ]


UNKNOWN = "polyseme: No model of this name is here. `polyseme models list` lists the models."


@pytest.mark.parametrize(
    "arguments",
    [
        ["models", "show", "nobody"],
        ["models", "verify", "nobody"],
        ["encode", "--model", "../tiny", "bank"],
        ["compare", "--model", "nobody", "--word", "bank", "bank", "bank"],
        ["serve", "--model", "nobody"],
    ],
    ids=" ".join,
)
def test_an_unknown_model_ends_in_one_sentence(polyseme, arguments):
    done = polyseme(*arguments)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().splitlines() == [UNKNOWN]


@pytest.mark.parametrize(
    "arguments",
    [
        ["encode", "--model", "broken", "bank"],
        ["models", "show", "unreadable"],
    ],
    ids=" ".join,
)
def test_a_broken_model_ends_in_one_sentence(polyseme, arguments):
    done = polyseme(*arguments)
    assert (done.returncode, done.stdout) == (1, b"")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(("polyseme: vectors.npy has", "polyseme: manifest.json, name"))

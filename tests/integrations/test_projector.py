"""Files for the Embedding Projector read back to the same bits and the same words."""

import json
from codecs import decode

import numpy as np
import pytest

from polyseme.client.local import LocalModel
from polyseme.client.results import Sentence, Token
from polyseme.integrations.projector import save_projection
from tests.environments import run_in
from tests.tiny import tiny_model

HOSTILE = (
    *("tab\tin", "line\nbreak", "\r\n", "vertical\vform\f", "\x1c\x1d\x1e", "next\x85line"),
    *("line\u2028para\u2029", '"', '""quoted"', "'", "\\", "\\t", "\\\\n", "#", " ", "", "日本語"),
    *("👩🏽\u200d🚒", "e\u0301", "\ufeffmark", "<s>", "1,5"),
)
"""Words that could break a table."""


def hostile_sentences():
    """Three sentences of hostile words, one empty, with float32 numbers of every size. d = 7"""
    rng = np.random.default_rng(3)
    n, d = len(HOSTILE), 7
    drawn = rng.integers(0, 1 << 32, (2, n, d), np.uint32, endpoint=False).view(np.float32)
    static, contextual = np.where(np.isfinite(drawn), drawn, np.float32(0.1))
    info = np.finfo(np.float32)
    smallest = info.smallest_subnormal
    contextual[0] = [0, -0.0, info.max, info.min, smallest, info.tiny, 1 / 3]
    tokens = [Token(word, None, None, word or None, "exact") for word in HOSTILE]
    cut = n // 2
    return [
        Sentence(tokens[part], {"static": static[part], "contextual": contextual[part]})
        for part in (slice(cut), slice(0), slice(cut, None))
    ]


def vectors_in(folder):
    lines = (folder / "vectors.tsv").read_text("utf-8").split("\n")
    assert lines.pop() == ""
    return np.array([line.split("\t") for line in lines], np.float32)


def metadata_in(folder):
    """The rows by column name, read without quoting."""
    text = (folder / "metadata.tsv").read_bytes().decode()
    # Some programs split lines at every character at which `splitlines` does.
    header, *rows = [line.split("\t") for line in text.splitlines()]
    assert text.count("\n") == len(rows) + 1
    assert {len(row) for row in rows} <= {len(header)}
    return [dict(zip(header, row, strict=True)) for row in rows]


def unescaped(field):
    """Undo the escapes of a Python string."""
    return decode(field.encode("latin-1", "backslashreplace"), "unicode_escape")


def file_names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_vectors_read_back_to_the_same_bits(tmp_path):
    sentences = hostile_sentences()
    assert save_projection(tmp_path / "new/folder", sentences) == len(HOSTILE)
    expected = np.concatenate([one.contextual for one in sentences])
    assert vectors_in(tmp_path / "new/folder").tobytes() == expected.tobytes()


def test_words_of_any_characters_round_trip(tmp_path):
    save_projection(tmp_path, hostile_sentences())
    rows = metadata_in(tmp_path)
    assert [unescaped(row["token"]) for row in rows] == list(HOSTILE)
    assert [unescaped(row["key"]) for row in rows] == list(HOSTILE)
    unchanged = {'"', '""quoted"', "日本語", "👩🏽\u200d🚒", "tab\\tin", "line\\nbreak"}
    assert unchanged <= {row["token"] for row in rows}
    cut = len(HOSTILE) // 2
    assert unescaped(rows[0]["context"]) == " ".join(HOSTILE[:cut])
    assert [row["sentence"] for row in rows] == ["0"] * cut + ["2"] * (len(rows) - cut)
    assert [row["place"] for row in rows[cut:]] == [str(n) for n in range(len(rows) - cut)]


def test_the_points_of_each_kind_follow_one_another(tmp_path):
    model = LocalModel(tiny_model(tmp_path))
    sentences = model.encode(["Apple qzx", "the bank"], include=["static", "contextual"])
    assert save_projection(tmp_path / "out", sentences, ["static", "contextual"]) == 8
    rows, vectors = metadata_in(tmp_path / "out"), vectors_in(tmp_path / "out")
    assert [row["kind"] for row in rows] == ["static"] * 4 + ["contextual"] * 4
    assert [row["token"] for row in rows] == ["Apple", "qzx", "the", "bank"] * 2
    assert [row["resolution"] for row in rows[:4]] == ["exact", "oov", "oov", "exact"]
    assert [row["key"] for row in rows[:4]] == ["Apple", "", "", "bank"]
    # The rows of Apple and bank in `tests.tiny`; unknown words are zero.
    assert vectors[:4].tolist() == [[0, 1, 0, 0, 0], [0] * 5, [0] * 5, [1, 1, 0, 0, 0]]
    assert np.array_equal(vectors[4:6], sentences[0].contextual)


def test_config_json_has_the_future_urls_of_the_files(tmp_path):
    save_projection(tmp_path, hostile_sentences(), address="https://example.org/vectors/")
    (tensor,) = json.loads((tmp_path / "config.json").read_text())["embeddings"]
    assert tensor == {
        "tensorName": "polyseme",
        "tensorShape": [len(HOSTILE), 7],
        "tensorPath": "https://example.org/vectors/vectors.tsv",
        "metadataPath": "https://example.org/vectors/metadata.tsv",
    }


def test_a_second_export_replaces_the_first(tmp_path):
    save_projection(tmp_path, hostile_sentences())
    save_projection(tmp_path, hostile_sentences()[2:])
    assert file_names(tmp_path) == ["metadata.tsv", "projector_config.pbtxt", "vectors.tsv"]
    assert len(vectors_in(tmp_path)) == len(metadata_in(tmp_path)) == len(HOSTILE) // 2


def test_a_failed_write_keeps_the_previous_files(tmp_path):
    save_projection(tmp_path, hostile_sentences())
    before = {name: (tmp_path / name).read_bytes() for name in file_names(tmp_path)}
    lone = Token("\ud800", None, None, None, "oov")
    broken = Sentence([lone], {"contextual": np.zeros((1, 7), np.float32)})
    with pytest.raises(UnicodeEncodeError):
        save_projection(tmp_path, [*hostile_sentences(), broken])
    assert {name: (tmp_path / name).read_bytes() for name in file_names(tmp_path)} == before


@pytest.mark.clients
def test_tensorboard_serves_the_same_vectors_and_words(tmp_path):
    sentences = hostile_sentences()
    save_projection(tmp_path, sentences)
    shown = json.loads(run_in("tensorboard", "tensorboard_projector.py", str(tmp_path)))
    expected = np.concatenate([one.contextual for one in sentences])
    assert bytes.fromhex(shown["vectors"]) == expected.tobytes()
    assert shown["embedding"]["tensorShape"] == list(expected.shape)
    assert shown["metadata"] == (tmp_path / "metadata.tsv").read_bytes().decode()


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["static", "contextual"], "encode with `include="),
        (["features"], "encode with `include="),
        *((kinds, "Give a list of kinds") for kinds in ("static", [])),
        (["attention"], "of static, contextual, features"),
        (["contextual", "keys"], "of static, contextual, features"),
    ],
)
def test_kinds_that_cannot_be_saved_are_rejected_before_writing(tmp_path, kinds, message):
    model = LocalModel(tiny_model(tmp_path))
    sentences = model.encode(["Apple bank"], include=["contextual", "attention", "keys"])
    with pytest.raises(ValueError, match=message):
        save_projection(tmp_path / "out", sentences, kinds)
    assert file_names(tmp_path) == ["tiny"]


def test_features_are_not_saved_beside_other_vectors(tmp_path):
    sentences = LocalModel(tiny_model(tmp_path)).encode(["bank"], include=["static", "features"])
    with pytest.raises(ValueError, match="save them alone"):
        save_projection(tmp_path / "out", sentences, ["static", "features"])

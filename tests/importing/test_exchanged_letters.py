"""No language is assumed: if the letters of a file and of texts are exchanged, nothing changes.

The texts are lists of words, because the tokenizer splits English contractions.
"""

import gzip

import numpy as np
import pytest

from polyseme.importing.importer import ImportOptions, import_vectors
from polyseme.models.reader import read_model
from polyseme.operations.embed import sentence_vectors
from tests.importing.comparison import GENUINE
from tests.operations.calls import ask, same_bits

LATIN = "abcdefghijklmnopqrstuvwxyz"
ALPHABETS = {
    "of the same script": "qwertyuiopasdfghjklzxcvbnm",
    "Cyrillic": "яющшчцхфутсрпонмлкйизжедгб",
}
TEXTS = [
    text.split()
    for text in (
        "they fished from the bank of the river after heavy rainfalls",
        "the bank raised its interest rates , and hepatocytes were phosphorylated",
        "xqzt vbnrp unfriendliness wwkkjq lmzx hrabovsky reimbursements",
    )
]


@pytest.fixture(scope="module")
def rows():
    file = GENUINE / "glove.6B.50d.9k.txt.gz"
    if not file.exists():
        pytest.skip("needs the public vectors")
    return [line.split(" ", 1) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]


def imported(folder, rows, letters):
    table = str.maketrans(LATIN, letters)
    folder.mkdir()
    file = folder / "vectors.txt"
    file.write_text("".join(f"{word.translate(table)} {values}\n" for word, values in rows))
    import_vectors(file, folder / "model", ImportOptions(format="glove"))
    return read_model(folder / "model")


@pytest.fixture(scope="module")
def model(tmp_path_factory, rows):
    return imported(tmp_path_factory.mktemp("models") / "latin", rows, LATIN)


@pytest.mark.parametrize("name", ALPHABETS)
def test_exchanged_letters_give_the_same_bits(tmp_path, rows, model, name):
    letters = ALPHABETS[name]
    table = str.maketrans(LATIN, letters)
    other = imported(tmp_path / "other", rows, letters)
    assert other.manifest.training["informativeness"] == "rank in the file"
    assert other.manifest.tensors == model.manifest.tensors
    assert np.array_equal(other.word_bias, model.word_bias)
    assert np.array_equal(other.whitening.weight, model.whitening.weight)
    assert other.subwords.coverage == model.subwords.coverage
    texts = [[word.translate(table) for word in text] for text in TEXTS]
    expected, found = ask(model, TEXTS), ask(other, texts)
    resolutions = [[token.resolution for token in one.tokens] for one in expected]
    assert {"exact", "subword", "oov"} == {one for each in resolutions for one in each}
    assert [[token.resolution for token in one.tokens] for one in found] == resolutions
    for one, right in zip(found, expected, strict=True):
        assert same_bits(one._replace(sentence=right.sentence), right)
        for pooling in ("whitened", "informativeness"):
            vector = sentence_vectors(other, [one.sentence], pooling)
            wanted = sentence_vectors(model, [right.sentence], pooling)
            assert vector.tobytes() == wanted.tobytes()

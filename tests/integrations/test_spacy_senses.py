"""The spaCy component that tags occurrences with the senses of inventories."""

import pytest
import spacy
from spacy.tokens import DocBin

from polyseme.client.local import LocalModel
from polyseme.errors import InvalidError
from polyseme.integrations import forget
from polyseme.senses.inventory import load_inventory
from tests.integrations import pipeline

RIVER, MONEY = "He sat on the bank of the river.", "The bank lends money at high rates."
TEXT = f"{RIVER} {MONEY} He raised interest."
FIELDS = ("start", "end", "sense", "label", "confidence", "unsure")


@pytest.fixture(scope="module")
def saved(bundled, tmp_path_factory):
    """Files with the senses of *bank* and of *interest*."""
    folder = tmp_path_factory.mktemp("inventories")
    model = LocalModel(bundled)
    for word in ("bank", "interest"):
        texts = [text.replace("bank", word) for text in (RIVER, MONEY)] * 4
        found = model.senses(word, texts, senses=2)
        found.inventory.with_labels(["a", "b"]).save(folder / f"{word}.senses")
    forget()
    yield [str(folder / "bank.senses"), str(folder / "interest.senses")]
    forget()


@pytest.mark.parametrize("before", [(), ("sentencizer",)])
def test_each_occurrence_has_the_sense_of_its_sentence(bundled, saved, before):
    doc = pipeline(*before, inventories=saved)(TEXT)
    texts = [one.text for one in doc.sents] if before else [doc.text]
    expected = []
    for text in texts:
        for path in saved:
            inventory = load_inventory(path)
            for one in LocalModel(bundled).apply(inventory, [text]).occurrences:
                values = [getattr(one, field) for field in FIELDS[2:]]
                at = TEXT.index(text)
                expected.append([inventory.word, at + one.start, at + one.end, *values])
    found = [[one["word"], *(one[field] for field in FIELDS)] for one in doc._.senses]
    assert found == sorted(expected, key=lambda one: one[1])
    assert [TEXT[one["start"] : one["end"]] for one in doc._.senses] == ["bank", "bank", "interest"]
    tagged = [token for token in doc if token._.sense]
    assert [token.text for token in tagged] == ["bank", "bank", "interest"]
    assert [token._.sense for token in tagged] == doc._.senses


def test_a_stream_of_documents_is_tagged_in_batches(saved):
    nlp = pipeline("sentencizer", inventories=saved)
    docs = list(nlp.pipe([TEXT, "", "no such word", MONEY], batch_size=3))
    assert [len(doc._.senses) for doc in docs] == [3, 0, 0, 1]
    assert docs[0]._.senses == nlp(TEXT)._.senses
    assert nlp.make_doc(TEXT)._.senses is None


def test_a_saved_pipeline_has_its_inventories(saved, tmp_path):
    nlp = pipeline(inventories=saved)
    nlp.to_disk(tmp_path / "pipeline")
    doc = spacy.load(tmp_path / "pipeline")(TEXT)
    assert doc._.senses == nlp(TEXT)._.senses
    (copy,) = DocBin(store_user_data=True, docs=[doc]).get_docs(nlp.vocab)
    assert copy._.senses == doc._.senses


def test_a_file_that_is_no_inventory_is_an_error(tmp_path):
    (tmp_path / "file").write_text("{}")
    with pytest.raises(InvalidError, match="not an inventory"):
        pipeline(inventories=[str(tmp_path / "file")])

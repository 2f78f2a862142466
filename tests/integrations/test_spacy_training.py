"""spaCy's taggers and entity recognizers train on Polyseme's vectors."""

import pickle
import re

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import load_model_from_config, registry
from thinc.api import Config

from polyseme.errors import UnknownModelError
from polyseme.integrations import forget
from tests.integrations import STATIC, TEXT, D
from tests.pages import section

pytestmark = pytest.mark.usefixtures("deep")

WIDTH = 7
SENSES = [("river bank", "WATER"), ("money bank", "MONEY"), ("high river bank", "WATER"),
          ("apple money bank", "MONEY")]  # fmt: skip
"""The tag and entity label of `bank`, which depend on the other words."""


def tok2vec(**settings):
    build = registry.architectures.get("polyseme.Tok2Vec.v1")
    return build(WIDTH, **{"model": "tiny", **settings})


def docs_of(*texts):
    nlp = spacy.blank("en")
    return [nlp(text) for text in texts]


@pytest.mark.parametrize("kind", ["static", "contextual", "features"])
def test_the_layer_starts_from_the_vectors_of_spacys_tokens(deep, kind):
    docs = docs_of("river  bank", "", "money")
    layer = tok2vec(vectors=kind)
    layer.initialize(X=docs)
    rows, backward = layer.layers[0](docs, is_train=True)
    alone = [
        getattr(one, kind) for one in deep.encode([["river", "bank"], ["money"]], include=[kind])
    ]
    width = 2 * D if kind == "features" else D
    assert [one.shape for one in rows] == [(3, width), (0, width), (1, width)]
    assert np.array_equal(rows[0][[0, 2]], alone[0]) and not rows[0][1].any()  # white space
    assert np.array_equal(rows[2], alone[1])
    assert backward(rows) == []
    assert layer.get_dim("nO") == WIDTH
    assert [one.shape for one in layer.predict(docs)] == [(3, WIDTH), (0, WIDTH), (1, WIDTH)]


@pytest.mark.usefixtures("plain")
def test_options_of_the_component_are_options_of_the_layer():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    doc = nlp(TEXT)
    layer = tok2vec(vectors="static", case="exact", oov="zero", context="document", most=2)
    assert np.array_equal(layer.layers[0].predict([doc])[0], STATIC)


def test_training_caches_the_vectors_of_each_text_and_prediction_does_not(calls):
    docs = docs_of("river bank", "money bank", "river bank")
    (layer, _) = tok2vec().layers
    trained = [layer(batch, is_train=True)[0] for batch in (docs, docs[:2], docs_of("river bank"))]
    assert calls == [["river bank", "money bank"]]
    assert np.array_equal(trained[0][0], trained[2][0])
    assert layer._func.cached_bytes == 4 * 2 * D * 4
    assert pickle.loads(pickle.dumps(layer._func)).cache == {}
    for _ in range(2):
        assert np.array_equal(layer.predict(docs)[1], trained[1][1])
    assert calls[1:] == [["river bank", "money bank"]] * 2
    calls.clear()
    (layer, _) = tok2vec(cache_mb=0).layers
    for _ in range(2):
        layer(docs_of("river"), is_train=True)
    assert calls == [["river"], ["river"]]


def test_another_model_of_the_same_name_clears_the_cache(models, monkeypatch):
    (layer, _) = tok2vec().layers
    (deep_rows,), _ = layer(docs_of("river bank"), is_train=True)
    monkeypatch.setenv("POLYSEME_MODELS_DIR", str(models))
    forget()
    (rows,), _ = layer(docs_of("river bank"), is_train=True)
    assert not np.array_equal(rows, deep_rows)
    with pytest.raises(UnknownModelError):
        tok2vec(model="absent")


def examples(nlp):
    for text, label in SENSES:
        words = text.split()
        others = len(words) - 1
        tags, ents = [*["X"] * others, label], [*["O"] * others, f"B-{label}"]
        reference = Doc(nlp.vocab, words=words, tags=tags, ents=ents)
        yield Example(Doc(nlp.vocab, words=words), reference)


def trained(config, updates=60):
    """Train a pipeline on `SENSES`."""
    spacy.util.fix_random_seed(1)
    nlp = load_model_from_config(config, auto_fill=True)
    data = list(examples(nlp))
    optimizer = nlp.initialize(lambda: data)
    optimizer.learn_rate = 0.005
    for _ in range(updates):
        nlp.update(data, sgd=optimizer, drop=0.0)
    return nlp


def page_config(*components, **settings):
    """The documented configuration with some components and the tiny model."""
    (block,) = re.findall(r"```ini\n(.*?)```", section("pipelines.md", "spaCy"), re.DOTALL)
    config = Config().from_str(block, interpolate=False)
    config["nlp"]["pipeline"] = ["tok2vec", *components]
    config["components"] = {name: config["components"][name] for name in ("tok2vec", *components)}
    config["components"]["tok2vec"]["model"].update({"model": "tiny", "width": 16, **settings})
    return config


def test_the_documented_configuration_trains_a_tagger_and_a_recognizer(tmp_path):
    nlp = trained(page_config("tagger", "ner"))
    nlp.to_disk(tmp_path)
    forget()
    for pipeline in (nlp, spacy.load(tmp_path)):
        for text, label in SENSES:
            doc = pipeline(text)
            assert doc[-1].tag_ == label and doc[0].tag_ == "X"
            assert [(one.text, one.label_) for one in doc.ents] == [("bank", label)]


def test_the_layer_can_be_combined_with_hashed_attributes():
    hashed = {"@architectures": "spacy.MultiHashEmbed.v2", "width": 8, "attrs": ["NORM", "SHAPE"],
              "rows": [50, 50], "include_static_vectors": False}  # fmt: skip
    nlp = trained(page_config("tagger", embed=hashed), updates=120)
    assert nlp.get_pipe("tok2vec").model.layers[-1].get_dim("nI") == 16 + 8
    assert [nlp(text)[-1].tag_ for text, _ in SENSES] == [label for _, label in SENSES]

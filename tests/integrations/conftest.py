"""Two tiny models under one name; encoders are closed after each test."""

from collections.abc import Iterator

import pytest

from polyseme.client.local import LocalModel
from polyseme.integrations import forget, spacy
from polyseme.models.reader import read_model
from tests.tiny import deep_model, tiny_model


@pytest.fixture(autouse=True)
def _close_encoders() -> Iterator[None]:
    yield
    forget()


@pytest.fixture(scope="package")
def models(tmp_path_factory):
    """A folder of models: `tiny` without weights, and `deep/tiny` of two layers and three heads."""
    folder = tmp_path_factory.mktemp("models")
    tiny_model(folder)
    deep_model(folder / "deep")
    return folder


@pytest.fixture
def plain(models, monkeypatch):
    """Let the name `tiny` mean the model without weights."""
    monkeypatch.setenv("POLYSEME_MODELS_DIR", str(models))


@pytest.fixture
def deep(plain, models, monkeypatch):  # noqa: ARG001 - replaces the variable of `plain`
    """Let the name `tiny` mean the model with weights, and return it."""
    monkeypatch.setenv("POLYSEME_MODELS_DIR", str(models / "deep"))
    return LocalModel(read_model(models / "deep/tiny"))


class Recording(LocalModel):
    """A model that records the texts of each call."""

    calls: list

    def encode(self, texts, **options):
        self.calls.append([" ".join(text) for text in texts])
        return super().encode(texts, **options)


@pytest.fixture
def calls(monkeypatch):
    """The texts of each call of the encoder."""
    encoder = Recording.of("tiny")
    encoder.calls = []
    monkeypatch.setattr(spacy, "open_encoder", lambda *_: encoder)
    return encoder.calls

"""A model in this process, with the same interface as a client."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from polyseme.client.encoder import Encoder, require_text
from polyseme.client.requests import shift_paths
from polyseme.client.results import ModelFacts, Sentence, model_facts
from polyseme.engine import NonFiniteError
from polyseme.errors import ModelFolderError, OutOfRangeError, PolysemeError
from polyseme.models.model import Model
from polyseme.models.reader import bundled_models
from polyseme.models.registry import Registry, find_models
from polyseme.models.writer import rewrite_model
from polyseme.operations.catalog import OPERATIONS
from polyseme.operations.embed import DEFAULT_POOLING, EmbeddingsRequest, Pooling
from polyseme.operations.encode import WINDOW, encode, encode_each, tokenize
from polyseme.operations.limits import MAX_SENTENCE_TOKENS, Limits
from polyseme.operations.schema import EncodeOptions, Request, Result
from polyseme.operations.serialize import manifest_document
from polyseme.settings import Settings, unknown_variables
from polyseme.single_thread import SINGLE_THREAD
from polyseme.tokenizer import Text

_T = TypeVar("_T")
LIMITS = Limits(max_sentence_tokens=MAX_SENTENCE_TOKENS)
"""The cost of a sentence grows with the square of its length. Other sizes are not limited."""


class LocalModel(Encoder):
    """A model that is memory-mapped into this process. Threads may share it."""

    def __init__(
        self,
        model: Model,
        limits: Limits = LIMITS,
        pooling: Pooling = DEFAULT_POOLING,
    ) -> None:
        self.model, self._limits, self._pooling = model, limits, pooling

    @classmethod
    def of(
        cls,
        name: str | None = None,
        models_dir: Path | None = None,
        max_sentence_tokens: int | None = None,
    ) -> "LocalModel":
        """Open a model on this machine; None is the value of the environment variable."""
        if not isinstance(name, str | None):
            raise TypeError("The name of a model must be a string.")
        given = {"models_dir": models_dir, "max_sentence_tokens": max_sentence_tokens}
        settings = Settings(**{field: value for field, value in given.items() if value is not None})
        for warning in unknown_variables():
            warnings.warn(warning, stacklevel=3)  # at the call of `polyseme.load`
        model = Registry.of(settings.models_dir, settings.model).model(name)
        limits = Limits(max_sentence_tokens=settings.max_sentence_tokens)
        return cls(model, limits, settings.pooling)

    def _call(self, request: Request[Result], read: Callable[[Result], _T]) -> _T:
        with _computing():
            operation = OPERATIONS[type(request)]
            result: Result = operation.function(self.model, request, self._limits)
        return read(result)

    def __repr__(self) -> str:
        words = self.model.manifest.vocabulary_size
        return f"LocalModel({self.name!r}, dimension={self.dimension}, words={words})"

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.manifest.name

    @property
    def dimension(self) -> int:
        """The width d of a vector."""
        return self.model.manifest.dimension

    def save(
        self, name: str, *, models_dir: str | Path | None = None, replace: bool = False
    ) -> Path:
        """Write the model as a folder that the service and the command line use; return its path.

        The folder has the bits that an import writes, and all tables, also those of a base; so it
        can be copied to any machine. `models_dir` is that of `polyseme.load`.
        Raises ModelFolderError if a model of this name exists and is not to be replaced, or if the
        name is invalid.
        """
        parent = Settings().models_dir if models_dir is None else Path(models_dir)
        if not replace and name in find_models([bundled_models()]):
            raise ModelFolderError("a bundled model has this name.")
        folder = Path(parent) / name
        if folder.name != name:
            raise ModelFolderError("the name of a model has no separators of folders.")
        senses = self.model.senses
        rewrite_model(
            folder,
            self.model,
            senses=None if senses is None else lambda _: senses,
            base=None,
            replace=replace,
        )
        return folder

    def _encode(
        self, texts: Iterable[Text], options: EncodeOptions, read: Callable[[list[Sentence]], _T]
    ) -> _T:
        checked = [require_text(text, index) for index, text in enumerate(texts)]
        with _computing():
            encoded = encode(self.model, checked, options, self._limits)
        return read(list(map(Sentence.of, encoded)))

    def _encode_each(self, texts: Iterable[Text], options: EncodeOptions) -> Iterator[Sentence]:
        remaining, first = iter(texts), 0
        while window := list(islice(remaining, WINDOW)):
            checked = [require_text(text, i) for i, text in enumerate(window, first)]
            try:
                tokenized = tokenize(self.model, checked, options, self._limits)
            except PolysemeError as error:
                raise shift_paths(error, first) from None
            encoded = encode_each(self.model, tokenized, options)
            while True:
                with _computing():  # BLAS has its threads again before the yield
                    sentence = next(encoded, None)
                if sentence is None:
                    break
                yield Sentence.of(sentence)
            first += len(window)

    def _embed(self, texts: Iterable[Text], request: EmbeddingsRequest) -> NDArray[np.float32]:
        # Each text is checked, and unlike those of a body they may be both strings and lists.
        checked = [require_text(text, index) for index, text in enumerate(texts)]
        request = request.model_copy(update={"input": checked})
        request = request.with_defaults(pooling=self._pooling)
        vectors = self._call(request, lambda result: [one.embedding for one in result.data])
        return np.array(vectors, np.float32).reshape(
            len(vectors), request.dimensions or self.dimension
        )

    def models(self) -> list[ModelFacts]:
        """Return a list of this one model."""
        facts = manifest_document(self.model.manifest)
        return [model_facts({"id": self.name, "default": True, **facts})]


@contextmanager
def _computing() -> Iterator[None]:
    """Limit BLAS to one thread, and raise OutOfRangeError if a result overflows."""
    try:
        with SINGLE_THREAD:
            yield
    except NonFiniteError:
        raise OutOfRangeError from None

"""A transformer for scikit-learn: texts in, sentence vectors out."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.client.vectors import Text
from polyseme.encoding.pooling import Pooling
from polyseme.integrations.source import encoder_of

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "This needs scikit-learn: pip install 'polyseme[sklearn]'."
    ) from error


# scikit-learn has no types.
class ContextualVectorizer(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Sentence vectors of length 1, from a model of this machine or from a service.

    Nothing is learnt from the texts: `fit` only looks at them. `url` is that of a service, whose
    key comes from the environment, so that none is stored with a pipeline. `dimensions` keeps the
    first ones only; None keeps all.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        url: str | None = None,
        pooling: Pooling = "informativeness",
        dimensions: int | None = None,
    ) -> None:
        self.model = model
        self.url = url
        self.pooling = pooling
        self.dimensions = dimensions

    def fit(self, X: Iterable[Text], y: object = None) -> "ContextualVectorizer":  # noqa: ARG002, N803
        """Look at the texts; raise TypeError where one is none."""
        _texts(X)
        return self

    def transform(self, X: Iterable[Text]) -> NDArray[np.float32]:  # noqa: N803
        """The vector of each text, zero where no word is known. -> [S, d]

        A text is a string or a list of words. Raises TypeError for anything else, and
        PolysemeError where the texts cannot be encoded.
        """
        encoder = encoder_of(self.model, self.url)
        return encoder.embed(_texts(X), pooling=self.pooling, dimensions=self.dimensions)

    @property
    def _n_features_out(self) -> int:
        """How many columns there are, which scikit-learn names."""
        return self.dimensions or encoder_of(self.model, self.url).dimension

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def _texts(given: Iterable[Text]) -> list[Text]:
    if isinstance(given, str):
        raise TypeError("Give a list of texts, not one text.")
    if getattr(given, "ndim", 1) != 1:
        raise TypeError("Give one column of texts: neither a table nor a sparse matrix.")
    texts = list(given)
    for number, text in enumerate(texts):
        if not _is_text(text):
            raise TypeError(
                f"Text {number} is neither a string nor a list of words: leave it out, or give an"
                " empty one for one that is missing."
            )
    return texts


def _is_text(given: object) -> bool:
    if isinstance(given, list | tuple | np.ndarray):
        return all(isinstance(word, str) for word in given)
    return isinstance(given, str)

"""A scikit-learn transformer from texts to sentence vectors."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.client.encoder import require_list, require_text
from polyseme.errors import install_command
from polyseme.integrations import open_encoder
from polyseme.operations.embed import DEFAULT_POOLING, Pooling
from polyseme.tokenizer import Text

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"This needs scikit-learn: {install_command('sklearn')}.") from error


# scikit-learn has no type hints.
class ContextualVectorizer(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Convert texts to unit sentence vectors with a model on this machine or a service.

    The transformer learns nothing: `fit` only checks the parameters and the texts. `url` is the
    address of a service; its key comes from the environment and is not stored with a pipeline.
    `dimensions` is the number of leading dimensions to keep; None keeps all.

    Raises PolysemeError if the model is unknown or has fewer than `dimensions`, ValueError if `url`
    is invalid, and ClientError if the service does not respond. With a service, only `transform`
    checks the dimensions.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        url: str | None = None,
        pooling: Pooling = DEFAULT_POOLING,
        dimensions: int | None = None,
    ) -> None:
        self.model = model
        self.url = url
        self.pooling = pooling
        self.dimensions = dimensions
        self._check()

    def _check(self) -> None:
        """Raise an error for an invalid parameter, also one that `set_params` has set."""
        encoder = open_encoder(self.model, self.url)
        _ = encoder.name  # asks a service
        encoder.embed([], pooling=self.pooling, dimensions=self.dimensions)

    def fit(self, X: Iterable[Text], y: object = None) -> "ContextualVectorizer":  # noqa: ARG002, N803
        """Check the parameters and the texts. Raises TypeError if X is not one column of texts."""
        self._check()
        _check_texts(X)
        return self

    def transform(self, X: Iterable[Text]) -> NDArray[np.float32]:  # noqa: N803
        """Return one unit vector per text, zero if no word is known. -> [S, d or `dimensions`]

        A text is a string or a list of words. Raises TypeError for anything else, and
        PolysemeError if the texts cannot be encoded.
        """
        encoder = open_encoder(self.model, self.url)
        return encoder.embed(_check_texts(X), pooling=self.pooling, dimensions=self.dimensions)

    @property
    def _n_features_out(self) -> int:
        """The number of columns of the output, which `get_feature_names_out` reads."""
        return self.dimensions or open_encoder(self.model, self.url).dimension

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def _check_texts(texts: Iterable[Text]) -> list[Text]:
    if getattr(texts, "ndim", 1) != 1:
        raise TypeError("Give one column of texts, not a table or a sparse matrix.")
    return [require_text(text, i) for i, text in enumerate(require_list(texts))]

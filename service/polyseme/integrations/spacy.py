"""A spaCy pipeline component that adds contextual vectors and attention to spaCy's tokens."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from polyseme.client.results import Array, Sentence
from polyseme.encoding.options import PER_TOKEN, OovPolicy, Part
from polyseme.integrations import open_encoder
from polyseme.tokenizer import Case

try:
    from spacy.language import Language
    from spacy.pipeline import Pipe
    from spacy.tokens import Doc, Span, Token
    from spacy.util import minibatch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("This needs spaCy: pip install 'polyseme[spacy]'.") from error

Context: TypeAlias = Literal["sentence", "document"]
Vectors: TypeAlias = Literal["static", "contextual", "features"]
_VECTORS: tuple[Vectors, ...] = get_args(Vectors)
Indices: TypeAlias = NDArray[np.int64]
"""Indices of tokens in a document, [n]."""

_NAME = "polyseme"
"""The name of the component, and of the attribute of `doc._` that holds its arrays. `doc.to_bytes`
saves the attribute, and so does `DocBin` with `store_user_data`."""


@Language.factory(
    _NAME,
    assigns=[
        *("doc.tensor", "doc._.attention"),
        *("token._.contextual", "token._.static", "token._.features", "token._.attention"),
    ],
)
class Contextualizer(Pipe):
    """Encode documents; each array has one row per spaCy token, zero for white space.

    With `context="sentence"`, each sentence is encoded by itself if an earlier component has set
    sentence boundaries; otherwise the document is encoded as one text. A text of more than `most`
    words is split into chunks of about the same size. `attention` selects the attention of each
    head, the mean of the heads, or none, of `layer` (None: the last layer).

    `vectors` selects the rows of `doc.tensor`. The default is `features`, because a tagger or a
    classifier needs the word itself, which contextual vectors hardly contain. With `hooks`, spaCy's
    `vector` and `similarity` use the same vectors; use `contextual` to compare senses. `share` is
    that of /v1/encode.

    The vectors come from a model on this machine, or from the service at `url`. The key of a
    service comes from the environment and is not stored with a pipeline.
    """

    def __init__(
        self,
        nlp: Language,  # noqa: ARG002 - spaCy passes it to every factory
        name: str,
        *,
        model: str | None = None,
        url: str | None = None,
        context: Context = "sentence",
        most: int = 512,
        attention: Literal["mean", "heads", "none"] = "mean",
        layer: int | None = None,
        oov: OovPolicy | None = None,
        case: Case = "auto",
        share: float | None = None,
        vectors: Vectors = "features",
        hooks: bool = False,
    ) -> None:
        if most < 1:
            raise ValueError("`most`, the maximum number of words in a chunk, must be 1 or more.")
        self.name = name
        self._source = (model, url)
        self._context, self._most, self._hooks, self._vectors = context, most, hooks, vectors
        parts: tuple[Part, ...] = (*_VECTORS, "attention")
        self._options: dict[str, Any] = {
            "include": _VECTORS if attention == "none" else parts,
            "layers": "last" if layer is None else [layer],
            "heads": "mean" if attention == "mean" else "all",
            "oov": oov,
            "case": case,
            "share": share,
        }
        # An unknown model or an option that it does not support is an error here.
        open_encoder(model, url).encode([""], **self._options)

    def __call__(self, doc: Doc) -> Doc:
        """Encode one document."""
        self._encode([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Encode documents in batches of `batch_size`."""
        for docs in minibatch(stream, batch_size):  # type: ignore[no-untyped-call]
            try:
                self._encode(docs)
            except Exception as error:  # noqa: BLE001 - spaCy's error handler decides
                self.get_error_handler()(self.name, self, docs, error)
            else:
                yield from docs

    def _encode(self, docs: Sequence[Doc]) -> None:
        encoder = open_encoder(*self._source)
        chunks = [_chunks(doc, self._context, self._most) for doc in docs]
        texts = [
            [doc[int(index)].text for index in indices]
            for doc, parts in zip(docs, chunks, strict=True)
            for indices in parts
        ]
        sentences = iter(encoder.encode(texts, **self._options) if texts else ())
        for doc, parts in zip(docs, chunks, strict=True):
            encoded = [(indices, next(sentences)) for indices in parts]
            doc._.set(_NAME, _arrays(len(doc), encoder.dimension, encoded))
            doc.tensor = doc._.get(_NAME)[self._vectors]
            if self._hooks:
                add_hooks(doc, self._vectors)


Contextualiser = Contextualizer
"""The former name of the class."""


def _chunks(doc: Doc, context: Context, most: int) -> list[Indices]:
    """Return the indices of the tokens of each chunk, without white space. -> [n] each"""
    whole = context == "document" or not doc.has_annotation("SENT_START")
    units: Iterable[Iterable[Token]] = [doc] if whole else doc.sents
    chunks = []
    for unit in units:
        indices = np.array([token.i for token in unit if not token.is_space], np.int64)
        if indices.size:
            chunks += np.array_split(indices, -(-indices.size // most))
    return chunks


def _arrays(n: int, d: int, encoded: Sequence[tuple[Indices, Sentence]]) -> dict[str, Any]:
    """Return the arrays of a document of n tokens.

    `static` and `contextual` are [n, d], `features` is [n, 2d]. `attention` is a list with the
    token indices [m] and the attention [m, m] or [h, m, m] of each chunk.
    """
    arrays: dict[str, Any] = {
        part: np.zeros((n, PER_TOKEN[part] * d), np.float32) for part in _VECTORS
    }
    attention = []
    for indices, sentence in encoded:
        for part in _VECTORS:
            arrays[part][indices] = getattr(sentence, part)
        if sentence.attention is not None:
            attention.append((indices, np.ascontiguousarray(sentence.attention[0])))
    return {**arrays, "attention": attention}


def _stored(doc: Doc) -> dict[str, Any] | None:
    """Return the arrays of a document, or None if it has not been encoded."""
    stored: dict[str, Any] | None = doc._.get(_NAME)
    if stored is not None and len(stored["static"]) != len(doc):
        raise ValueError(
            "Tokens were merged or split after the document was encoded: add the component"
            f" `{_NAME}` after the components that merge or split tokens."
        )
    return stored


def _row(token: Token, part: str) -> Array | None:
    """Return the vector of a token. -> [d], [2d] for features"""
    stored = _stored(token.doc)
    return None if stored is None else stored[part][token.i]


def _token_attention(token: Token) -> Array | None:
    """Return the attention from a token to all tokens, 0 outside its chunk. -> [n] or [h, n]"""
    stored = _stored(token.doc)
    if stored is None or not stored["attention"]:
        return None
    row: Array = np.zeros((*stored["attention"][0][1].shape[:-2], len(token.doc)), np.float32)
    for indices, weights in stored["attention"]:
        if indices[0] <= token.i <= indices[-1]:
            row[..., indices] = weights[..., indices == token.i, :].sum(axis=-2)
    return row


def _doc_attention(doc: Doc) -> Array | None:
    """Return the attention between all tokens, 0 between chunks. -> [n, n] or [h, n, n]"""
    stored = _stored(doc)
    if stored is None or not stored["attention"]:
        return None
    n, heads = len(doc), stored["attention"][0][1].shape[:-2]
    attention: Array = np.zeros((*heads, n, n), np.float32)
    for indices, weights in stored["attention"]:
        attention[..., indices[:, None], indices] = weights
    return attention


def _mean(part: Doc | Span, vectors: Vectors) -> Array:
    """Return the mean of the nonzero vectors. -> [d], [2d] for features"""
    stored: Any = _stored(part if isinstance(part, Doc) else part.doc)
    rows = stored[vectors][np.array([token.i for token in part], np.int64)]
    known = rows[rows.any(axis=1)]
    mean: Array = known.mean(axis=0) if len(known) else np.zeros(rows.shape[1], np.float32)
    return mean


def _similarity(one: Doc | Span | Token, other: Doc | Span | Token) -> float:
    """Return the cosine similarity of two vectors, 0 if one is zero."""
    left, right = np.asarray(one.vector), np.asarray(other.vector)
    norms = float(np.linalg.norm(left)) * float(np.linalg.norm(right))
    return float(np.dot(left, right)) / norms if norms else 0.0


def _has_vector(part: Doc | Span | Token) -> bool:
    return bool(part.vector.any())


def add_hooks(doc: Doc, vectors: Vectors = "features") -> None:
    """Make spaCy's `vector`, `has_vector` and `similarity` use one kind of vector.

    Hooks are not saved with a document: add them again to a document that was loaded or comes from
    another process. Raises ValueError for a document that was not encoded.
    """
    if _stored(doc) is None:
        raise ValueError(f"The document has no vectors: run the component `{_NAME}` on it first.")
    for hooks in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
        mean = partial(_mean, vectors=vectors)
        hooks.update(vector=mean, similarity=_similarity, has_vector=_has_vector)
    doc.user_token_hooks["vector"] = partial(_row, part=vectors)


Doc.set_extension(_NAME, default=None, force=True)
Doc.set_extension("attention", getter=_doc_attention, force=True)
Token.set_extension("attention", getter=_token_attention, force=True)
Token.set_extension("contextual", getter=partial(_row, part="contextual"), force=True)
Token.set_extension("features", getter=partial(_row, part="features"), force=True)
Token.set_extension("static", getter=partial(_row, part="static"), force=True)

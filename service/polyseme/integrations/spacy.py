"""A component for spaCy's pipelines: contextual vectors and attention on spaCy's own tokens."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.client.vectors import Array, Sentence
from polyseme.encoding.choice import Part, Unlisted
from polyseme.integrations.source import encoder_of
from polyseme.tokenizer import Case

try:
    from spacy.language import Language
    from spacy.pipeline import Pipe
    from spacy.tokens import Doc, Span, Token
    from spacy.util import minibatch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("This needs spaCy: pip install 'polyseme[spacy]'.") from error

Context: TypeAlias = Literal["sentence", "document"]
Places: TypeAlias = NDArray[np.int64]
"""Which tokens of a document are encoded together, [n]."""

_NAME = "polyseme"
"""Of the component, and of what it keeps in `doc._`: the arrays, which are stored with the document
(`doc.to_bytes`, `DocBin` with `store_user_data`)."""


@Language.factory(
    _NAME,
    assigns=[
        *("doc.tensor", "doc._.attention"),
        *("token._.contextual", "token._.static", "token._.attention"),
    ],
)
class Contextualiser(Pipe):
    """Encodes the words that spaCy has found, so that each row is a token's.

    White space that spaCy keeps as a token has zero rows. `context` is what is encoded together:
    each sentence where an earlier component has found some, or the whole document; in either case
    what has more than `most` words is cut into pieces of about one size. `attention` is that of
    `layer`, None for the last; of each head, or their mean, or not there at all. With `hooks`,
    spaCy's own `vector` and `similarity` answer with the contextual vectors.

    `model` and `url` say where vectors come from; the key of a service comes from the environment,
    so that none is stored with a pipeline.
    """

    def __init__(
        self,
        nlp: Language,  # noqa: ARG002 - spaCy gives it to every factory
        name: str,
        *,
        model: str | None = None,
        url: str | None = None,
        context: Context = "sentence",
        most: int = 512,
        attention: Literal["mean", "heads", "none"] = "mean",
        layer: int | None = None,
        oov: Unlisted | None = None,
        case: Case = "auto",
        hooks: bool = False,
    ) -> None:
        if most < 1:
            raise ValueError("`most` is the number of words of a piece: give 1 or more.")
        self.name = name
        self._where = (model, url)
        self._context, self._most, self._hooks = context, most, hooks
        parts: tuple[Part, ...] = ("static", "contextual", "attention")
        self._how: dict[str, Any] = {
            "include": parts[:2] if attention == "none" else parts,
            "layers": "last" if layer is None else [layer],
            "heads": "mean" if attention == "mean" else "all",
            "oov": oov,
            "case": case,
        }

    def __call__(self, doc: Doc) -> Doc:
        """Encode one document."""
        self._encode([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Encode documents, so many of them by one call."""
        for docs in minibatch(stream, batch_size):  # type: ignore[no-untyped-call]
            try:
                self._encode(docs)
            except Exception as error:  # noqa: BLE001 - spaCy says what becomes of it
                self.get_error_handler()(self.name, self, docs, error)
            else:
                yield from docs

    def _encode(self, docs: Sequence[Doc]) -> None:
        encoder = encoder_of(*self._where)
        pieces = [_pieces(doc, self._context, self._most) for doc in docs]
        texts = [
            [doc[int(place)].text for place in places]
            for doc, parts in zip(docs, pieces, strict=True)
            for places in parts
        ]
        sentences = iter(encoder.encode(texts, **self._how) if texts else ())
        for doc, parts in zip(docs, pieces, strict=True):
            encoded = [(places, next(sentences)) for places in parts]
            doc._.set(_NAME, _arrays(len(doc), encoder.dimension, encoded))
            doc.tensor = doc._.get(_NAME)["contextual"]
            if self._hooks:
                add_hooks(doc)


def _pieces(doc: Doc, context: Context, most: int) -> list[Places]:
    """The tokens that are encoded together, without those of white space."""
    whole = context == "document" or not doc.has_annotation("SENT_START")
    units: Iterable[Iterable[Token]] = [doc] if whole else doc.sents
    pieces = []
    for unit in units:
        places = np.array([token.i for token in unit if not token.is_space], np.int64)
        if places.size:
            pieces += np.array_split(places, -(-places.size // most))
    return pieces


def _arrays(n: int, d: int, encoded: Sequence[tuple[Places, Sentence]]) -> dict[str, Any]:
    """What is kept with a document of n tokens.

    `static` and `contextual` [n, d], and of each piece the tokens that it has and their attention,
    [m] and [m, m] or [h, m, m].
    """
    static, contextual = np.zeros((2, n, d), np.float32)
    attention = []
    for places, sentence in encoded:
        static[places], contextual[places] = sentence.static, sentence.contextual
        if sentence.attention is not None:
            attention.append((places, np.ascontiguousarray(sentence.attention[0])))
    return {"static": static, "contextual": contextual, "attention": attention}


def _kept(doc: Doc) -> dict[str, Any] | None:
    """What is kept with a document; None where it has not been encoded."""
    kept: dict[str, Any] | None = doc._.get(_NAME)
    if kept is not None and len(kept["static"]) != len(doc):
        raise ValueError(
            "Tokens were merged or split after the document was encoded: put the component"
            f" `{_NAME}` behind those that do so."
        )
    return kept


def _row(token: Token, part: str) -> Array | None:
    """The vector of a token. -> [d]"""
    kept = _kept(token.doc)
    return None if kept is None else kept[part][token.i]


def _token_attention(token: Token) -> Array | None:
    """How much a token looks at each of the document, 0 beyond its piece. -> [n] or [h, n]"""
    kept = _kept(token.doc)
    if kept is None or not kept["attention"]:
        return None
    row: Array = np.zeros((*kept["attention"][0][1].shape[:-2], len(token.doc)), np.float32)
    for places, weights in kept["attention"]:
        if places[0] <= token.i <= places[-1]:
            row[..., places] = weights[..., places == token.i, :].sum(axis=-2)
    return row


def _doc_attention(doc: Doc) -> Array | None:
    """How much each token looks at each other one, 0 beyond a piece. -> [n, n] or [h, n, n]"""
    kept = _kept(doc)
    if kept is None or not kept["attention"]:
        return None
    n, heads = len(doc), kept["attention"][0][1].shape[:-2]
    attention: Array = np.zeros((*heads, n, n), np.float32)
    for places, weights in kept["attention"]:
        attention[..., places[:, None], places] = weights
    return attention


def _vector(part: Doc | Span) -> Array:
    """The mean of the vectors that are not zero. -> [d]"""
    kept: Any = _kept(part if isinstance(part, Doc) else part.doc)
    rows = kept["contextual"][np.array([token.i for token in part], np.int64)]
    known = rows[rows.any(axis=1)]
    mean: Array = known.mean(axis=0) if len(known) else np.zeros(rows.shape[1], np.float32)
    return mean


def _similarity(one: Doc | Span | Token, other: Doc | Span | Token) -> float:
    """The cosine of two vectors; 0 where one is zero."""
    left, right = np.asarray(one.vector), np.asarray(other.vector)
    norms = float(np.linalg.norm(left)) * float(np.linalg.norm(right))
    return float(np.dot(left, right)) / norms if norms else 0.0


def _has_vector(part: Doc | Span | Token) -> bool:
    return bool(part.vector.any())


def add_hooks(doc: Doc) -> None:
    """Let spaCy's own attributes answer with the contextual vectors.

    Hooks are not stored with a document: one that is read back, or comes from another process,
    needs them anew. Raises ValueError for one that was not encoded.
    """
    if _kept(doc) is None:
        raise ValueError(f"The document has no vectors: run the component `{_NAME}` on it first.")
    for hooks in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
        hooks.update(vector=_vector, similarity=_similarity, has_vector=_has_vector)
    doc.user_token_hooks["vector"] = partial(_row, part="contextual")


Doc.set_extension(_NAME, default=None, force=True)
Doc.set_extension("attention", getter=_doc_attention, force=True)
Token.set_extension("attention", getter=_token_attention, force=True)
Token.set_extension("contextual", getter=partial(_row, part="contextual"), force=True)
Token.set_extension("static", getter=partial(_row, part="static"), force=True)

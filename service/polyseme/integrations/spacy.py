"""spaCy components: contextual vectors and attention, a layer to train on them, and senses."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyseme.client import Encoder
from polyseme.client.results import VECTOR_KINDS, Array, VectorKind
from polyseme.errors import FieldError, InvalidError, install_command
from polyseme.integrations import open_encoder
from polyseme.operations.schema import PER_TOKEN, OovPolicy, Part
from polyseme.senses.inventory import load_inventory, read_inventory
from polyseme.spellings import Case

try:
    from spacy.language import Language
    from spacy.pipeline import Pipe
    from spacy.tokens import Doc, Span, Token
    from spacy.util import minibatch
    from thinc.api import Maxout, Model, chain, concatenate, with_array
    from thinc.types import Floats2d
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"This needs spaCy: {install_command('spacy')}.") from error

Context: TypeAlias = Literal["sentence", "document"]
Indices: TypeAlias = NDArray[np.int64]
"""Indices of tokens in a document, [m]."""

_NAME = "polyseme"
"""The name of the component, and of the attribute of `doc._` that holds its arrays. `doc.to_bytes`
saves the attribute, and so does `DocBin` with `store_user_data`."""
_SENSES = "polyseme_senses"
"""The same of the component of senses."""
_SENSE_FIELDS = ("sense", "label", "confidence", "unsure")


class BatchPipe(Pipe):
    """A component that processes several documents at a time."""

    name: str

    def process(self, docs: Sequence[Doc]) -> None:
        """Change some documents."""
        raise NotImplementedError

    def __call__(self, doc: Doc) -> Doc:
        """Process one document."""
        self.process([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Process documents in batches of `batch_size`."""
        for docs in minibatch(stream, batch_size):  # type: ignore[no-untyped-call]
            try:
                self.process(docs)
            except Exception as error:  # noqa: BLE001 - spaCy's error handler decides
                self.get_error_handler()(self.name, self, docs, error)
            else:
                yield from docs


@Language.factory(
    _NAME,
    assigns=[
        *("doc.tensor", "doc._.attention"),
        *("token._.contextual", "token._.static", "token._.features", "token._.attention"),
    ],
)
class Contextualizer(BatchPipe):
    """Encode documents; each array has one row per spaCy token, zero for white space.

    With `context="sentence"`, each sentence is encoded by itself if an earlier component has set
    sentence boundaries; otherwise the document is encoded as one text. A text of more than `most`
    words is split into chunks of about the same size. `attention` selects the attention of each
    head, the mean of the heads, or no attention. `layer` is its layer, by default the last.

    `vectors` selects the rows of `doc.tensor` and `token.vector`. The default is `features`,
    because a tagger or a classifier needs the word itself, which contextual vectors hardly contain;
    use `contextual` to compare senses. Without `hooks`, `vector`, `has_vector` and `similarity`
    remain spaCy's own. `share` is that of /v1/encode.

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
        vectors: VectorKind = "features",
        hooks: bool = True,
    ) -> None:
        if most < 1:
            raise ValueError("`most`, the maximum number of words in a chunk, must be 1 or more.")
        self.name = name
        self._source = (model, url)
        self._context, self._most, self._hooks, self._vectors = context, most, hooks, vectors
        parts: tuple[Part, ...] = (*VECTOR_KINDS, "attention")
        self._options: dict[str, Any] = {
            "include": VECTOR_KINDS if attention == "none" else parts,
            "layers": "last" if layer is None else [layer],
            "heads": "mean" if attention == "mean" else "all",
            "oov": oov,
            "case": case,
            "share": share,
        }
        encoder = open_encoder(model, url)
        self._repr = f"{type(self).__name__}({encoder!r}, vectors={vectors!r})"
        try:  # an unknown model or an option that it does not support is an error here
            encoder.encode([""], **self._options)
        except InvalidError as error:
            # `layers` is an option of `encode`; this component has the setting `layer`.
            error.errors = [
                FieldError(("layer",) if one.path == ("layers", 0) else one.path, one.message)
                for one in error.errors
            ]
            raise

    def __repr__(self) -> str:
        return self._repr

    def process(self, docs: Sequence[Doc]) -> None:
        """Encode some documents."""
        encoder = open_encoder(*self._source)
        chunks = [_chunks(doc, self._context, self._most) for doc in docs]
        texts = [words for parts in chunks for _, words in parts]
        sentences = iter(encoder.encode(texts, **self._options) if texts else ())
        for doc, parts in zip(docs, chunks, strict=True):
            # Of n tokens: `static` and `contextual` are [n, d], `features` is [n, 2d]. `attention`
            # has the token indices [m] and the attention [m, m] or [h, m, m] of each chunk.
            attention: list[tuple[Indices, Array]] = []
            arrays: dict[str, Any] = {
                part: np.zeros((len(doc), PER_TOKEN[part] * encoder.dimension), np.float32)
                for part in VECTOR_KINDS
            }
            for indices, _ in parts:
                sentence = next(sentences)
                for part in VECTOR_KINDS:
                    arrays[part][indices] = sentence.arrays[part]
                if "attention" in sentence.arrays:
                    attention.append((indices, np.ascontiguousarray(sentence.attention[0])))
            doc._.set(_NAME, {**arrays, "attention": attention})
            doc.tensor = arrays[self._vectors]
            if self._hooks:
                add_hooks(doc, self._vectors)


def _chunks(doc: Doc, context: Context, most: int) -> list[tuple[Indices, tuple[str, ...]]]:
    """Return the indices [m] and the texts of the tokens of each chunk, without white space."""
    whole = context == "document" or not doc.has_annotation("SENT_START")
    units: Iterable[Iterable[Token]] = [doc] if whole else doc.sents
    chunks: list[Indices] = []
    for unit in units:
        indices = np.array([token.i for token in unit if not token.is_space], np.int64)
        if indices.size:
            chunks += np.array_split(indices, -(-indices.size // most))
    return [(chunk, tuple(doc[int(index)].text for index in chunk)) for chunk in chunks]


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


def _mean(part: Doc | Span, vectors: VectorKind) -> Array:
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


def add_hooks(doc: Doc, vectors: VectorKind = "features") -> None:
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
for _part in VECTOR_KINDS:
    Token.set_extension(_part, getter=partial(_row, part=_part), force=True)


def build_tok2vec(
    width: int,
    *,
    vectors: VectorKind = "features",
    model: str | None = None,
    url: str | None = None,
    context: Context = "sentence",
    most: int = 512,
    oov: OovPolicy | None = None,
    case: Case = "auto",
    share: float | None = None,
    maxout_pieces: int = 3,
    cache_mb: int = 1024,
    embed: Model[list[Doc], list[Floats2d]] | None = None,
) -> Model[list[Doc], list[Floats2d]]:
    """Build the architecture `polyseme.Tok2Vec.v1`: fixed vectors and a trained dense layer.

    The vectors of each token, [d] or [2d] for features, are reduced to `width` by a maxout layer
    with `maxout_pieces` pieces and layer normalization. The output of `embed`, another embedding
    layer such as spacy.MultiHashEmbed.v2, is concatenated with the result, and a second maxout
    layer follows. The other arguments have the same meaning as in `Contextualizer`. Training keeps
    up to `cache_mb` MiB of vectors, and encodes texts beyond them again in each epoch.
    """
    if url is None:
        open_encoder(model)  # an unknown model is reported here, not in training
    options = {"oov": oov, "case": case, "share": share}
    layer = _VectorLayer((model, url), vectors, context, most, options, cache_mb << 20)
    rows: Model[list[Doc], list[Floats2d]] = Model("polyseme_vectors", layer)

    def dense() -> Model[list[Floats2d], list[Floats2d]]:
        return with_array(Maxout(width, nP=maxout_pieces, dropout=0.0, normalize=True))

    tok2vec: Model[list[Doc], list[Floats2d]] = chain(rows, dense())
    if embed is not None:
        tok2vec = chain(concatenate(tok2vec, embed), dense())
    tok2vec.set_dim("nO", width)
    return tok2vec


@dataclass
class _VectorLayer:
    """The forward pass of a thinc layer without weights: documents to rows of vectors."""

    source: tuple[str | None, str | None]
    """model and URL"""
    vectors: VectorKind
    context: Context
    most: int
    options: dict[str, Any]
    max_cache_bytes: int
    cache: dict[tuple[str, ...], Array] = field(default_factory=dict, repr=False)
    """the vectors of chunks of training texts; no more are added when the cache is full"""
    cached_bytes: int = 0
    encoder: Encoder | None = None
    """the encoder of the vectors in the cache"""

    def __call__(
        self, model: Model[list[Doc], list[Floats2d]], docs: list[Doc], is_train: bool
    ) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
        """Return the vectors of each document, [n, d] or [n, 2d], and an empty backward pass."""
        encoder = open_encoder(*self.source)
        if encoder is not self.encoder:
            self.encoder, self.cache, self.cached_bytes = encoder, {}, 0
        chunks = [_chunks(doc, self.context, self.most) for doc in docs]
        # Only training repeats texts; in prediction, the cache would only use memory.
        cache = self.cache if is_train else {}
        texts = dict.fromkeys(text for parts in chunks for _, text in parts if text not in cache)
        encoded: dict[tuple[str, ...], Array] = {}
        if texts:
            sentences = encoder.encode([*texts], include=(self.vectors,), **self.options)
            encoded = {t: s.arrays[self.vectors] for t, s in zip(texts, sentences, strict=True)}
        rows = []
        for doc, parts in zip(docs, chunks, strict=True):
            array = np.zeros((len(doc), PER_TOKEN[self.vectors] * encoder.dimension), np.float32)
            for indices, text in parts:
                array[indices] = encoded[text] if text in encoded else cache[text]
            rows.append(model.ops.asarray2f(array))  # type: ignore[arg-type] # thinc's own types
        for text, array in encoded.items() if is_train else ():
            if self.cached_bytes + array.nbytes <= self.max_cache_bytes:
                self.cache[text] = array
                self.cached_bytes += array.nbytes
        return rows, lambda _: []

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy in another process needs: the settings."""
        return {**vars(self), "cache": {}, "cached_bytes": 0, "encoder": None}


@Language.factory(_SENSES, assigns=["doc._.senses", "token._.sense"])
class SenseTagger(BatchPipe):
    """Give each occurrence of the words of some inventories its sense.

    `inventories` are paths of files, which the pipeline contains when it is saved. A text is a
    sentence if an earlier component has set sentence boundaries, else the document. `doc._.senses`
    is a list with a dictionary for each occurrence, and `token._.sense` that of the token in which
    it starts: `word`, `start`, `end` (characters), `sense`, `label`, `confidence`, `unsure`.
    """

    def __init__(
        self,
        nlp: Language,  # noqa: ARG002 - spaCy passes it to every factory
        name: str,
        *,
        inventories: Sequence[str] = (),
        model: str | None = None,
        url: str | None = None,
    ) -> None:
        self.name, self._source = name, (model, url)
        self._inventories = [load_inventory(path) for path in inventories]

    def process(self, docs: Sequence[Doc]) -> None:
        """Tag some documents."""
        encoder = open_encoder(*self._source)
        texts: list[str] = []
        origins: list[tuple[int, int]] = []  # the document of each text, and where it starts
        for i, doc in enumerate(docs):
            doc._.set(_SENSES, [])
            units = doc.sents if doc.has_annotation("SENT_START") else [doc[:]]
            for unit in units:
                texts.append(unit.text)
                origins.append((i, unit.start_char))
        for inventory in self._inventories if texts else ():
            for occurrence in encoder.apply(inventory, texts).occurrences:
                i, first = origins[occurrence.text]
                start, end = first + (occurrence.start or 0), first + (occurrence.end or 0)
                fields = {field: getattr(occurrence, field) for field in _SENSE_FIELDS}
                tag = {"word": inventory.word, "start": start, "end": end, **fields}
                docs[i]._.get(_SENSES).append(tag)
        for doc in docs:
            doc._.get(_SENSES).sort(key=lambda occurrence: occurrence["start"])

    def to_bytes(self, *, exclude: Sequence[str] = ()) -> bytes:
        """Return the inventories."""
        del exclude
        return b"\n".join(inventory.to_json() for inventory in self._inventories)

    def from_bytes(self, data: bytes, *, exclude: Sequence[str] = ()) -> "SenseTagger":
        """Read the inventories."""
        del exclude
        self._inventories = [read_inventory(line) for line in data.splitlines() if line]
        return self

    def to_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> None:
        """Write the inventories."""
        Path(path).write_bytes(self.to_bytes(exclude=exclude))

    def from_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> "SenseTagger":
        """Read the inventories."""
        return self.from_bytes(Path(path).read_bytes(), exclude=exclude)


def _senses_of(doc: Doc) -> list[dict[str, Any]] | None:
    """Return the occurrences of a document; None if it was not tagged."""
    occurrences: Sequence[dict[str, Any]] | None = doc._.get(_SENSES)
    return None if occurrences is None else [*occurrences]  # a stored document has a tuple


def _sense(token: Token) -> dict[str, Any] | None:
    """Return the occurrence that starts in a token."""
    end = token.idx + len(token)
    inside = (one for one in _senses_of(token.doc) or () if token.idx <= one["start"] < end)
    return next(inside, None)


Doc.set_extension(_SENSES, default=None, force=True)
Doc.set_extension("senses", getter=_senses_of, force=True)
Token.set_extension("sense", getter=_sense, force=True)

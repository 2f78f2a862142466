"""Encoding of Arrow tables: `Encoder` is a function from a table of texts to a table of vectors.

`polyseme bulk` runs it over files, and Spark, Ray and Dask run it over their own batches.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache
from itertools import chain
from operator import add, itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, create_model

from polyseme.engine import Floats, NonFiniteError
from polyseme.errors import (
    FieldError,
    InvalidError,
    ModelFolderError,
    OutOfRangeError,
    PolysemeError,
    UnknownWordError,
    install_command,
    listed,
)
from polyseme.models.manifest import MANIFEST
from polyseme.models.model import Model
from polyseme.models.registry import Registry
from polyseme.operations.compare import WordForms
from polyseme.operations.embed import DEFAULT_POOLING, Pooling, pool, pooled_part, token_weights
from polyseme.operations.encode import cast, encode_stacks, tokenize, word_indices
from polyseme.operations.limits import MAX_SENTENCE_TOKENS, Limits
from polyseme.operations.schema import PER_TOKEN, Dtype, EncodeOptions, OovPolicy, Request, Share
from polyseme.senses.inventory import (
    ApplySensesRequest,
    SenseInventory,
    apply_senses,
    load_inventory,
)
from polyseme.settings import BUNDLED, Settings
from polyseme.single_thread import SINGLE_THREAD
from polyseme.spellings import Case
from polyseme.tokenizer import ResolvedToken, Text, Tokenized

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"This needs pyarrow: {install_command('bulk')}.") from error

ArrayPart: TypeAlias = Literal["static", "contextual", "features", "attention"]
RowKind: TypeAlias = Literal["sentences", "tokens"]
Value = TypeVar("Value")
OnError: TypeAlias = Literal["null", "skip", "fail"]
"""A row that cannot be encoded becomes a row of nulls with its `error`, no row, or an exception."""
METADATA_KEY = b"polyseme"
"""The key of the model, its checksum and the options in the metadata of a schema."""
NOT_UTF8 = "is not text in UTF-8"
ROW_OPTIONS = ("on_error", "truncate", "max_sentence_tokens")
"""Options that only change rows with an error or with a truncated text."""
SENSE_COLUMNS = {
    "sense": pa.int32(),
    "label": pa.string(),
    "confidence": pa.float32(),
    "unsure": pa.bool_(),
}
SENSES = pa.list_(
    pa.struct(
        {"word": pa.string()}
        | dict.fromkeys(("start", "stop", "index"), pa.int32())
        | SENSE_COLUMNS
    )
)
"""The type of the occurrences of the inventories' words in a text."""
FLOAT_COLUMNS = ("static", "contextual", "features", "attention", "vector")
"""The columns of floating-point numbers."""
_BATCH_ROWS, _BATCH_BYTES = 1024, 1 << 20
"""Maximum number of texts, and approximate maximum size of texts, that are tokenized together."""
GROUP_BYTES = 32 << 20
"""Approximate maximum size of a batch of the result, unless it is one row."""
VALUE_BYTES = 8
"""Size of a value, beside the bytes of a string."""
_STRINGS = {pa.string(), pa.large_string(), pa.binary(), pa.large_binary()}
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
"""Views of strings, which Arrow does not take yet, and the types to which they are cast."""
_LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)
_HINTS = {
    "too_large": "The option `truncate` truncates such texts.",
    "unknown_word": "The option `oov` with the value `zero` gives such words a zero vector.",
    "out_of_range": "Use the `dtype` float32, or a model with smaller vectors.",
}
_SPARK_TYPES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "date32[day]": "date",
    "timestamp[us]": "timestamp_ntz",
    **{name: name for name in ("string", "binary", "float", "double")},
}
"""Spark's names of Arrow's types."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoder:
    """A function from a table with a column of texts to a table of their vectors.

    It holds names and options only, so it can be pickled; each process opens the model once. The
    result has the columns of `keep`, then `error`, `truncated` and the requested ones, and its
    schema's metadata has the model, its checksum and the options. A row has the same bits in every
    batch. Raises InvalidError if an option is invalid.
    """

    model: str = BUNDLED
    """the name of the model"""
    models_dir: str | Path | None = None
    """the folder of models; None is the folder of the settings"""
    sha256: str | None = None
    """the required sha256 of the model's manifest, which has the checksum of each file"""
    column: str = "text"
    """the column of texts: strings, or lists of words"""
    keep: tuple[str, ...] = ()
    """columns to copy"""
    include: tuple[ArrayPart, ...] = ()
    """the arrays to write, with the tokens of each text; with rows of tokens, the array of
    `vector`, by default `contextual`"""
    pooling: Pooling | None = DEFAULT_POOLING
    """with rows of sentences, the pooling of `vector`; None leaves it out"""
    rows: RowKind = "sentences"
    """what a row of the result is: a text or a token"""
    words: tuple[str, ...] = ()
    """with rows of tokens, write only the occurrences of these words, and those of `senses`"""
    exact: bool = False
    """whether an occurrence must have the case of its word in `words`"""
    senses: tuple[SenseInventory | str | Path, ...] = ()
    """inventories, or their files, whose senses are assigned to the occurrences of their words"""
    oov: OovPolicy | None = None
    case: Case = "auto"
    phrases: bool = False
    truncate: bool = False
    share: Share = None
    heads: Literal["all", "mean"] = "all"
    max_sentence_tokens: Annotated[int, Field(ge=1)] = MAX_SENTENCE_TOKENS
    on_error: OnError = "null"
    wordless: Literal["null", "zero"] = "null"
    """a `vector` without a direction, such as that of a text without a known word"""
    dtype: Dtype = "float32"
    lists: Literal["fixed", "variable"] = "fixed"
    """vectors as fixed-size lists, or as lists of variable size for Spark"""

    def __post_init__(self) -> None:
        for name in ("keep", "include", "words", "senses"):
            value: Any = getattr(self, name)
            is_one = isinstance(value, str | Path | SenseInventory)
            object.__setattr__(self, name, (value,) if is_one else tuple(value))
        _ARGUMENTS.of(**{name: getattr(self, name) for name in _ARGUMENTS.model_fields})
        if self.models_dir is not None:  # other processes may have other working directories
            object.__setattr__(self, "models_dir", Path(self.models_dir).absolute())
        inventories = (
            one if isinstance(one, SenseInventory) else load_inventory(one) for one in self.senses
        )
        object.__setattr__(self, "senses", tuple(inventories))
        if self.rows == "tokens" and not self.include:
            object.__setattr__(self, "include", ("contextual",))
        _check_combination(self)

    def __call__(self, data: Any) -> Any:
        """Encode a `pyarrow.RecordBatch` or `pyarrow.Table`; return the same kind.

        Raises InvalidError if a column is missing or of another type, or if a row cannot be encoded
        and `on_error` is `fail`; UnknownModelError or ModelFolderError if the model cannot be read.
        """
        if isinstance(data, pa.Table):
            schema = self.schema(data.schema)
            return pa.Table.from_batches(map(self, data.combine_chunks().to_batches()), schema)
        if not isinstance(data, pa.RecordBatch):
            raise TypeError("An Encoder takes a pyarrow.RecordBatch or a pyarrow.Table.")
        schema = self._copy_schema(data.schema)
        encoding = Encoding(self, schema)
        texts, problems = clean_texts(data.column(self.column))
        columns = [data.column(one.name).cast(one.type) for one in schema]
        batches = list(encoding.batches(texts, columns, problems))
        if len(batches) == 1:  # not copied
            return batches[0]
        return pa.concat_batches(batches or [pa.RecordBatch.from_pylist([], encoding.schema)])

    def schema(self, input_schema: Any) -> Any:
        """Return the `pyarrow.Schema` of the result for that of the input.

        Raises InvalidError if a column is missing or of another type.
        """
        return Encoding(self, self._copy_schema(input_schema)).schema

    def spark_ddl(self, input_schema: Any) -> str:
        """Return the schema of the result for `mapInArrow` of Spark.

        `input_schema` is that of a Spark DataFrame, or a `pyarrow.Schema`. Raises InvalidError for
        a type that Spark does not have, and without `lists="variable"`.
        """
        spark_types: dict[str, str] = {}
        if not isinstance(input_schema, pa.Schema):
            # A Spark DataFrame; only the type of the texts matters for the other columns.
            kinds = {one.name: one.dataType.simpleString() for one in input_schema.fields}
            spark_types = {name: kind for name, kind in kinds.items() if name in self.keep}
            lists = {name: pa.list_(pa.string()) for name in kinds if "array" in kinds[name]}
            input_schema = pa.schema({**dict.fromkeys(kinds, pa.string()), **lists})
        columns = []
        for one in self.schema(input_schema):
            name = one.name.replace("`", "``")
            columns.append(f"`{name}` {spark_types.get(one.name) or _spark_type(one.type)}")
        return ", ".join(columns)

    def document(self) -> dict[str, Any]:
        """Return the options that the values of the result depend on, as JSON has them."""
        others = {"model", "models_dir", "sha256", "column", "keep", "senses"}
        names = [one.name for one in fields(self) if one.name not in {*others, *ROW_OPTIONS}]
        checksums = [hashlib.sha256(one.to_json()).hexdigest() for one in self.inventories]
        return {name: getattr(self, name) for name in names} | {"senses": checksums}

    @property
    def inventories(self) -> tuple[SenseInventory, ...]:
        """The inventories of `senses`, whose files have been read."""
        return self.senses  # type: ignore[return-value]

    def _copy_schema(self, schema: Any) -> Any:
        """Return the schema of the columns to copy; raise InvalidError unless all columns exist."""
        for name, option in [(self.column, "column"), *((name, "keep") for name in self.keep)]:
            count = schema.names.count(name)
            if count != 1:
                columns = f"the columns are {listed([one[:40] for one in schema.names])}"
                raise _invalid(option, f"there are {count} columns {name}; {columns}")
        kind = schema.field(self.column).type
        if text_type(kind) is None:
            raise _invalid("column", f"{self.column} has the type {kind} instead of strings")
        copies = [schema.field(name) for name in self.keep]
        return pa.schema([one.with_type(without_views(one.type)) for one in copies])


class _Arguments(Request[Any]):
    model_config = ConfigDict(arbitrary_types_allowed=True)


_TYPES: dict[str, Any] = get_type_hints(Encoder, include_extras=True)
_FIELDS: dict[str, Any] = {name: (kind, ...) for name, kind in _TYPES.items()}
_ARGUMENTS = create_model("Arguments", __base__=_Arguments, **_FIELDS)
"""Checks the types of an encoder's arguments."""


def _check_combination(encoder: Encoder) -> None:
    """Raise InvalidError for arguments that do not fit together."""
    if encoder.rows == "tokens":
        if len(encoder.include) > 1 or encoder.include[0] not in PER_TOKEN:
            raise _invalid("include", "rows of tokens have one: static, contextual or features")
        if any(inventory.phrases != encoder.phrases for inventory in encoder.inventories):
            raise _invalid("phrases", "the inventories of `senses` have another value")
    elif encoder.words:
        raise _invalid("words", "these are for rows of tokens")
    elif not (encoder.include or encoder.pooling or encoder.senses):
        raise _invalid("pooling", "without `include` and `senses`, nothing else is written")
    if encoder.exact and not encoder.words:
        raise _invalid("exact", "this needs `words`")
    if not all(word.strip() for word in encoder.words):
        raise _invalid("words", "a word is empty")


def _invalid(option: str, message: str) -> InvalidError:
    return InvalidError([FieldError((option,), message)])


def _spark_type(kind: Any) -> str:
    """Return Spark's name of an Arrow type; raise InvalidError if Spark does not have it."""
    if pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{one.name}: {_spark_type(one.type)}' for one in kind)}>"
    if str(kind) not in _SPARK_TYPES:
        option = {pa.FixedSizeListType: "lists", pa.DataType: "dtype"}.get(type(kind), "keep")
        raise _invalid(option, f"Spark has no type {kind}")
    return _SPARK_TYPES[str(kind)]


@cache
def open_model(name: str, models_dir: str | Path | None, sha256: str | None) -> tuple[Model, str]:
    """Return a model, opened once in this process, and the sha256 of its manifest.

    Raises UnknownModelError if there is none, ModelFolderError if it is another one or damaged.
    """
    registry = Registry.of(Path(models_dir or Settings().models_dir), name)
    try:
        actual = hashlib.sha256(registry.folder(name).joinpath(MANIFEST).read_bytes()).hexdigest()
    except OSError:
        raise ModelFolderError(f"{MANIFEST} cannot be read.") from None
    if sha256 not in (None, actual):
        raise ModelFolderError(
            f"the model {name} has the sha256 {actual}, not {sha256}; copy the same version of the"
            " model to each machine."
        )
    return registry.model(name), actual


@dataclass
class Counts:
    """Counts of the texts that have been encoded."""

    rows: int = 0
    tokens: int = 0
    """tokens of the texts; with rows of tokens, those that are written"""
    unknown: int = 0
    """tokens without a vector"""
    truncated: int = 0
    """words that were cut off"""
    missing: int = 0
    """rows without a text"""
    failed: int = 0
    """rows with an error"""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*map(add, astuple(self), astuple(other)))


@dataclass
class _Row:
    """A text of the input and what is written for it."""

    index: int
    is_null: bool
    error: str | None
    source: Text = ""
    sentence: Tokenized = Tokenized([])  # noqa: RUF009 - it is immutable
    """without tokens if the row has no text, or one that needs no vectors"""
    positions: Sequence[int] | None = None
    """the indices of the tokens to write; None for all"""

    @property
    def has_nulls(self) -> bool:
        """Whether nothing is written for the text."""
        return self.is_null or self.error is not None

    @property
    def words(self) -> Sequence[ResolvedToken]:
        """The tokens to write, without offsets if the sentence has a text."""
        return self.chosen(self.sentence.tokens)

    @property
    def starts(self) -> Sequence[int | None]:
        """The offset of each token to write; None in a list of words."""
        if self.sentence.text is None:
            return [None] * len(self.words)
        return self.chosen(self.sentence.starts)

    @property
    def text(self) -> Text:
        """The text, up to its last token if it is truncated."""
        sentence = self.sentence
        if sentence.text is None:
            return self.source[: len(self.source) - sentence.truncated]
        end = sentence.starts[-1] + len(sentence.tokens[-1].text) if sentence.truncated else None
        return sentence.text[:end]

    def chosen(self, values: Sequence[Value]) -> Sequence[Value]:
        """Return the values of the tokens to write, of those of all tokens."""
        return values if self.positions is None else [values[i] for i in self.positions]


class Encoding:
    """The work of an Encoder on one input: its batches, the counts, and the rows with an error."""

    def __init__(self, encoder: Encoder, copy_schema: Any) -> None:
        """Open the model; `copy_schema` is the `pyarrow.Schema` of the columns to copy.

        Raises the errors of `open_model`, and InvalidError if the model lacks an option or a column
        has the name of one of the result.
        """
        self.model, self.sha256 = open_model(encoder.model, encoder.models_dir, encoder.sha256)
        self.encoder, self.width = encoder, self.model.manifest.dimension
        self.is_tokens = encoder.rows == "tokens"
        self.pooling = None if self.is_tokens else encoder.pooling
        self.counts = Counts()
        self.errors: list[tuple[int, str]] = []
        """the rows of the last input of `batches` that have an error, and what it is"""
        names = EncodeOptions.model_fields.keys() & vars(encoder)
        values = {name: getattr(encoder, name) for name in names}
        options = EncodeOptions.of(**values | {"include": [*encoder.include]})
        options.check(self.model)
        if encoder.inventories:
            self._senses([""])
        # Encode in float32, so that a pooled vector is rounded only once, after pooling.
        pooled = [pooled_part(self.pooling)] if self.pooling else []
        include = [*options.include, *pooled]
        self.options = options.model_copy(update={"include": include, "dtype": "float32"})
        self.size_coefficients: dict[ArrayPart, tuple[int, int]] = {}
        """for n tokens, an array has n·a + n²·b values"""
        for part in (part for part in get_args(ArrayPart) if part in encoder.include):
            alone = options.model_copy(update={"include": [part]})
            self.size_coefficients[part] = alone.size_coefficients(self.model)
        of_senses = (inventory.word_forms for inventory in encoder.inventories)
        self.words = [WordForms(encoder.words, encoder.exact), *of_senses]
        self.has_words = bool(encoder.words or encoder.senses)
        self.only_words = self.has_words and (self.is_tokens or not include)
        """whether only texts in which a word may occur are tokenized"""
        self.schema = self._schema(copy_schema)

    def _schema(self, copy_schema: Any) -> Any:
        """Return the schema of the columns to copy and of the columns of no rows."""
        dtype = np.dtype(self.encoder.dtype)
        arrays = {part: np.zeros(0, dtype) for part in self.size_coefficients}
        columns = self._row_columns([]) | (
            self._columns_of_tokens([], arrays)
            if self.is_tokens
            else self._columns([], arrays, np.zeros((0, self.width), dtype))
        )
        for i, name in enumerate(copy_schema.names):
            if name in columns or name in copy_schema.names[:i]:
                raise _invalid("keep", f"the result has another column {name}")
        encoder = self.encoder
        facts = {"model": encoder.model, "sha256": self.sha256, "options": encoder.document()}
        new = (pa.field(name, column.type) for name, column in columns.items())
        return pa.schema([*copy_schema, *new], {METADATA_KEY: json.dumps(facts)})

    def batches(
        self, texts: Any, columns: Sequence[Any], problems: Sequence[str | None]
    ) -> Iterator[Any]:
        """Yield the result as `pyarrow.RecordBatch`es of bounded size.

        `texts` is an array of strings or of lists of strings; `problems` says what is wrong with a
        row that could not be read. Raises InvalidError for a row with an error if `on_error` is
        `fail`.
        """
        self.errors.clear()
        for start, end in ranges(row_bytes(texts), _BATCH_BYTES, _BATCH_ROWS):
            slices = [column.slice(start, end - start) for column in columns]
            batch = texts.slice(start, end - start).to_pylist()
            with SINGLE_THREAD:
                rows = self._tokenize(batch, problems[start:end])
                written = self._without_errors(rows, rows, start)
            for first, last in ranges([self._bytes(row) for row in written], GROUP_BYTES):
                with SINGLE_THREAD:
                    results = self._encode(written[first:last], slices, start)
                yield from results

    def _bytes(self, row: _Row) -> int:
        """Return the approximate size of the numbers of a row."""
        n, written = len(row.sentence.tokens), len(row.words)
        arrays = sum(written * a + n * n * b for a, b in self.size_coefficients.values())
        return (arrays + (self.width if self.pooling else 0) + 1) * 4

    def _tokenize(self, texts: list[Text | None], problems: Sequence[str | None]) -> list[_Row]:
        """Tokenize the texts whose vectors or senses are written."""
        rows = []
        candidates: dict[int, Text] = {}
        for i, (text, problem) in enumerate(zip(texts, problems, strict=True)):
            error = f"unreadable: The row {problem}." if problem else None
            rows.append(_Row(i, text is None, error))
            self.counts.missing += text is None and not problem
            if text is not None and self._is_candidate(text):
                candidates[i] = text
        self.counts.rows += len(rows)
        sentences = self._sentences([*candidates.values()])
        for (i, text), sentence in zip(candidates.items(), sentences, strict=True):
            row = rows[i]
            if isinstance(sentence, str):
                row.error = sentence
                continue
            row.source, row.sentence = text, sentence
            if self.is_tokens and self.has_words:
                tokens = [token.text for token in sentence.tokens]
                indices = chain.from_iterable(word.indices(tokens) for word in self.words)
                row.positions = sorted({*indices})
        return rows

    def _is_candidate(self, text: Text) -> bool:
        return not self.only_words or any(word.may_occur(text) for word in self.words)

    def _sentences(self, texts: Sequence[Text]) -> Sequence[Tokenized | str]:
        """Return the tokens of each text or its error."""
        limits = Limits(max_sentence_tokens=self.encoder.max_sentence_tokens)
        try:
            return tokenize(self.model, texts, self.options, limits)
        except PolysemeError as error:
            if len(texts) == 1:
                return [row_error(error)]
            return [one for text in texts for one in self._sentences([text])]

    def _without_errors(self, new: Sequence[_Row], rows: list[_Row], first: int) -> list[_Row]:
        """Record the errors of new rows, and return the rows to write."""
        for row in new:
            if row.error:
                self.errors.append((first + row.index, row.error))
                self.counts.failed += 1
                if self.encoder.on_error == "fail":
                    name = f"{self.encoder.column}[{first + row.index}]"
                    raise _invalid(name, row.error.rstrip("."))
        if self.encoder.on_error == "skip":
            return [row for row in rows if not row.error]
        return rows

    def _encode(self, rows: list[_Row], columns: Sequence[Any], first: int) -> Iterable[Any]:
        """Return rows as record batches; a row whose numbers overflow has an error."""
        try:
            arrays, vectors = self._arrays(rows)
        except (NonFiniteError, OutOfRangeError):
            overflowing = []
            for row in rows:
                try:
                    self._arrays([row])
                except (NonFiniteError, OutOfRangeError):
                    row.error = row_error(OutOfRangeError())
                    row.sentence, row.positions = Tokenized([]), None
                    overflowing.append(row)
            return self._encode(self._without_errors(overflowing, rows, first), columns, first)
        words = list(chain.from_iterable(row.words for row in rows))
        self.counts.tokens += len(words)
        self.counts.unknown += [word.resolution for word in words].count("oov")
        self.counts.truncated += sum(row.sentence.truncated for row in rows)
        indices = pa.array([row.index for row in rows], pa.int64())
        of_rows = [column.take(indices) for column in columns]
        of_rows += self._row_columns(rows).values()
        if self.is_tokens:
            of_tokens = self._columns_of_tokens(rows, arrays)
            return self._token_batches(rows, of_rows, [*of_tokens.values()])
        of_rows += self._columns(rows, arrays, vectors).values()
        return [pa.RecordBatch.from_arrays(of_rows, schema=self.schema)]

    def _arrays(self, rows: Sequence[_Row]) -> tuple[dict[ArrayPart, NDArray[Any]], Floats]:
        """Return the numbers of each array, one row after another, and the sentence vectors.

        Arrow's memory pool keeps memory for the next batch; the system takes long to provide it.
        -> [S, d]
        """
        dtype = np.dtype(self.encoder.dtype)
        sentences = [row.sentence for row in rows]
        lengths = np.array([len(sentence.tokens) for sentence in sentences], np.int64)
        written = np.array([len(row.words) for row in rows], np.int64)
        ends: dict[ArrayPart, list[int]] = {}
        results: dict[ArrayPart, NDArray[Any]] = {}
        for part, (per_token, per_pair) in self.size_coefficients.items():
            ends[part] = np.cumsum([0, *(written * per_token + lengths**2 * per_pair)]).tolist()
            buffer = pa.allocate_buffer(ends[part][-1] * dtype.itemsize)
            results[part] = np.frombuffer(buffer, dtype)
        pooled = np.zeros((len(rows), self.width if self.pooling else 0), np.float32)
        weights = []
        if self.pooling:
            weights = token_weights(self.model, [one.tokens for one in sentences], self.pooling)
        for stack, arrays in encode_stacks(self.model, sentences, self.options):
            for part, values in results.items():
                array = cast(arrays[part], self.encoder.dtype)
                for i, of_sentence in zip(stack, array, strict=True):
                    positions = rows[i].positions
                    part_of_it = of_sentence if positions is None else of_sentence[positions]
                    values[ends[part][i] : ends[part][i + 1]] = part_of_it.reshape(-1)
            if self.pooling:
                of_stack = np.array([weights[i] for i in stack])
                vectors = arrays[pooled_part(self.pooling)]
                pooled[list(stack)] = pool(self.model, of_stack, vectors, self.pooling)
        return results, cast(pooled, self.encoder.dtype)

    def _row_columns(self, rows: Sequence[_Row]) -> dict[str, Any]:
        """Return the columns that every row has."""
        truncated = [None if row.has_nulls else row.sentence.truncated for row in rows]
        return {
            "error": pa.array([row.error for row in rows], pa.string()),
            "truncated": pa.array(truncated, pa.int32()),
        }

    def _columns(
        self, rows: Sequence[_Row], arrays: dict[ArrayPart, NDArray[Any]], vectors: Floats
    ) -> dict[str, Any]:
        """Return the columns of the texts."""
        result = {}
        is_null = np.array([row.has_nulls for row in rows], np.bool_)
        lengths = np.array([len(row.words) for row in rows], np.int64)

        def lists(values: Any, counts: NDArray[np.int64] = lengths) -> Any:
            offsets = pa.array(np.cumsum([0, *counts], dtype=np.int32))
            return pa.ListArray.from_arrays(offsets, values, mask=pa.array(is_null))

        if self.encoder.senses:
            senses = self._senses([row.text for row in rows])
            pairs = zip(senses, is_null.tolist(), strict=True)
            result["senses"] = pa.array([None if null else one for one, null in pairs], SENSES)
        if self.encoder.include:
            result |= {f"{name}s": lists(array) for name, array in token_columns(rows).items()}
        for part, (per_token, per_pair) in self.size_coefficients.items():
            if per_token:
                result[part] = lists(self._vectors(arrays[part].reshape(-1, per_token)))
            else:  # attention weights in C order
                result[part] = lists(pa.array(arrays[part]), lengths**2 * per_pair)
        if self.pooling:
            result["vector"] = self._vectors(vectors, is_null | self._is_wordless(vectors))
        return result

    def _columns_of_tokens(
        self, rows: Sequence[_Row], arrays: dict[ArrayPart, NDArray[Any]]
    ) -> dict[str, Any]:
        """Return the columns of the tokens to write, without those of rows with an error."""
        indices = [row.chosen(range(len(row.sentence.tokens))) for row in rows]
        result = {"index": pa.array([*chain.from_iterable(indices)], pa.int32())}
        result |= token_columns(rows)
        if self.encoder.senses:
            result |= self._sense_columns(rows)
        ((part, values),) = arrays.items()
        vectors = values.reshape(-1, self.size_coefficients[part][0])
        return result | {"vector": self._vectors(vectors, self._is_wordless(vectors))}

    def _vectors(self, vectors: Floats, is_null: NDArray[np.bool_] | None = None) -> Any:
        """Return an Arrow array of vectors. [m, d], [m]"""
        values, mask = pa.array(vectors.reshape(-1)), None if is_null is None else pa.array(is_null)
        if self.encoder.lists == "fixed":
            return pa.FixedSizeListArray.from_arrays(values, vectors.shape[1], mask=mask)
        offsets = pa.array(range(0, len(values) + 1, vectors.shape[1]), pa.int32())
        return pa.ListArray.from_arrays(offsets, values, mask=mask)

    def _is_wordless(self, vectors: Floats) -> NDArray[np.bool_]:
        """Return which vectors have no direction and are written as null. [m, d] -> [m]"""
        return np.logical_not(vectors.any(axis=1)) & (self.encoder.wordless == "null")

    def _token_batches(
        self, rows: Sequence[_Row], of_rows: Sequence[Any], of_tokens: Sequence[Any]
    ) -> Iterable[Any]:
        """Return a row for each token to write, and one for each row with an error."""
        counts = np.array([len(row.words) for row in rows], np.int64)
        has_error = np.array([row.error is not None for row in rows], np.bool_)
        indices = np.repeat(np.arange(len(rows)), np.maximum(counts, has_error))
        if has_error.any():
            is_null = has_error[indices]
            positions = pa.array(np.cumsum(~is_null) - 1, mask=is_null)
            of_tokens = [column.take(positions) for column in of_tokens]
        sizes = np.sum([row_bytes(column) for column in of_rows], axis=0)[indices]

        def part(start: int, end: int) -> Any:
            arrays = [column.take(pa.array(indices[start:end])) for column in of_rows]
            arrays += [column.slice(start, end - start) for column in of_tokens]
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

        # Each part copies its columns when it is needed: tokens repeat those of their text.
        return (part(start, end) for start, end in ranges(sizes, GROUP_BYTES))

    def _sense_columns(self, rows: Sequence[_Row]) -> dict[str, Any]:
        """Return the sense of each token to write; null for a word without an inventory."""
        senses: list[dict[str, Any]] = []
        for row, occurrences in zip(rows, self._senses([row.text for row in rows]), strict=True):
            by_offset = {one["offset"]: one for one in occurrences}
            offsets: Sequence[int | None] = row.starts
            if row.sentence.text is None:
                offsets = row.chosen(word_indices(row.source, row.sentence.tokens))
            senses += [by_offset.get(offset, {}) for offset in offsets]
        return {
            name: pa.array([one.get(name) for one in senses], kind)
            for name, kind in SENSE_COLUMNS.items()
        }

    def _senses(self, texts: Sequence[Text]) -> list[list[dict[str, Any]]]:
        """Return the occurrences of the inventories' words in each text, with their senses."""
        result: list[list[dict[str, Any]]] = [[] for _ in texts]
        for inventory in self.encoder.inventories if texts else ():
            request = ApplySensesRequest.of(inventory=inventory, texts=[*texts])
            for one in apply_senses(self.model, request).occurrences:
                facts = {"word": inventory.word, "stop": one.end, "offset": one.offset, **vars(one)}
                result[one.text].append(facts)
        return result


def row_error(error: PolysemeError) -> str:
    """Return the code of the error of a row, what is wrong and what to do."""
    detail = error.detail
    if isinstance(error, InvalidError) and not isinstance(error, UnknownWordError):
        detail = "; ".join(one.message for one in error.errors) + "."
    return f"{error.code}: {detail} {_HINTS.get(error.code, error.hint)}"


def token_columns(rows: Sequence[_Row]) -> dict[str, Any]:
    """Return the columns of the tokens to write of all rows; as lists, their names are plural."""
    words = list(chain.from_iterable(row.words for row in rows))
    texts, keys, resolutions = (list(map(itemgetter(i), words)) for i in (0, 3, 4))
    starts = pa.array(list(chain.from_iterable(row.starts for row in rows)), pa.int32())
    return {
        "token": pa.array(texts, pa.string()),
        "start": starts,
        "stop": pc.add(starts, pa.array(list(map(len, texts)), pa.int32())),
        "key": pa.array(keys, pa.string()),
        "resolution": pa.array(resolutions, pa.string()),
    }


def ranges(
    sizes: Sequence[int] | NDArray[np.int64], max_bytes: int, max_rows: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield the bounds of consecutive ranges of rows, of one row or up to a size."""
    sums, start = np.cumsum(sizes, dtype=np.int64), 0
    while start < len(sums):
        before = sums[start - 1] if start else 0
        end = max(int(np.searchsorted(sums, before + max_bytes, "right")), start + 1)
        end = min(end, start + (max_rows or end))
        yield start, end
        start = end


def text_type(kind: Any) -> Any:
    """Return the type to which texts of an Arrow type are cast; None if they are not texts."""
    if isinstance(kind, pa.DictionaryType):
        return text_type(kind.value_type)
    if isinstance(kind, _LISTS):
        return pa.list_(pa.string()) if text_type(kind.value_type) == pa.string() else None
    # Other programs write a column of nulls for texts that are all missing.
    return pa.string() if kind in {*_STRINGS, *_VIEWS, pa.null()} else None


def without_views(kind: Any) -> Any:
    """Return a type with strings instead of views of strings."""
    if isinstance(kind, _LISTS) and "view" in str(kind):
        return pa.list_(without_views(kind.value_type))
    if isinstance(kind, pa.StructType):
        return pa.struct([field.with_type(without_views(field.type)) for field in kind])
    if isinstance(kind, pa.MapType):
        return pa.map_(without_views(kind.key_type), without_views(kind.item_type))
    return _VIEWS.get(kind, kind)


def clean_texts(texts: Any) -> tuple[Any, list[str | None]]:
    """Return texts as strings or lists of strings, and what is wrong with rows, which are null."""
    texts, problems = clean(texts, text_type(texts.type))
    if pa.types.is_list(texts.type) and texts.flatten().null_count:
        for i, words in enumerate(texts):
            if words.is_valid and words.values.null_count:
                problems[i] = "has a list with a word that is null"
    return without_rows(texts, problems), problems


def clean(array: Any, kind: Any) -> tuple[Any, list[str | None]]:
    """Return an array of a type, and what is wrong with rows, which are null."""
    array = array.cast(kind, safe=False)  # other programs may write strings that are not UTF-8
    problems: list[str | None] = [None] * len(array)
    if not _is_valid(array):
        rows = (array.take(pa.array([i])) for i in range(len(array)))
        problems = [None if _is_valid(row) else NOT_UTF8 for row in rows]
    return without_rows(array, problems), problems


def _is_valid(array: Any) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def without_rows(array: Any, problems: Sequence[Any]) -> Any:
    """Return an array with nulls in rows that have a problem."""
    if not any(problems):
        return array
    mask = np.array([bool(problem) for problem in problems], np.bool_)
    return array.take(pa.array(np.arange(len(array)), mask=mask))


def row_bytes(array: Any) -> NDArray[np.int64]:
    """Return the approximate size of each row of an Arrow array. -> [n]"""
    kind, sizes = array.type, np.full(len(array), VALUE_BYTES, np.int64)
    if isinstance(kind, pa.DictionaryType):
        of_values = np.append(row_bytes(array.dictionary), VALUE_BYTES)
        indices = array.indices.fill_null(len(array.dictionary))
        sizes = of_values[indices.to_numpy(zero_copy_only=False)]
    elif isinstance(kind, pa.StructType):
        sizes += np.sum([*map(row_bytes, array.flatten())], axis=0, dtype=np.int64)
    elif isinstance(kind, pa.MapType):
        items = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        sizes = row_bytes(pa.ListArray.from_arrays(array.offsets, items))
    elif kind in _STRINGS:
        sizes += pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    elif isinstance(kind, _LISTS):
        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        sums = np.append(0, np.cumsum(row_bytes(array.flatten())))
        ends = np.cumsum(lengths, dtype=np.int64)
        sizes += sums[ends] - sums[ends - lengths]
    else:
        sizes += array.nbytes // max(len(array), 1)
    return sizes

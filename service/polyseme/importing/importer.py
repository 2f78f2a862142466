"""Import a file of pretrained vectors as a model folder."""

import hashlib
import math
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.arrays import Floats
from polyseme.engine.quantization import Rows, as_floats, quantize, row_bytes
from polyseme.engine.subwords import MAX_WORDS, MIN_WORDS, Subwords
from polyseme.errors import CommandError
from polyseme.importing import fasttext
from polyseme.importing.closed_form import FREQUENT, sentence_whitening
from polyseme.importing.formats import (
    Format,
    check_columns,
    detect_format,
    open_decompressed,
    read_head,
)
from polyseme.importing.rows import CHANGED, VectorFile, load, scan
from polyseme.importing.senses import fit_senses
from polyseme.importing.subwords import LEAST_ROWS, fit_subwords
from polyseme.importing.texts import TextSample, count_words
from polyseme.importing.weights import (
    FILE_COUNTS,
    PARAMETER_FREE,
    TEXT_COUNTS,
    AttentionWeights,
    Convention,
    in_closed_form,
    read_weights,
    sorted_by_frequency,
    with_word_bias,
)
from polyseme.models.manifest import MANIFEST, NAME_PATTERN, Dtype, Manifest
from polyseme.models.model import Model
from polyseme.models.reader import bundled_models
from polyseme.models.registry import file_version, find_models
from polyseme.models.weights import ContextProjection
from polyseme.models.writer import rewrite_model, write_model
from polyseme.operations.occurrences import RANDOM_SENTENCES, estimate_projection
from polyseme.progress import SILENT, Progress

_BASE_MEMORY = 130_000_000
"""Bytes of memory for Python, NumPy and gensim."""
_WORD_MEMORY = 250
"""Bytes of memory for each word during an import."""
_FITTED_WORD_MEMORY = 2400
"""Bytes of memory for the n-grams of each word that subwords are fitted to."""
_FORMATS: dict[Format, str] = {
    "glove": "GloVe",
    "word2vec-text": "word2vec text",
    "word2vec-binary": "word2vec binary",
    "fasttext": "a fastText .bin",
}
"""The formats in messages."""
_UNSORTED = (
    "Warning: the words are not sorted by frequency, so all words are treated as equally"
    " informative, which separates senses less well; --sorted overrides this test."
)
_UNKNOWN_ORDER = (
    "Warning: there are too few words to determine whether they are sorted by frequency, so all"
    " words are treated as equally informative; --sorted declares that they are sorted."
)


@dataclass(frozen=True)
class ImportOptions:
    """The options of an import."""

    format: Format | None = None
    """detected if None"""
    member: str | None = None
    limit: int | None = None
    dtype: Dtype = "float32"
    encoding: str = "utf-8"
    skip: bool = False
    """skip unusable rows"""
    sorted: bool | None = None
    """whether the words are sorted by frequency; detected if None"""
    weights: Path | None = None
    attention: bool = True
    """False for parameter-free attention"""
    convention: Convention = "row"
    heads: int | None = None
    replace: bool = False
    processes: int = 1
    subwords: bool | None = None
    """whether the model has subword vectors; None: if the file has them, or enough words to fit
    them"""
    texts: TextSample | None = None
    """texts that tell the frequencies of words, and how senses are found"""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """manifest fields `licence`, `source` and `languages`"""


@dataclass(frozen=True)
class VectorTable:
    """The contents of a file of vectors."""

    words: list[str]
    vectors: Rows
    """[V, d]"""
    counts: NDArray[np.int64] | None = None
    """[V], occurrences of each word, if the file has them or texts are given"""
    counted_in: str = FILE_COUNTS
    subwords: Subwords | None = None
    stored: AttentionWeights | None = None
    """the weights of `ImportOptions.weights`"""
    skipped: Sequence[str] = ()
    """the unusable rows, as `line 5`, `byte 5` or, in a fastText file, `word 5`"""


@dataclass(frozen=True)
class Cost:
    """The estimated cost of an import."""

    words: int
    width: int
    disk: int
    """bytes on disk, which the service memory-maps"""
    memory: int
    """peak memory of the import, in bytes"""

    @classmethod
    def of_rows(cls, words: int, width: int, dtype: str, *, subwords: bool = False) -> "Cost":
        """Estimate the cost of a GloVe or word2vec file: one copy of its table in memory.

        After reading, the closed form takes three float64 copies of the rows that it is computed
        from; fitting subwords, three float32 copies of the fitted rows, and the solver's arrays.
        """
        disk = words * row_bytes(width, dtype)
        computing = 3 * min(words, FREQUENT) * width * 8
        if subwords and words >= MIN_WORDS:
            fitted = min(words, MAX_WORDS)
            rows = max(fitted, LEAST_ROWS)
            disk += rows * row_bytes(width, "int8")
            computing = max(computing, rows * (3 * width * 4 + _FITTED_WORD_MEMORY))
        memory = _BASE_MEMORY + words * (row_bytes(width, dtype) + _WORD_MEMORY) + computing
        return cls(words, width, disk, memory)

    @classmethod
    def of_fasttext(cls, words: int, buckets: int, width: int, dtype: str) -> "Cost":
        """Estimate the cost of a `.bin`.

        In memory are three float32 copies of the word vectors, two of the n-grams, and the tables
        to store.
        """
        disk = (words + buckets) * row_bytes(width, dtype)
        rows = (3 * words + 2 * buckets) * width * 4
        return cls(words, width, disk, _BASE_MEMORY + rows + disk + 2 * words * _WORD_MEMORY)

    def announce(self, folder: Path, progress: Progress) -> None:
        """Report the cost; raise CommandError if the disk has too little free space."""
        progress.say(
            f"{self.words:,} words of dimension {self.width}: about {_megabytes(self.memory)} of"
            f" memory to import, {_megabytes(self.disk)} on disk for its vectors,"
            " shared by all workers."
        )
        parent = next(parent for parent in folder.absolute().parents if parent.exists())
        free = shutil.disk_usage(parent).free
        if self.disk > free:
            raise CommandError(
                f"The model needs {math.ceil(self.disk / 1e6):,} MB on disk, and"
                f" {free // 10**6:,} MB are free; --limit or --dtype int8 makes it smaller."
            )


def _megabytes(count: int) -> str:
    return f"{max(round(count / 1e6), 1):,} MB"


def import_vectors(
    path: Path, folder: Path, options: ImportOptions, progress: Progress = SILENT
) -> Manifest:
    """Import a file of vectors as a model folder, and return the manifest.

    Raises CommandError or ModelFolderError if the file cannot be imported; no folder is created.
    """
    check_destination(folder, replace=options.replace)
    head = read_head(path, options.member)
    kind, version = options.format or detect_format(head), file_version(path)
    try:
        if kind == "fasttext":
            table = _read_fasttext(path, options, folder, progress)
        else:
            if kind != "word2vec-binary":
                check_columns(head)
            file = VectorFile(path, kind, options.member, options.limit)
            table = _read_rows(file, options, folder, progress)
    except CommandError as error:
        if options.format is None:
            raise
        try:
            detected = detect_format(head)
        except CommandError:
            raise error from None
        # A truncated word2vec text file is detected as binary, but has no zero byte.
        truncated = detected == "word2vec-binary" and b"\0" not in head
        if detected == options.format or truncated:
            raise
        hint = f"The file looks like {_FORMATS[detected]}: use --format {detected}."
        raise CommandError(f"{error.sentence} {hint}") from None
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if file_version(path) != version:  # words and vectors may be from different versions
        raise CommandError(CHANGED)
    if table.skipped:
        count, first = len(table.skipped), table.skipped[0]
        several = f"{count:,} unusable rows were skipped; the first is {first}."
        progress.say(f"1 unusable row was skipped: {first}." if count == 1 else several)
    source = {"format": kind, "sha256": digest, "left_out": len(table.skipped)}
    name = path.name.encode(errors="replace").decode()  # a file name may be any bytes
    options = replace(options, facts={"source": name, **options.facts})
    return write_table(table, folder, options, progress, file=source)


def write_table(
    table: VectorTable,
    folder: Path,
    options: ImportOptions,
    progress: Progress = SILENT,
    **training: Any,
) -> Manifest:
    """Write the model folder of some vectors, and return the manifest.

    `training` are members of the manifest's field. Raises CommandError or ModelFolderError.
    """
    if options.texts:
        counts = count_words(options.texts.texts, table.words)
        if not counts.any():
            raise CommandError("The texts have no word of the file; give texts of its language.")
        table = replace(table, counts=counts, counted_in=TEXT_COUNTS)
        training |= {"texts": dict(options.texts.facts)}
    stored = table.stored
    if stored and stored.lacks_word_bias:
        attention = with_word_bias(stored, len(table.words), table.counts, table.counted_in)
    elif stored:
        attention = stored
    elif not options.attention:
        attention = PARAMETER_FREE
    elif table.counts is not None:
        origin = table.counted_in
        attention = in_closed_form(table.vectors, table.counts, by_rank=False, origin=origin)
    else:
        by_rank = options.sorted
        if by_rank is None:
            by_rank = sorted_by_frequency(table.words)
            if not by_rank:
                progress.say(_UNKNOWN_ORDER if by_rank is None else _UNSORTED)
        with progress.stage("weighing", 1):
            attention = in_closed_form(table.vectors, None, by_rank=bool(by_rank))
    subwords = table.subwords
    if options.subwords is False:
        subwords = None
    elif subwords:
        subwords = subwords.restricted(table.words)
    else:
        subwords = fit_subwords(table.words, table.vectors, progress=progress)
        if subwords is None and options.subwords:
            raise CommandError(
                f"--subwords needs at least {MIN_WORDS:,} words with a nonzero vector, and the file"
                " has fewer."
            )
    with progress.stage("writing", table.vectors.nbytes):
        return write_model(
            folder,
            table.words,
            table.vectors,
            attention.layers,
            attention.word_bias,
            subwords=subwords,
            whitening=sentence_whitening(table.vectors, attention.word_bias),
            senses=_senses(len(table.words), options.texts, progress),
            replace=options.replace,
            cased=is_cased(table.words),
            training={**attention.facts, **training},
            **options.facts,
        )


def is_cased(words: Sequence[str]) -> bool:
    """Return whether words are as written, with their capitals, rather than in lower case.

    One word in a hundred has to have a capital letter, because files in lower case have a few.
    """
    return 100 * sum(word != word.lower() for word in words) >= len(words)


def tune(folder: Path, sample: TextSample, model: Model, progress: Progress = SILENT) -> Manifest:
    """Replace a model folder by one that knows the texts of a sample; return the manifest.

    The informativeness of words and the closed form, if the model has it, follow from the texts;
    trained and stored weights remain. Raises CommandError if no word of the texts is in the model.
    """
    words = [model.vocabulary.word(row) for row in range(len(model.vocabulary))]
    counts = count_words(sample.texts, words)
    if not counts.any():
        raise CommandError("The texts have no word of the model; give texts of its language.")
    facts = {**model.manifest.training, "texts": dict(sample.facts)}
    changes: dict[str, Any] = {}
    if facts.get("attention") == "closed form":
        weights = in_closed_form(model.rows, counts, by_rank=False, origin=TEXT_COUNTS)
        changes = {
            "layers": weights.layers,
            "word_bias": weights.word_bias,
            "whitening": sentence_whitening(model.rows, weights.word_bias),
        }
        facts |= weights.facts
    senses = _senses(len(words), sample, progress)
    return rewrite_model(folder, model, senses=senses, training=facts, **changes)


def check_name(name: str, hint: str = "; --name sets it") -> None:
    """Raise CommandError, with a hint, if this is not a valid name of a model."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise CommandError(
            "A model's name has at most 64 letters, digits, `.`, `_` and `-`, and starts with a"
            f" letter or digit{hint}."
        )


def check_destination(folder: Path, *, replace: bool) -> None:
    """Raise CommandError if a model's name is invalid, or taken without `replace`."""
    check_name(folder.name)
    if replace:
        return
    if (folder / MANIFEST).exists() or folder.is_file():
        raise CommandError("A model of this name already exists; --replace replaces it.")
    if folder.name in find_models([bundled_models()]):
        raise CommandError(
            "A bundled model has this name. Choose another name with --name, or use the new model"
            " in its place with --replace."
        )


def _read_rows(
    file: VectorFile, options: ImportOptions, folder: Path, progress: Progress
) -> VectorTable:
    """Read a GloVe or word2vec file in two passes."""
    size = file.path.stat().st_size
    with progress.stage("checking", size) as bar:
        dtype = _float_dtype(options.dtype)
        checked = scan(file, bar, encoding=options.encoding, dtype=dtype, skip=options.skip)
    words, width = list(checked.words), checked.dimension
    fits = options.subwords is not False
    Cost.of_rows(len(words), width, options.dtype, subwords=fits).announce(folder, progress)
    stored = stored_weights(options, len(words), width)  # invalid weights fail early
    check_word_bias(stored, options, words)
    with progress.stage("reading", size) as bar:
        vectors = load(checked, bar, options.dtype, options.processes)
    skipped = [f"{file.unit} {position}" for position in checked.skipped]
    return VectorTable(words, vectors, stored=stored, skipped=skipped)


def _read_fasttext(
    path: Path, options: ImportOptions, folder: Path, progress: Progress
) -> VectorTable:
    """Check a fastText `.bin`, then read it."""
    size = path.stat().st_size
    with progress.stage("checking", size) as bar, open_decompressed(path, options.member) as file:
        header, skipped = fasttext.check(file, bar, options.encoding, skip=options.skip)
    cost = Cost.of_fasttext(header.words, header.bucket, header.dim, options.dtype)
    cost.announce(folder, progress)
    words = header.words - len(skipped)
    stored = stored_weights(options, min(words, options.limit or words), header.dim)
    with progress.stage("reading", size) as bar:
        with fasttext.open_descriptor(path, options.member, bar) as descriptor:
            names, vectors, counts, subwords = fasttext.read(
                descriptor, header, skipped, options.encoding
            )
        bar.reach(size, header.words)
    kept = slice(options.limit)
    if subwords:
        table = convert(as_floats(subwords.table), options.dtype)
        subwords = Subwords(table, subwords.min_n, subwords.max_n)
    return VectorTable(
        names[kept],
        convert(vectors[kept], options.dtype),
        counts[kept],
        subwords=subwords,
        stored=stored,
        skipped=[f"word {number + 1}" for number in sorted(skipped)],
    )


def convert(vectors: Floats, dtype: Dtype) -> Rows:
    """Convert vectors to the dtype to store; raise CommandError if a value overflows it."""
    with np.errstate(over="ignore"):
        narrow: Floats = vectors.astype(_float_dtype(dtype), copy=False)
    if not np.isfinite(narrow).all():
        raise CommandError(f"The file has a value that is not finite as {narrow.dtype}.")
    return quantize(narrow) if dtype == "int8" else narrow


def _float_dtype(dtype: Dtype) -> str:
    """Return the dtype in which the values of a file must be finite."""
    return "float32" if dtype == "int8" else dtype


def _senses(
    words: int, sample: TextSample | None, progress: Progress
) -> Callable[[Model], ContextProjection] | None:
    """Return how the statistics of senses are computed, None for a file of very few words.

    Without texts, they have up to as many rows of the dimension as there are random sentences, so
    those of a smaller file could be larger than its vectors. The service then estimates them.
    """
    if sample:
        return partial(fit_senses, texts=sample.texts, progress=progress)
    return estimate_projection if words >= RANDOM_SENTENCES else None


def check_word_bias(
    stored: AttentionWeights | None, options: ImportOptions, words: Sequence[str]
) -> None:
    """Raise CommandError for weights that words without counts cannot have."""
    if stored and stored.lacks_word_bias and not options.texts:
        by_rank = sorted_by_frequency(words) if options.sorted is None else options.sorted
        if not by_rank:
            raise CommandError(
                "The weights have no tensor word_bias. It can only be computed if the words are"
                " sorted by frequency; --sorted declares this."
            )


def stored_weights(options: ImportOptions, words: int, width: int) -> AttentionWeights | None:
    """Return the weights of `--weights`, or None."""
    if not options.weights:
        return None
    return read_weights(options.weights, width, words, options.heads, options.convention)

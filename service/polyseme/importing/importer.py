"""Import pretrained vectors, of a file or in memory, as a model."""

import hashlib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polyseme.engine import Floats
from polyseme.engine.quantization import Rows
from polyseme.engine.subwords import MIN_WORDS, Subwords
from polyseme.errors import counted
from polyseme.importing import ImportOptions, ImportProblem
from polyseme.importing.closed_form import informativeness, sentence_whitening
from polyseme.importing.fasttext import FastTextReader
from polyseme.importing.files import VectorFile
from polyseme.importing.readers import MAX_WORD_BYTES, Reader, VectorTable, convert
from polyseme.importing.subwords import fit_subwords
from polyseme.importing.texts import TextSample, count_words
from polyseme.importing.weights import (
    FILE_COUNTS,
    PARAMETER_FREE,
    TEXT_COUNTS,
    ImportedLayers,
    in_closed_form,
    read_weights,
    relative_frequencies,
)
from polyseme.importing.word2vec import HEADER, BinaryReader, GloveReader, TextReader, as_utf8
from polyseme.importing.words import (
    find_language,
    find_tag,
    is_cased,
    sorted_by_frequency,
    strip_tags,
)
from polyseme.models.manifest import MANIFEST, MAX_WIDTH, NAME_PATTERN, Manifest
from polyseme.models.model import Model
from polyseme.models.reader import bundled_models, read_model
from polyseme.models.registry import file_version, find_models
from polyseme.models.weights import ContextProjection
from polyseme.models.writer import rewrite_model, write_model
from polyseme.senses.fit import fit_senses
from polyseme.senses.occurrences import RANDOM_SENTENCES, estimate_projection
from polyseme.terminal import SILENT, Progress

READERS: dict[str, type[Reader]] = {
    "fasttext": FastTextReader,
    "glove": GloveReader,
    "word2vec-binary": BinaryReader,
    "word2vec-text": TextReader,
}
"""The formats and their readers, of which the first that recognizes a file reads it."""
_UNSORTED = (
    "Warning: the words are not sorted by frequency, so all words are treated as equally"
    " informative, which separates senses less well; --sorted overrides this test."
)
_UNKNOWN_ORDER = (
    "Warning: there are too few words to determine whether they are sorted by frequency, so all"
    " words are treated as equally informative; --sorted declares that they are sorted."
)


def import_vectors(
    path: Path, folder: Path, options: ImportOptions, progress: Progress = SILENT
) -> Manifest:
    """Import a file of vectors as a model folder, and return the manifest.

    Raises ImportProblem or ModelFolderError if the file cannot be imported; no folder is created.
    """
    check_destination(folder, replace=options.replace)
    version, file = file_version(path), VectorFile(path, options.member)
    format_, reader = open_reader(file, options)
    try:
        with progress.stage("reading", size := path.stat().st_size) as bar:
            table = reader.read(bar)
            bar.reach(size, len(table.words))
    except ImportProblem as problem:
        detected = detect_format(file.head(), options) if options.format else None
        if detected in {None, options.format}:
            raise
        sentence = f"{problem} The file looks like the format {detected}."
        raise ImportProblem(sentence, "format") from None
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if file_version(path) != version:  # words and vectors may be from different versions
        raise ImportProblem("The file changed while it was read; import it again.")
    facts: dict[str, Any] = {"left_out": len(table.skipped)}
    if reader.dropped:
        progress.say(f"The import leaves out {reader.dropped}.")
    if skipped := table.skipped:
        first = f"{reader.unit} {skipped[0]}"
        several = f"{len(skipped):,} unusable rows were skipped; the first is {first}."
        progress.say(f"1 unusable row was skipped: {first}." if len(skipped) == 1 else several)
    if options.strip:
        before, table = len(table.words), _stripped(table, options.strip)
        facts |= {"strip": list(options.strip), "merged": before - len(table.words)}
        progress.say(
            f"--strip left out {counted(facts['merged'], 'word')} that became equal to others."
        )
    if tag := find_tag(table.words):
        progress.say(
            "Warning: nearly all words have a tag, so words of texts will not be found; --strip"
            f" {shlex.quote(tag)} removes it."
        )
    progress.say(f"{len(table.words):,} words of dimension {table.vectors.shape[1]}.")
    # A file name may be any bytes.
    source = {"source": path.name.encode(errors="replace").decode(), **options.facts}
    training = {"format": format_, "sha256": digest, **facts}
    return write_table(table, folder, replace(options, facts=source), progress, file=training)


def open_reader(file: VectorFile, options: ImportOptions) -> tuple[str, Reader]:
    """Return the format of a file, declared or detected, and its reader.

    A file of an unknown format has a reader of text, which rejects it with the reason.
    """
    head = file.head()
    format_ = options.format or detect_format(head, options)
    if format_ is None:
        even, odd = (bool(head[start:200:2].strip(b"\0")) for start in (0, 1))
        if even != odd and len(head) > 3:
            problem = "The file is UTF-16 or UTF-32 without a byte order mark."
            raise ImportProblem(problem, "encoding")
        format_ = "word2vec-text" if HEADER.match(as_utf8(head, options)) else "glove"
    return format_, READERS[format_](file, options, head)


def detect_format(head: bytes, options: ImportOptions) -> str | None:
    """Detect a format by the first bytes of a file; return None for an unknown format."""
    text = as_utf8(head, options)
    formats = (name for name, reader in READERS.items() if reader.recognizes(head, text))
    return next(formats, None)


def _stripped(table: VectorTable, patterns: Sequence[str]) -> VectorTable:
    """Remove the matches of patterns from the words; of equal ones, one remains."""
    indices = strip_tags(table.words, patterns, table.counts)
    if indices.keys() == set(table.words):
        raise ImportProblem("The pattern matches no word.", "strip")
    words = sorted(indices, key=indices.__getitem__)
    return table.keep_rows(np.array(sorted(indices.values())), words)


def model_of_vectors(
    vectors: Any,
    words: Iterable[str] | None,
    options: ImportOptions,
    name: str,
    progress: Progress = SILENT,
) -> Model:
    """Return the model that an import of the same vectors gives.

    Its arrays are mapped from files that have no name any more. Raises TypeError or ValueError for
    invalid words or vectors, ImportProblem or ModelFolderError for invalid options.
    """
    table = table_of(vectors, words, options)
    with TemporaryDirectory(prefix="polyseme-") as folder:
        path = Path(folder) / name
        write_table(table, path, options, progress)
        return read_model(path)


def table_of(vectors: Any, words: Iterable[str] | None, options: ImportOptions) -> VectorTable:
    """Return the words and vectors of an object of any supported type."""
    subwords, counts = None, None
    if words is None and hasattr(vectors, "index_to_key"):
        words, rows = vectors.index_to_key, vectors.vectors
        counts = getattr(vectors, "expandos", {}).get("count")
        if counts is not None:
            counts = np.asarray(counts, np.int64)
            # For a file without counts, gensim counts down from the number of words.
            if np.array_equal(counts, np.arange(len(counts), 0, -1)) or counts.min() < 1:
                counts = None
        if hasattr(vectors, "vectors_ngrams") and vectors.min_n <= vectors.max_n:
            ngrams = convert(_matrix(vectors.vectors_ngrams), options.dtype)
            subwords = Subwords(ngrams, max(vectors.min_n, 1), vectors.max_n)
    elif words is None and isinstance(vectors, Mapping):
        words, rows = list(vectors), list(vectors.values())
    elif words is None:
        raise TypeError(
            "vectors must be gensim's KeyedVectors, or a mapping of words to vectors; give a matrix"
            " together with words."
        )
    else:
        rows = vectors
    valid = _valid(words)[: options.limit]
    matrix = _matrix(rows)
    if options.limit is None and len(valid) != len(matrix):
        raise ValueError(f"{len(matrix)} vectors need as many words, not {len(valid)}.")
    matrix = matrix[: options.limit]
    counts = None if counts is None else counts[: options.limit]
    return VectorTable(valid, convert(matrix, options.dtype), counts, subwords=subwords)


def _valid(words: Iterable[str]) -> list[str]:
    """Return the words; raise TypeError or ValueError for those that no model can have."""
    indices: dict[str, int] = {}
    for i, word in enumerate(words):
        if not isinstance(word, str):
            raise TypeError(f"Word {i} is not a string.")
        if not word.strip() or "\n" in word or len(word) > MAX_WORD_BYTES:
            raise ValueError(f"Word {i} is empty, too long or has a line feed.")
        if word in indices:
            raise ValueError(f"Word {i} repeats word {indices[word]}.")
        indices[word] = i
    if not indices:
        raise ValueError("There are no words.")
    return list(indices)


def _matrix(rows: ArrayLike | Sequence[ArrayLike]) -> Floats:
    """Return finite vectors as float32 or float16. [V, d]"""
    try:
        matrix = np.asarray(rows)
    except ValueError:
        raise ValueError("The vectors have different lengths.") from None
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        raise ValueError("The vectors must be a two-dimensional array of numbers, [V, d].")
    if not 1 <= matrix.shape[1] <= MAX_WIDTH:
        raise ValueError(f"Vectors of 1 to {MAX_WIDTH} numbers are supported.")
    with np.errstate(over="ignore"):
        vectors: Floats = matrix.astype(np.float32, copy=False)
    if not np.isfinite(vectors).all():
        raise ValueError("A vector has a number that is not finite as float32.")
    return vectors


def write_table(
    table: VectorTable,
    folder: Path,
    options: ImportOptions,
    progress: Progress = SILENT,
    **training: Any,
) -> Manifest:
    """Write the model folder of some vectors, and return the manifest.

    `training` are members of the manifest's field. Raises ImportProblem or ModelFolderError.
    """
    counts, origin = table.counts, FILE_COUNTS
    if options.texts:
        counts, origin = count_words(options.texts.texts, table.words, progress), TEXT_COUNTS
        if not counts.any():
            raise ImportProblem("The texts have no word of the file; give texts of its language.")
        training |= {"texts": dict(options.texts.facts)}
    with progress.stage("weighing", 1):
        attention = _attention(replace(table, counts=counts), origin, options, progress)
    subwords = table.subwords
    if options.subwords is False:
        subwords = None
    elif subwords:
        subwords = subwords.restricted(table.words)
    else:
        subwords = fit_subwords(table.words, table.vectors, progress=progress)
        if subwords is None and options.subwords:
            raise ImportProblem(
                f"Subwords need at least {MIN_WORDS:,} words with a nonzero vector, and there"
                " are fewer.",
                "subwords",
            )
    facts = dict(options.facts)
    if not facts.get("languages") and (language := find_language(table.words)):
        progress.say(f"The words are of the language {language}; --language overrides this.")
        facts["languages"] = [language]
    with progress.stage("writing", table.vectors.nbytes):
        return write_model(
            folder,
            table.words,
            table.vectors,
            attention.layers,
            attention.word_bias,
            subwords=subwords,
            whitening=sentence_whitening(table.vectors, attention.word_bias),
            senses=_senses(table.vectors, options.texts, progress),
            replace=options.replace,
            cased=is_cased(table.words),
            training={**attention.facts, **training},
            **facts,
        )


def _attention(
    table: VectorTable, origin: str, options: ImportOptions, progress: Progress
) -> ImportedLayers:
    """Return stored weights, those of the closed form, or none, as the options say."""
    words, vectors, counts = table.words, table.vectors, table.counts
    attention = None if options.attention else PARAMETER_FREE
    if options.weights:
        width, size = vectors.shape[1], len(words)
        attention = read_weights(options.weights, width, size, options.heads, options.convention)
    if attention and not attention.lacks_word_bias:
        return attention
    by_rank = options.sorted
    if counts is None and by_rank is None:
        by_rank = sorted_by_frequency(words)
        if not by_rank and not attention:
            progress.say(_UNKNOWN_ORDER if by_rank is None else _UNSORTED)
    if not attention:
        return in_closed_form(vectors, counts, by_rank=bool(by_rank), origin=origin)
    if counts is None and not by_rank:
        raise ImportProblem(
            "The weights have no tensor word_bias. It can only be computed if the words are"
            " sorted by frequency.",
            "sorted",
        )
    # Weights without a word bias fit any subset of the vectors that they were trained on.
    frequencies, origin = relative_frequencies(len(words), counts, origin)
    facts = {**attention.facts, "informativeness": origin}
    return replace(attention, word_bias=informativeness(frequencies), facts=facts)


def tune(folder: Path, sample: TextSample, model: Model, progress: Progress = SILENT) -> Manifest:
    """Replace a model folder by one that knows the texts of a sample; return the manifest.

    The informativeness of words and the closed form, if the model has it, follow from the texts;
    trained and stored weights remain. Raises ImportProblem if no word of the texts is in the model.
    """
    words = [model.vocabulary.word(row) for row in range(len(model.vocabulary))]
    counts = count_words(sample.texts, words, progress)
    if not counts.any():
        raise ImportProblem("The texts have no word of the model; give texts of its language.")
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
    senses = _senses(model.rows, sample, progress)
    return rewrite_model(folder, model, senses=senses, training=facts, **changes)


def check_name(name: str, hint: str = "") -> None:
    """Raise ImportProblem, with a hint, if this is not a valid name of a model."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise ImportProblem(
            "A model's name has at most 64 letters, digits, `.`, `_` and `-`, and starts with a"
            f" letter or digit{hint}.",
            "name",
        )


def check_destination(folder: Path, *, replace: bool) -> None:
    """Raise ImportProblem if a model's name is invalid, or taken without `replace`."""
    check_name(folder.name)
    if replace:
        return
    if (folder / MANIFEST).exists() or folder.is_file():
        raise ImportProblem("A model of this name already exists.", "replace", "name")
    if folder.name in find_models([bundled_models()]):
        raise ImportProblem("A bundled model has this name.", "replace", "name")


def _senses(
    vectors: Rows, sample: TextSample | None, progress: Progress
) -> Callable[[Model], ContextProjection] | None:
    """Return how the statistics of senses are computed, None for a file of very few words.

    Without texts, they have up to as many rows of the dimension as there are random sentences, so
    those of a smaller file could be larger than its vectors. The service then estimates them.
    """
    if not sample and len(vectors) < RANDOM_SENTENCES:
        return None

    def compute(model: Model) -> ContextProjection:
        # Not with the rows of the new file: its mapped pages would be in memory a second time.
        in_memory = replace(model, rows=vectors)
        if sample:
            return fit_senses(in_memory, sample.texts, progress=progress)
        return estimate_projection(in_memory)

    return compute

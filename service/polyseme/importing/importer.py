"""Import a file of pretrained vectors as a model folder."""

import hashlib
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.engine.quantization import Rows
from polyseme.engine.subwords import MIN_WORDS, Subwords
from polyseme.errors import counted
from polyseme.importing.closed_form import sentence_whitening
from polyseme.importing.files import VectorFile
from polyseme.importing.options import ImportOptions, ImportProblem
from polyseme.importing.readers import detect_format, open_reader
from polyseme.importing.readers.base import CHANGED, Reader, Scan
from polyseme.importing.subwords import fit_subwords
from polyseme.importing.texts import TextSample, count_words
from polyseme.importing.weights import (
    FILE_COUNTS,
    PARAMETER_FREE,
    TEXT_COUNTS,
    ImportedLayers,
    in_closed_form,
    read_weights,
    sorted_by_frequency,
    with_word_bias,
)
from polyseme.importing.words import find_language, find_tag, strip_tags
from polyseme.models.manifest import MANIFEST, NAME_PATTERN, Manifest
from polyseme.models.model import Model
from polyseme.models.reader import bundled_models
from polyseme.models.registry import file_version, find_models
from polyseme.models.weights import ContextProjection
from polyseme.models.writer import rewrite_model, write_model
from polyseme.progress import SILENT, Progress
from polyseme.senses.fit import fit_senses
from polyseme.senses.occurrences import RANDOM_SENTENCES, estimate_projection

_UNSORTED = (
    "Warning: the words are not sorted by frequency, so all words are treated as equally"
    " informative, which separates senses less well; --sorted overrides this test."
)
_UNKNOWN_ORDER = (
    "Warning: there are too few words to determine whether they are sorted by frequency, so all"
    " words are treated as equally informative; --sorted declares that they are sorted."
)


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
    stored: ImportedLayers | None = None
    """the weights of `ImportOptions.weights`"""


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
        table, facts = _read(reader, path.stat().st_size, options, progress)
    except ImportProblem as problem:
        detected = detect_format(file.head(), options) if options.format else None
        if detected in {None, options.format}:
            raise
        sentence = f"{problem} The file looks like the format {detected}."
        raise ImportProblem(sentence, "format") from None
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if file_version(path) != version:  # words and vectors may be from different versions
        raise ImportProblem(CHANGED)
    # A file name may be any bytes.
    source = {"source": path.name.encode(errors="replace").decode(), **options.facts}
    training = {"format": format_, "sha256": digest, **facts}
    return write_table(table, folder, replace(options, facts=source), progress, file=training)


def _read(
    reader: Reader, size: int, options: ImportOptions, progress: Progress
) -> tuple[VectorTable, dict[str, Any]]:
    """Check a file and read it; return the vectors and facts for the manifest."""
    with progress.stage("checking", size) as bar:
        scan = reader.scan(bar)
    facts: dict[str, Any] = {"left_out": len(scan.skipped)}
    if reader.dropped:
        progress.say(f"The import leaves out {reader.dropped}.")
    if skipped := scan.skipped:
        first = f"{reader.unit} {skipped[0]}"
        several = f"{len(skipped):,} unusable rows were skipped; the first is {first}."
        progress.say(f"1 unusable row was skipped: {first}." if len(skipped) == 1 else several)
    if options.strip:
        facts |= {"strip": list(options.strip), "merged": _strip(scan, options.strip)}
        progress.say(
            f"--strip left out {counted(facts['merged'], 'word')} that became equal to others."
        )
    if tag := find_tag(scan.words):
        progress.say(
            "Warning: nearly all words have a tag, so words of texts will not be found; --strip"
            f" {shlex.quote(tag)} removes it."
        )
    progress.say(f"{len(scan.words):,} words of dimension {scan.dimension}.")
    stored = stored_weights(
        options, scan.words, scan.dimension, scan.counts
    )  # invalid ones fail early
    with progress.stage("reading", size) as bar:
        vectors, subwords = reader.rows(scan, bar)
        bar.reach(size, len(scan.words))
    table = VectorTable(scan.words, vectors, scan.counts, subwords=subwords, stored=stored)
    return table, facts


def _strip(scan: Scan, patterns: Sequence[str]) -> int:
    """Remove the matches of patterns from the words; return how many words became equal to one."""
    before, indices = len(scan.words), strip_tags(scan.words, patterns, scan.counts)
    if indices.keys() == set(scan.words):
        raise ImportProblem("The pattern matches no word.", "strip")
    words = sorted(indices, key=indices.__getitem__)
    scan.keep(np.array(sorted(indices.values())), words)
    return before - len(words)


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
    if options.texts:
        counts = count_words(options.texts.texts, table.words, progress)
        if not counts.any():
            raise ImportProblem("The texts have no word of the file; give texts of its language.")
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
            raise ImportProblem(
                f"Subwords need at least {MIN_WORDS:,} words with a nonzero vector, and the file"
                " has fewer.",
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


def is_cased(words: Sequence[str]) -> bool:
    """Return whether words are as written, with their capitals, rather than in lower case.

    One word in a hundred has to have a capital letter, because files in lower case have a few.
    """
    return 100 * sum(word != word.lower() for word in words) >= len(words)


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


def stored_weights(
    options: ImportOptions, words: Sequence[str], width: int, counts: NDArray[np.int64] | None
) -> ImportedLayers | None:
    """Return the weights of `--weights`, or None.

    Raises ImportProblem for weights that words without counts cannot have.
    """
    if not options.weights:
        return None
    stored = read_weights(options.weights, width, len(words), options.heads, options.convention)
    if stored.lacks_word_bias and counts is None and not options.texts:
        by_rank = sorted_by_frequency(words) if options.sorted is None else options.sorted
        if not by_rank:
            raise ImportProblem(
                "The weights have no tensor word_bias. It can only be computed if the words are"
                " sorted by frequency.",
                "sorted",
            )
    return stored

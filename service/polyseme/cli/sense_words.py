"""The senses of many words, found in one pass over files: a folder of inventories, and a table."""

import csv
import io
from collections.abc import Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import regex

from polyseme.atomic_files import atomic_write
from polyseme.cli.sense_files import (
    cell,
    find_word,
    open_inventory,
    part_around,
    word_pattern,
)
from polyseme.client.local import SINGLE_THREAD
from polyseme.errors import CommandError, InvalidError, counted
from polyseme.importing.texts import StratifiedSample
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.processes import run_in_processes
from polyseme.progress import Progress
from polyseme.senses.find import SensesRequest, find_senses, require_inventory
from polyseme.senses.inventory import SenseInventory
from polyseme.sentences import split_sentences
from polyseme.spellings import fold, without_greek_accents
from polyseme.tokenizer import Text, joined
from polyseme.words import is_unspaced

SENTENCES, MAX_KEPT = 300, 1_500_000
"""The maximum number of sentences of a word to cluster, and of all words, which are in memory."""
MIN_SENTENCES = 30
TABLE = "words.csv"
_MAX_NAME = 200
"""Maximum bytes of a file's name; longer words have the name of their checksum."""
_RUN = regex.compile(r"\w+")
_COLUMNS = ("word", "senses", "occurrences", "several", "separation", "sizes", "labels", "keywords")


def read_words(path: Path) -> list[str]:
    """Return the words of a file, one on each line. Raises CommandError if it has none."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise CommandError(f"{path.name} is not a text file in UTF-8.") from None
    words = dict.fromkeys(filter(None, map(str.strip, lines)))
    if not words:
        raise CommandError(f"{path.name} has no words: write one word on each line.")
    return [*words]


def find_many(
    words: Sequence[str],
    files: Sequence[Path],
    column: str,
    model: Model,
    source: Path,
    folder: Path,
    workers: int,
) -> tuple[int, list[str]]:
    """Write an inventory for each word that occurs in the files, and a table of all of them.

    `source` is the model's folder. Inventories that are there already are kept, so that a run that
    was interrupted goes on. Returns the number of inventories, and the words without one. Raises
    CommandError if the folder has inventories of another model.
    """
    paths = {word: folder / _file_name(word) for word in words}
    folder.mkdir(parents=True, exist_ok=True)
    missing = [word for word, path in paths.items() if not path.is_file()]
    if n_existing := len(paths) - len(missing):
        Progress().say(
            f"{folder} has the inventories of {counted(n_existing, 'word')} already. They are"
            " kept whatever the files are: use an empty folder for other files."
        )
    if missing:
        samples = sample_words(missing, files, column, model.manifest.languages)
        with Progress().stage("finding senses", len(samples), in_bytes=False) as bar:

            def save(item: tuple[str, list[Text]], content: bytes | None) -> None:
                if content is not None:
                    atomic_write(paths[item[0]], content)
                bar.advance(1)

            try:
                run_in_processes(partial(_find, source), samples.items(), save, workers=workers)
            except BrokenProcessPool:
                raise CommandError(
                    "A worker was killed, perhaps for lack of memory: use fewer --workers. The"
                    " inventories so far are kept."
                ) from None
    inventories = {}
    for word, path in paths.items():
        if path.is_file():
            inventories[word] = open_inventory(path)
            if inventories[word].checksum != model.manifest.checksum:
                raise CommandError(
                    f"{path.name} is of another model: use another folder, or remove the file."
                )
    atomic_write(folder / TABLE, _table(inventories))
    return len(inventories), [word for word in words if word not in inventories]


def sample_words(
    words: Sequence[str], files: Sequence[Path], column: str, languages: Sequence[str] = ()
) -> dict[str, list[Text]]:
    """Return a sample of the sentences with each word, in any case; none of those without any."""
    from polyseme.bulk.read import find_files, read_texts

    size = max(min(SENTENCES, MAX_KEPT // len(words)), MIN_SENTENCES)
    # A word is looked for in the sentences that have its first run of word characters.
    by_run: dict[str, list[str]] = {}
    for word in words:
        run = None if is_unspaced(word) else _RUN.search(without_greek_accents(fold(word)))
        by_run.setdefault(run[0] if run else "", []).append(word)
    pattern = cache(lambda word: word_pattern((word,)))
    samples: dict[str, StratifiedSample] = {}
    inputs = [file for path in files for file in find_files(path)]
    for _, _, text in read_texts(inputs, column, Progress(), "reading"):
        for _, sentence in split_sentences(text, *languages[:1]):
            shown = joined(sentence)
            runs = {"", *_RUN.findall(without_greek_accents(fold(shown)))}
            for word in chain.from_iterable(by_run[run] for run in by_run.keys() & runs):
                if place := find_word(shown, pattern(word)):
                    part, _ = part_around(sentence, place[0])
                    samples.setdefault(word, StratifiedSample(size)).add(place[1], part)
    return {word: samples[word].texts() for word in words if word in samples}


_read_model = cache(read_model)


def _find(source: Path, item: tuple[str, list[Text]]) -> bytes | None:
    """Return the inventory of a word in texts as a document; None if the word is no token there."""
    word, texts = item
    request = SensesRequest.of(word=word, texts=texts, neighbors=0, examples=0, inventory=True)
    try:
        with SINGLE_THREAD:
            return require_inventory(find_senses(_read_model(source), request)).to_json()
    except InvalidError:
        return None


def _file_name(word: str) -> str:
    name = quote(word, safe=" ")
    return f"{name if len(name) <= _MAX_NAME else sha256(word.encode()).hexdigest()}.senses"


def _table(inventories: Mapping[str, SenseInventory]) -> bytes:
    """Return a CSV file with a row for each word."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for word, inventory in inventories.items():
        senses = inventory.senses
        sizes = [sense.size for sense in senses]
        keywords = (" ".join(keyword.word for keyword in sense.keywords) for sense in senses)
        row = (
            word,
            len(senses),
            sum(sizes),
            inventory.several,
            inventory.separation,
            " | ".join(map(str, sizes)),
            " | ".join(sense.label for sense in senses),
            " | ".join(keywords),
        )
        writer.writerow(map(cell, row))
    return text.getvalue().encode()

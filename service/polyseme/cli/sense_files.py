"""Senses in files: sentences with a word, tables of occurrences, and inventories of many words."""

import csv
import io
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from functools import cache, partial
from hashlib import sha256
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson
import regex

from polyseme.atomic_files import atomic_files, atomic_write
from polyseme.errors import CommandError, InvalidError, counted
from polyseme.importing.texts import StratifiedSample
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.operations.compare import WordForms
from polyseme.processes import run_in_processes
from polyseme.senses.find import SensesRequest, find_senses, require_inventory
from polyseme.senses.inventory import (
    MAX_FORMS,
    ApplySensesRequest,
    SenseInventory,
    apply_senses,
    load_inventory,
)
from polyseme.sentences import split_sentences
from polyseme.single_thread import SINGLE_THREAD
from polyseme.spellings import fold, without_greek_accents
from polyseme.terminal import Progress
from polyseme.tokenizer import Text, as_string, hashable, resolve
from polyseme.words import is_unspaced

MAX_CHARACTERS = 2000
"""Maximum characters of a sentence to keep: of a longer one, those around the first occurrence."""
TABLES = (".parquet", ".csv", ".jsonl")
_FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
BEGINNING = regex.compile(r"\w{2,}\*")
"""A form that stands for all words with this beginning."""
_NEIGHBORS, _MIN_COSINE, _MAX_FURTHER = 300, 0.3, 3
"""The number of neighbors of a word that may be its forms, their smallest cosine, and how many more
letters they may have."""
_AT_ONCE = 1024
"""Sentences whose occurrences are assigned together."""
SENTENCES, MAX_KEPT = 300, 1_500_000
"""The maximum number of sentences of a word to cluster, and of all words, which are in memory."""
MIN_SENTENCES = 30
TABLE = "words.csv"
_MAX_NAME = 200
"""Maximum bytes of a file's name; longer words have the name of their checksum."""
_RUN = regex.compile(r"\w+")
_COLUMNS = ("word", "senses", "occurrences", "several", "separation", "sizes", "labels", "keywords")


def open_inventory(path: Path) -> SenseInventory:
    """Read an inventory. Raises CommandError if the file has none."""
    try:
        return load_inventory(path)
    except InvalidError as error:
        raise CommandError(f"{path.name}: {error}") from None


class Sentence(NamedTuple):
    """A sentence with the word, and where it is: at `text_start` in the text of a row.

    `text_start` is in code points, and the index of the first word in a list of words.
    """

    file: str
    row: int
    text: Text
    text_start: int


class SentenceSource:
    """The sentences with a word or one of its forms, read from files."""

    def __init__(
        self, paths: Sequence[Path], column: str, word: WordForms, languages: Sequence[str] = ()
    ) -> None:
        from polyseme.bulk.read import find_files

        self.files = [file for path in paths for file in find_files(path)]
        self.column, self.word, self.languages = column, word, languages[:1]
        self.pattern = word_pattern(word.forms, exact=word.exact)

    def sentences(
        self, stage: str, others: StratifiedSample | None = None
    ) -> Iterator[tuple[Sentence, str]]:
        """Yield the sentences of all files, and the form of the word that is in each.

        The beginnings of texts without the word are added to `others`.
        """
        from polyseme.bulk.read import read_texts

        texts = read_texts(self.files, self.column, Progress(), stage)
        for name, row, text in texts:
            if not self.pattern.search(fold(as_string(text), exact=self.word.exact)):
                if others:
                    others.add("", text[:MAX_CHARACTERS])
                continue
            for start, sentence in split_sentences(text, *self.languages):
                if place := find_word(sentence, self.pattern, exact=self.word.exact):
                    form, part, offset = place
                    yield Sentence(name, row, part, start + offset), form


def word_pattern(forms: Sequence[str], *, exact: bool = False) -> regex.Pattern[str]:
    """Return the pattern of a word or its forms, for a text after `fold`.

    It matches between characters that belong to no word. A form that ends in `*` is the beginning
    of a word. In scripts without spaces between words, other letters may be beside it.
    """
    spelled = []
    for form in sorted(WordForms(forms, exact).folded):
        words = form.split()
        first, last = words[0][:1] if words else "", words[-1][-1:] if words else ""
        before = "" if is_unspaced(first) else r"(?<!\w)"
        after = "" if is_unspaced(last) else r"(?!\w)"
        if BEGINNING.fullmatch(form):
            words, after = [form[:-1]], r"\w*"
        spelled.append(before + r"\s+".join(map(regex.escape, words)) + after)
    return regex.compile("|".join(spelled))


def find_word(
    sentence: Text, pattern: regex.Pattern[str], *, exact: bool = False
) -> tuple[str, Text, int] | None:
    """Return the first word of a sentence that a `word_pattern` matches, or None without one.

    The word comes with the sentence, or of a long one the part around the word, and the offset of
    the part, as `Sentence.text_start`.
    """
    text = as_string(sentence)
    match = pattern.search(shown := fold(text, exact=exact))
    if not match:
        return None
    start, end = match.span()
    if len(shown) != len(text):
        places, size = range(len(text)), lambda n: len(fold(text[:n], exact=exact))
        start = bisect_right(places, start, key=size) - 1
        end = bisect_left(places, end, key=size)
    if isinstance(sentence, str):
        first = max(min(start - MAX_CHARACTERS // 2, len(sentence) - MAX_CHARACTERS), 0)
        part = sentence[first : first + MAX_CHARACTERS].rstrip()
        return text[start:end], part.lstrip(), first + len(part) - len(part.lstrip())
    starts = [0, *accumulate(len(word) + 1 for word in sentence)]
    half, index = MAX_CHARACTERS // 2, bisect_right(starts, start) - 1
    # Words may be empty.
    first = max(bisect_left(starts, start - half), index - half // 2)
    last = min(bisect_right(starts, start + half) - 1, index + half // 2)
    return text[start:end], sentence[first:last], first


def matching_forms(
    model: Model, texts: Iterable[Text], pattern: regex.Pattern[str], *, exact: bool
) -> list[tuple[str, int]]:
    """Return the most frequent tokens of texts that a `word_pattern` matches, with their counts."""
    tokens = chain.from_iterable(map(model.tokenizer.look_up, texts))
    words = [one.text for one in tokens if pattern.fullmatch(fold(one.text, exact=exact))]
    return Counter(words if exact else map(str.lower, words)).most_common(MAX_FORMS)


def similar_forms(model: Model, word: str, *, exact: bool) -> list[tuple[str, float]]:
    """Return words that are similar to a word in spelling and in vector, with the cosines.

    They begin with three fifths of its letters, and have at most _MAX_FURTHER letters more. They
    are in lower case, or as they are written if `exact`.
    """
    vector = model.static([resolve(word, model.vocabulary)])[0]
    folded = without_greek_accents(fold(word))
    beginning, length = folded[: -(-3 * len(folded) // 5)], len(folded) + _MAX_FURTHER
    forms: dict[str, float] = {}
    for other, cosine in model.neighbors(vector, _NEIGHBORS, []) if vector.any() else ():
        spelled = without_greek_accents(fold(other))
        alike = spelled.startswith(beginning) and len(spelled) <= length
        if alike and spelled != folded and cosine >= _MIN_COSINE:
            forms.setdefault(other if exact else other.lower(), round(cosine, 2))
    return [*forms.items()]


def forms_of_lemma(
    paths: Sequence[Path], column: str, lemmas: str, lemma: str, *, exact: bool
) -> list[tuple[str, int]]:
    """Return the most frequent words of lists that have a lemma, with their counts.

    They are in lower case, or as they are written if `exact`. `lemmas` is a column with the lemma
    of each word. Raises CommandError for a row of which it has more or fewer.
    """
    from polyseme.bulk.read import find_files, read

    counts = Counter[str]()
    files = [file for path in paths for file in find_files(path)]
    with Progress().stage("lemmas", sum(file.bytes for file in files)) as bar:
        for file in files:
            for rows in read(file, column, [lemmas]):
                pairs = zip(rows.texts.to_pylist(), rows.columns[0].to_pylist(), strict=True)
                for row, (words, value) in enumerate(pairs, rows.first):
                    if words is None:
                        continue
                    of_words = value
                    with suppress(orjson.JSONDecodeError):
                        # A list in .jsonl is read as JSON.
                        of_words = orjson.loads(value) if isinstance(value, str) else value
                    if not isinstance(of_words, list) or len(of_words) != len(words):
                        raise CommandError(
                            f"{rows.file}: row {row} has no lemma for each word: {lemmas} must have"
                            " a list as long as that of the words."
                        )
                    named = zip(words, map(str, of_words), strict=True)
                    same = (word for word, of in named if fold(of) == fold(lemma))
                    counts.update(same if exact else map(str.lower, same))
                bar.advance(int(rows.bytes))
    return counts.most_common(MAX_FORMS)


def tag_sentences(
    source: SentenceSource,
    model: Model,
    inventory: SenseInventory,
    clustered: Mapping[tuple[Text, int | None], tuple[int, float]] = {},
) -> Iterator[list[dict[str, Any]]]:
    """Yield rows of a table, those of many sentences at a time: an occurrence of the word each.

    A row has the fields of `Sentence` and of `AppliedOccurrence`, whose `start`, `end` and `index`
    are those in the text of the row. Occurrences in `clustered`, by sentence and offset in it, have
    those senses and confidences; others get the nearest sense.
    """
    labels = [sense.label for sense in inventory.senses]
    remaining = source.sentences("assigning")
    while sentences := [sentence for sentence, _ in islice(remaining, _AT_ONCE)]:
        texts = [sentence.text for sentence in sentences]
        request = ApplySensesRequest.of(inventory=inventory, texts=texts)
        rows = []
        for one in apply_senses(model, request).occurrences:
            sentence = sentences[one.text]
            nearest = (one.sense, one.confidence)
            sense, confidence = clustered.get((hashable(sentence.text), one.offset), nearest)
            own = {"sense": sense, "label": labels[sense], "confidence": confidence}
            before = sentence.text_start
            offsets = {name: getattr(one, name) for name in ("start", "end", "index")}
            span = {n: None if at is None else before + at for n, at in offsets.items()}
            if one.index is not None:
                span |= {"text": as_string(sentence.text), "text_start": None}
            rows.append({**vars(one), **sentence._asdict(), **own, **span})
        yield rows


def cell(value: Any) -> Any:
    """Return a value of a .csv; strings that a spreadsheet would compute begin with an apostrophe.

    Source: OWASP, CSV Injection.
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


def write_occurrences(path: Path, batches: Iterable[list[dict[str, Any]]]) -> None:
    """Write a table, whose format is that of the name."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet as pq

    schema = pa.schema(
        [
            *(("file", pa.string()), ("row", pa.int64()), ("text", pa.string())),
            *((name, pa.int32()) for name in ("text_start", "start", "end", "index", "sense")),
            *(("label", pa.string()), ("confidence", pa.float32()), ("unsure", pa.bool_())),
        ]
    )
    with atomic_files(path) as (file,), ExitStack() as stack:
        if path.suffix.lower() == ".jsonl":

            def write(batch: Any) -> None:
                file.writelines(orjson.dumps(row) + b"\n" for row in batch.to_pylist())

        elif path.suffix.lower() == ".csv":
            write = stack.enter_context(arrow_csv.CSVWriter(file, schema)).write_batch
            batches = ([{n: cell(v) for n, v in row.items()} for row in rows] for rows in batches)
        else:
            writer = pq.ParquetWriter(file, schema, compression="zstd")
            write = stack.enter_context(writer).write_batch
        for rows in batches:
            write(pa.RecordBatch.from_pylist(rows, schema))


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
            runs = {"", *_RUN.findall(without_greek_accents(fold(as_string(sentence))))}
            for word in chain.from_iterable(by_run[run] for run in by_run.keys() & runs):
                if place := find_word(sentence, pattern(word)):
                    form, part, _ = place
                    samples.setdefault(word, StratifiedSample(size)).add(form, part)
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
        labels = [sense.label for sense in senses]
        keywords = [" ".join(keyword.word for keyword in sense.keywords) for sense in senses]
        lists = (" | ".join(map(str, values)) for values in (sizes, labels, keywords))
        row = (word, len(senses), sum(sizes), inventory.several, inventory.separation, *lists)
        writer.writerow(map(cell, row))
    return text.getvalue().encode()

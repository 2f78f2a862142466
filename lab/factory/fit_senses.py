"""Fit what `/v1/senses` knows of a model: the projection, and the rule for one sense or several.

Words of Wikipedia are hidden in 60 sentences each. The projection is the linear discriminant that
tells the words apart: directions in which the surroundings of every word vary count less,
directions in which words differ count more. The rule is a logistic regression that tells words from
pairs of similar words, and tagged nouns with one sense from those whose senses the clusters find.
None of the words is in the file of pseudo-words, or a word of CoarseWSD-20.

With --imports, the script fits DEFAULT_RULE of `operations/clustering.py`, the rule of imports,
to the closed form of the same vectors and to default imports of the files in a folder. Evidence for
several senses is weaker there, and users who ask for the senses of a word expect several, so the
threshold is such that FOUND of the pairs and of the nouns with several senses are found.

python lab/factory/fit_senses.py --corpus enwiki.txt.zst --pseudowords pseudowords.jsonl.xz \
    --tags google_wsd.tar.xz [--imports FOLDER]
"""

import io
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias
from zlib import crc32

import click
import numpy as np
import zstandard
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, roc_auc_score

from polyseme.engine.arrays import Flags, Floats, unit
from polyseme.importing.importer import ImportOptions, import_vectors
from polyseme.importing.senses import fit_discriminant, similar_pairs
from polyseme.importing.weights import in_closed_form
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.models.weights import ContextProjection
from polyseme.models.writer import rewrite_model
from polyseme.operations.clustering import divide
from polyseme.operations.occurrences import estimate_projection, project, surround
from polyseme.tokenizer import resolve_all
from polyseme.tokenizer import words as word_spans
from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.downstream import HIDDEN_WORD, PseudoWord, read_pseudowords
from polyseme_lab.evaluation.results import TWENTY
from polyseme_lab.training.corpus import read_tagged, word_of_lemma

WORDS, SENTENCES = 4000, 60
RANKS = (800, 11_600)
"""Frequency ranks of the words, as in the file of pseudo-words."""
TAGGED, MAX_TAGGED = 40, 300
"""Smallest number of occurrences of a tagged noun; a random sample if there are more than this."""
ONE_SENSE, FOUND_SENSES = 0.95, 0.2
"""A noun has one sense if so many of its occurrences have the same tag, and several if the clusters
have at least this adjusted Rand index with the tags. Others are not used: dictionary senses are
finer than contexts show."""
FOUND = 0.8
"""The share of the examples with several senses in which DEFAULT_RULE finds them."""
PAIRS = 300
"""The number of pairs of words to which DEFAULT_RULE is fitted."""
LONGEST = 100
WIKI_EN = Path(__file__).parents[2] / "models" / "wiki-en"
_SENTENCE_END = re.compile(r'(?<=[.!?]) +(?=[A-Z"])')


_path = click.Path(path_type=Path, exists=True)


@click.command()
@click.option("--corpus", type=_path, required=True, help="Paragraphs, a line each, .zst.")
@click.option("--pseudowords", type=_path, required=True, help="Words to leave out.")
@click.option("--tags", type=_path, required=True, help="Sense tags (SemCor, MASC).")
@click.option("--model", "folder", type=_path, default=WIKI_EN)
@click.option("--imports", type=_path, help="Folder of *.gz files of vectors.")
def main(corpus: Path, pseudowords: Path, tags: Path, folder: Path, imports: Path | None) -> None:
    """Write the projection and the rule of a model, or print the rule of imports."""
    model = read_model(folder)
    contexts = collect(corpus, choose_words(model, read_pseudowords(pseudowords)))
    tagged = tagged_nouns(tags)
    click.echo(f"{len(contexts)} words, {len(tagged)} tagged nouns")
    names = sorted(contexts)
    halves = names[::2], names[1::2]
    ranks = {word: model.vocabulary.row(word) or 0 for word in names}
    pairs = [
        pair
        for half in halves
        for pair in similar_pairs(model, sorted(half, key=lambda word: crc32(word.encode())), ranks)
    ]
    if imports:
        fit_default_rule(import_models(model, imports), contexts, pairs[:PAIRS], tagged)
        return
    hidden = {word: surroundings(model, rows, hide=True) for word, rows in contexts.items()}
    points: dict[str, Floats] = {}
    for known, other in (halves, halves[::-1]):
        projection = fit_discriminant([hidden[word] for word in known])
        points |= {word: project(hidden[word], projection) for word in other}
    projection = fit_discriminant(list(hidden.values()))
    examples = tagged_examples(
        (project(surroundings(model, some), projection), senses) for some, senses in tagged
    )
    rule = fit_rule(
        [Part("words and pairs", pair_examples(points, pairs)), Part("nouns", examples)]
    )
    mean, directions = (one.astype(np.float16) for one in projection[:2])
    fitted = ContextProjection(mean, directions, rule)
    licence = (folder / "LICENSE").read_bytes()
    rewrite_model(folder.absolute(), model, senses=lambda _: fitted)
    (folder / "LICENSE").write_bytes(licence)


def import_models(model: Model, folder: Path) -> Iterator[Model]:
    """Yield the closed form of a model's vectors, and the default import of each `*.gz` file."""
    yield with_closed_form(model)
    with tempfile.TemporaryDirectory() as models:
        for file in sorted(folder.glob("*.gz")):
            target = Path(models) / file.name.removesuffix(".gz")
            import_vectors(file, target, ImportOptions())
            yield read_model(target)


def fit_default_rule(
    models: Iterable[Model],
    contexts: Mapping[str, Sequence[TokenizedOccurrence]],
    pairs: Sequence[tuple[str, str]],
    tagged: Sequence[tuple[list[TokenizedOccurrence], list[str]]],
) -> None:
    """Print the rule that is fitted to the examples of all models."""
    parts = []
    for model in models:
        projection = estimate_projection(model)
        points = {
            word: project(surroundings(model, contexts[word], hide=True), projection)
            for word in dict.fromkeys(chain.from_iterable(pairs))
        }
        nouns = ((project(surroundings(model, some), projection), tags) for some, tags in tagged)
        name = model.manifest.name
        parts.append(Part(f"{name}: words and pairs", pair_examples(points, pairs)))
        parts.append(Part(f"{name}: nouns", tagged_examples(nouns)))
        click.echo(f"{name}: {len(projection.directions.T)} directions")
    fit_rule(parts, found=FOUND)


def with_closed_form(model: Model) -> Model:
    """Return a model of the same vectors, with the weights that an import computes."""
    weights = in_closed_form(model.rows, None, by_rank=True)
    manifest = model.manifest.model_copy(update={"files": {}})
    word_bias = weights.word_bias
    return replace(
        model, manifest=manifest, layers=weights.layers, word_bias=word_bias, senses=None
    )


def choose_words(model: Model, held_out: Sequence[PseudoWord]) -> set[str]:
    """Choose at most WORDS words of letters a to z, those with the smallest checksums."""
    lacking = {word.casefold() for one in held_out for word in one.words}
    lacking |= {form for word in TWENTY for form in (word, f"{word}s")}
    words = (model.vocabulary.word(row) for row in range(*RANKS))
    found = [word for word in words if re.fullmatch("[a-z]{3,}", word) and word not in lacking]
    return set(sorted(found, key=lambda word: crc32(word.encode()))[:WORDS])


def collect(corpus: Path, chosen: set[str]) -> dict[str, list[TokenizedOccurrence]]:
    """Return the first SENTENCES sentences with each word, one per paragraph; omit rarer words."""
    found: dict[str, list[TokenizedOccurrence]] = {word: [] for word in chosen}
    lacking = set(chosen)
    with corpus.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as raw:
        for line in io.TextIOWrapper(raw, "utf-8"):
            for word in sorted(lacking.intersection(line.split())):
                for sentence in _SENTENCE_END.split(line):
                    if word not in sentence:
                        continue
                    tokens = tuple(sentence[start:end] for start, end in word_spans(sentence))
                    if word in tokens and 5 <= len(tokens) <= LONGEST:
                        found[word].append(TokenizedOccurrence(tokens, tokens.index(word)))
                        break
                if len(found[word]) == SENTENCES:
                    lacking.remove(word)
            if not lacking:
                break
    return {word: found[word] for word in sorted(found) if len(found[word]) == SENTENCES}


def tagged_nouns(path: Path) -> list[tuple[list[TokenizedOccurrence], list[str]]]:
    """Return the occurrences of each noun with enough tags, and their senses."""
    found: dict[str, list[tuple[TokenizedOccurrence, str]]] = {}
    for sentence in read_tagged(path):
        if 5 <= len(sentence.tokens) <= LONGEST:
            for tag in sentence.tags:
                if tag.lemma.endswith("/noun") and word_of_lemma(tag.lemma) not in TWENTY:
                    one = TokenizedOccurrence(tuple(sentence.tokens), tag.token)
                    found.setdefault(tag.lemma, []).append((one, tag.sense))
    rng = np.random.default_rng(0)
    nouns = []
    for _, every in sorted(found.items()):
        if len(every) >= TAGGED:
            drawn = rng.choice(len(every), min(len(every), MAX_TAGGED), replace=False)
            some = [every[number] for number in np.sort(drawn)]
            nouns.append(([one for one, _ in some], [sense for _, sense in some]))
    return nouns


def surroundings(
    model: Model, occurrences: Sequence[TokenizedOccurrence], *, hide: bool = False
) -> Floats:
    """Return the surroundings of the occurrences, with the word itself hidden or not. -> [m, 3d]"""
    rows = []
    for words, place in occurrences:
        shown = [*words[:place], HIDDEN_WORD, *words[place + 1 :]] if hide else words
        tokens = resolve_all(shown, model.vocabulary, composes=model.composes)
        rows.append(surround(model, [tokens], [[place]]))
    return unit(np.concatenate(rows).astype(np.float64))


Example: TypeAlias = tuple[Floats, bool]
"""The points of a word, and whether it has several senses. [m, r]"""


def pair_examples(points: Mapping[str, Floats], pairs: Sequence[tuple[str, str]]) -> list[Example]:
    """Return the occurrences of each word (False), and half of those of both in a pair (True)."""
    examples = []
    for pair in pairs:
        words = [points[word] for word in pair]
        both = np.concatenate([one[::2] for one in words])
        examples += [*((one, False) for one in words), (both, True)]
    return examples


def tagged_examples(nouns: Iterable[tuple[Floats, Sequence[str]]]) -> list[Example]:
    """Return the nouns with one sense (False), and those whose senses the clusters find (True)."""
    examples = []
    for points, senses in nouns:
        most = max(Counter(senses).values()) / len(senses)
        if most >= ONE_SENSE:
            examples.append((points, False))
        elif adjusted_rand_score(senses, divide(points).labels) > FOUND_SENSES:
            examples.append((points, True))
    return examples


class Part(NamedTuple):
    """Examples of one kind; the words with one sense, and those with several, weigh the same."""

    name: str
    examples: list[Example]


def fit_rule(parts: Sequence[Part], found: float | None = None) -> Floats:
    """Fit the rule, and print it with its areas under the curve on examples left out. -> [3]

    All parts have the same weight. If `found` is given, the threshold is the mean over the parts of
    the one at which this share of the examples with several senses is found.
    """
    examples = [example for part in parts for example in part.examples]
    group = np.repeat(np.arange(len(parts)), [len(part.examples) for part in parts])
    features = np.array([divide(points).statistics for points, _ in examples])
    several = np.array([label for _, label in examples])
    weights = np.empty(len(examples))
    for number in range(len(parts)):
        for label in (False, True):
            those = (group == number) & (several == label)
            weights[those] = len(examples) / (2 * len(parts)) / those.sum()
    folds = np.arange(len(examples)) // 3 % 4
    scores = np.empty(len(examples))
    for fold in range(4):
        kept = folds != fold
        fitted = _fitted(features[kept], several[kept], weights[kept])
        scores[~kept] = fitted.decision_function(features[~kept])
    numbers = range(len(parts))
    threshold = 0.0
    if found is not None:
        each = [np.quantile(scores[(group == one) & several], 1 - found) for one in numbers]
        threshold = float(np.mean(each))
    fitted = _fitted(features, several, weights)
    rule = np.round(np.array([*(fitted.intercept_ - threshold), *fitted.coef_[0]]), 3)
    click.echo(f"rule: {rule.tolist()}")
    for number, part in enumerate(parts):
        own, truth = scores[group == number], several[group == number]
        right = [np.mean((own[truth == label] > threshold) == label) for label in (False, True)]
        click.echo(
            f"  {len(own)} {part.name}: area {roc_auc_score(truth, own):.3f},"
            f" right {right[0]:.3f} and {right[1]:.3f}"
        )
    return rule


def _fitted(features: Floats, several: Flags, weights: Floats) -> LogisticRegression:
    return LogisticRegression(C=100, max_iter=10_000).fit(features, several, weights)


if __name__ == "__main__":
    main()

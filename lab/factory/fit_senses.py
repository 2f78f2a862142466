"""Fit what `/v1/senses` knows of a model: the projection, and the rule for one sense or several.

Words of Wikipedia are hidden in 60 sentences each. The projection is the linear discriminant that
tells the words apart: directions in which the surroundings of every word vary count less,
directions in which words differ count more. The rule gives the probability that a word has several
senses: a logistic regression that tells tagged nouns with several senses from those with one, as
`tagged_nouns.py` defines them. It uses the similarity of the two clusters only, so that a rare
sense counts as much as a frequent one. None of the words is in the file of pseudo-words, a word of
CoarseWSD-20, or one of the held-out nouns.

With --pairs, the projection stays, and words and pairs of words that it was not fitted to are
examples of the rule too; FOUND of the tagged nouns with several senses are found. The rule of
`wiki-en-deep` is made this way: from tagged nouns alone, it would find several senses for nearly
every word.

With --imports, the script fits DEFAULT_RULE and TEXTS_RULE of `senses/clustering.py`, the rules of
imports, to the closed form of the same vectors and to default imports of the files in a folder.
Evidence for several senses is weaker there, so words and pairs of words are examples as well, and
the threshold is such that FOUND of the pairs and of the nouns with several senses are found.

python lab/factory/fit_senses.py --corpus enwiki.txt.zst --pseudowords pseudowords.jsonl.xz \
    --tags google_wsd.tar.xz [--pairs | --imports FOLDER]
python lab/factory/fit_senses.py --tags google_wsd.tar.xz    # the rule only
"""

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias
from zlib import crc32

import click
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from tagged_nouns import TaggedNoun, read_drawn, read_nouns

from polyseme.engine.arrays import Flags, Floats, unit
from polyseme.importing.importer import ImportOptions, import_vectors
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.models.weights import ContextProjection
from polyseme.models.writer import rewrite_model
from polyseme.senses.clustering import DECISION, two_cluster_statistics
from polyseme.senses.fit import fit_discriminant, similar_pairs
from polyseme.senses.occurrences import (
    estimate_projection,
    project,
    recenter,
    surround,
)
from polyseme.tokenizer import resolve_all
from polyseme.tokenizer import words as word_spans
from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.downstream import HIDDEN_WORD, PseudoWord, read_pseudowords
from polyseme_lab.evaluation.systems import with_closed_form
from polyseme_lab.training.config import COARSEWSD
from polyseme_lab.training.corpus import read_lines

WORDS, SENTENCES = 4000, 60
RANKS = (800, 11_600)
"""Frequency ranks of the words, as in the file of pseudo-words."""
FOUND = 0.8
"""The share of the examples with several senses in which DEFAULT_RULE finds them."""
PAIRS = 300
"""The number of pairs of words to which DEFAULT_RULE is fitted."""
LONGEST = 100
WIKI_EN = Path(__file__).parents[2] / "models" / "wiki-en"
_SENTENCE_END = re.compile(r'(?<=[.!?]) +(?=[A-Z"])')


_path = click.Path(path_type=Path, exists=True)


@click.command()
@click.option("--corpus", type=_path, help="Paragraphs, a line each, .zst.")
@click.option("--pseudowords", type=_path, help="Words to leave out.")
@click.option("--tags", type=_path, required=True, help="Sense tags (SemCor, MASC).")
@click.option("--model", "folder", type=_path, default=WIKI_EN)
@click.option("--pairs", is_flag=True, help="Fit the rule to words and pairs of words too.")
@click.option("--imports", type=_path, help="Folder of *.gz files of vectors.")
def main(
    corpus: Path | None,
    pseudowords: Path | None,
    tags: Path,
    folder: Path,
    pairs: bool,
    imports: Path | None,
) -> None:
    """Write the projection and the rule of a model, or print the rule of imports."""
    model = read_model(folder)
    held_out = read_drawn()["held_out"]
    nouns = [
        noun for noun in read_nouns(tags) if noun.several is not None and noun.lemma not in held_out
    ]
    projection, contexts = model.senses, {}
    if corpus and pseudowords:
        words = choose_words(model, read_pseudowords(pseudowords))
        contexts = collect(corpus, set(words[WORDS : 2 * WORDS] if pairs else words[:WORDS]))
        click.echo(f"{len(contexts)} words, {len(nouns)} tagged nouns")
        if imports:
            fit_default_rule(import_models(model, imports), contexts, nouns)
            return
    if contexts and not pairs:
        hidden = [surroundings(model, rows, hide=True) for rows in contexts.values()]
        projection = fit_discriminant(hidden)
        mean, directions = (one.astype(np.float16) for one in projection[:2])
        projection = ContextProjection(mean, directions, projection.rule)
    if projection is None:
        raise click.UsageError("The model has no projection: give --corpus and --pseudowords.")
    examples = [
        (project(surroundings(model, noun.occurrences), projection), bool(noun.several))
        for noun in nouns
    ]
    mean, directions = (one.astype(np.float16) for one in projection[:2])
    if pairs:
        # Requests show the word, as tagged nouns do; pairs hide it, so their evidence is stronger.
        of_pairs = pairs_part(model, contexts, projection)._replace(decides=False)
        parts = [of_pairs, Part("nouns", examples)]
        rule = fit_rule(parts)
    else:
        rule = fit_probability(examples)
    fitted = ContextProjection(mean, directions, rule)
    licence = (folder / "LICENSE").read_bytes()
    rewrite_model(folder.absolute(), model, senses=lambda _: fitted)
    (folder / "LICENSE").write_bytes(licence)


def import_models(model: Model, folder: Path) -> Iterator[Model]:
    """Yield the closed form of a model's vectors, and the default import of each `*.gz` file."""
    manifest = model.manifest.model_copy(update={"files": {}})
    yield replace(with_closed_form(model), manifest=manifest, senses=None)
    with tempfile.TemporaryDirectory() as models:
        for file in sorted(folder.glob("*.gz")):
            target = Path(models) / file.name.removesuffix(".gz")
            import_vectors(file, target, ImportOptions())
            yield read_model(target)


def fit_default_rule(
    models: Iterable[Model],
    contexts: Mapping[str, Sequence[TokenizedOccurrence]],
    nouns: Sequence[TaggedNoun],
) -> None:
    """Print the rules that are fitted to the examples of all models, without and with other texts.

    The other texts of each kind of example are the sentences of all its words.
    """
    of_pairs, of_nouns = (
        [word for occurrences in source for one in occurrences for word in one.words]
        for source in (contexts.values(), [noun.occurrences for noun in nouns])
    )
    without, with_texts = [], []
    for model in models:
        projection = estimate_projection(model)
        click.echo(f"{model.manifest.name}: {len(projection.directions.T)} directions")
        shifted = [
            recenter(
                model, projection, resolve_all(words, model.vocabulary, composes=model.composes)
            )
            for words in (of_pairs, of_nouns)
        ]
        for parts, centered in (without, [projection] * 2), (with_texts, shifted):
            # The word is shown in requests, as in nouns; hidden, it leaves more evidence.
            of_pairs_part = pairs_part(model, contexts, centered[0])
            parts.append(of_pairs_part._replace(decides=parts is without))
            examples = [
                (project(surroundings(model, noun.occurrences), centered[1]), bool(noun.several))
                for noun in nouns
            ]
            parts.append(Part(f"{model.manifest.name}: nouns", examples))
    fit_rule(without)
    fit_rule(with_texts)


def pairs_part(
    model: Model,
    contexts: Mapping[str, Sequence[TokenizedOccurrence]],
    projection: ContextProjection,
) -> "Part":
    """Return PAIRS pairs of words as examples."""
    rows = {word: model.vocabulary.row(word) for word in contexts}
    ranks = {word: row + 1 for word, row in rows.items() if row is not None}
    ordered = sorted(ranks, key=lambda word: crc32(word.encode()))
    pairs = similar_pairs(model, ordered, ranks)[:PAIRS]
    points = {
        word: project(surroundings(model, contexts[word], hide=True), projection)
        for word in dict.fromkeys(chain.from_iterable(pairs))
    }
    return Part(f"{model.manifest.name}: words and pairs", pair_examples(points, pairs))


def choose_words(model: Model, held_out: Sequence[PseudoWord]) -> list[str]:
    """Return the words of letters a to z, in the order of their checksums."""
    left_out = {word.casefold() for pair in held_out for word in pair.words}
    left_out |= {form for word in COARSEWSD for form in (word, f"{word}s")}
    words = (model.vocabulary.word(row) for row in range(*RANKS))
    plain = [word for word in words if re.fullmatch("[a-z]{3,}", word) and word not in left_out]
    return sorted(plain, key=lambda word: crc32(word.encode()))


def collect(corpus: Path, chosen: set[str]) -> dict[str, list[TokenizedOccurrence]]:
    """Return the first SENTENCES sentences with each word, one per paragraph; omit rarer words."""
    contexts: dict[str, list[TokenizedOccurrence]] = {word: [] for word in chosen}
    lacking = set(chosen)
    for line in read_lines(corpus):
        for word in sorted(lacking.intersection(line.split())):
            for sentence in _SENTENCE_END.split(line):
                if word not in sentence:
                    continue
                tokens = tuple(sentence[start:end] for start, end in word_spans(sentence))
                if word in tokens and 5 <= len(tokens) <= LONGEST:
                    contexts[word].append(TokenizedOccurrence(tokens, tokens.index(word)))
                    break
            if len(contexts[word]) == SENTENCES:
                lacking.remove(word)
        if not lacking:
            break
    return {word: contexts[word] for word in sorted(contexts) if word not in lacking}


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
        first, second = (points[word] for word in pair)
        both = np.concatenate([first[::2], second[::2]])
        examples += [(first, False), (second, False), (both, True)]
    return examples


def fit_probability(examples: Sequence[Example]) -> Floats:
    """Fit the rule to nouns, and print it. -> [3]

    Both kinds have the same weight. Only the first statistic is used, and DECISION is subtracted.
    """
    similarity = np.array([two_cluster_statistics(points)[:1] for points, _ in examples])
    several = np.array([label for _, label in examples])
    weights = np.where(several, 0.5 / several.mean(), 0.5 / (1 - several.mean()))
    fitted = _fitted(similarity, several, weights)
    rule = np.round([fitted.intercept_[0] - DECISION, fitted.coef_[0, 0], 0.0], 3)
    click.echo(f"rule: {rule.tolist()}")
    return rule


class Part(NamedTuple):
    """Examples of one kind; the words with one sense, and those with several, weigh the same."""

    name: str
    examples: list[Example]
    decides: bool = True
    """whether the threshold depends on the examples"""


def fit_rule(parts: Sequence[Part]) -> Floats:
    """Return and print a rule, and its areas under the curve on examples left out.

    All parts have the same weight. The threshold is the mean, over the parts that decide, of the
    one at which FOUND of the examples with several senses are found.
    """
    examples = [example for part in parts for example in part.examples]
    group = np.repeat(np.arange(len(parts)), [len(part.examples) for part in parts])
    features = np.array([two_cluster_statistics(points) for points, _ in examples])
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
    deciding = [number for number, part in enumerate(parts) if part.decides]
    each = [np.quantile(scores[(group == one) & several], 1 - FOUND) for one in deciding]
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

"""Fit what `/v1/senses` knows of a model: the projection, and the rule for one sense or several.

Words of Wikipedia are hidden in 60 sentences each. The projection is the linear discriminant that
tells the words apart: directions in which the surroundings of every word vary count less,
directions in which words differ count more. The rule gives the probability that a word has several
senses: a logistic regression that tells tagged nouns with several senses from those with one. It
uses the similarity of the two clusters only, so that a rare sense counts as much as a frequent one.
None of the words is in the file of pseudo-words, a word of CoarseWSD-20, or one of the nouns that
`nouns.json` holds out.

The dictionary's senses are finer than contexts show, so a noun of SemCor and MASC counts as having
several senses if at least SEVERAL of its tags are outside its most frequent supersense, the
category of a WordNet sense (Ciaramita and Johnson 2003), and as having one if at least ONE of its
tags are the same dictionary sense. Only tags decide, not what a model finds.

With --pairs, the projection stays, and words and pairs of words that it was not fitted to are
examples of the rule too; FOUND of the tagged nouns with several senses are found. The rule of
`wiki-en-deep` is made this way: from tagged nouns alone, it would find several senses for nearly
every word.

DEFAULT_RULE and TEXTS_RULE of `senses/clustering.py`, the rules of imports, were fitted like that
of --pairs to the closed form of the same vectors and to default imports of three public files, with
a threshold for pairs and nouns alike.

python lab/factory/fit_senses.py --corpus enwiki.txt.zst --pseudowords pseudowords.jsonl.xz \
    --tags google_wsd.tar.xz [--pairs]
python lab/factory/fit_senses.py --tags google_wsd.tar.xz    # the rule only
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import click
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict

from polyseme.engine import Floats, unit
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.models.weights import ContextProjection
from polyseme.models.writer import rewrite_model
from polyseme.senses.clustering import DECISION, two_cluster_statistics
from polyseme.senses.fit import fit_discriminant, similar_pairs
from polyseme.senses.occurrences import project, surround
from polyseme.words import word_spans
from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.downstream import HIDDEN_WORD, PseudoWord, read_pseudowords
from polyseme_lab.files import read_archive, read_lines
from polyseme_lab.training.config import COARSEWSD
from polyseme_lab.training.corpus import read_tagged, word_of_lemma

WORDS, SENTENCES = 4000, 60
RANKS = (800, 11_600)
"""Frequency ranks of the words, as in the file of pseudo-words."""
FOUND = 0.8
"""The share of the nouns with several senses in which they are found."""
PAIRS = 300
"""The number of pairs of words to which the rule is fitted."""
REGRESSION: dict[str, Any] = {"C": 100, "max_iter": 10_000}
WIKI_EN = Path(__file__).parents[2] / "models" / "wiki-en"
_SENTENCE_END = re.compile(r'(?<=[.!?]) +(?=[A-Z"])')


TAGGED, MAX_TAGGED = 40, 300
"""Smallest number of occurrences of a tagged noun; a random sample if there are more than this."""
LENGTHS = (5, 100)
"""The smallest and largest number of tokens of a sentence."""
ONE, SEVERAL = 0.95, 0.1
_MAP = "manual_map.txt"
_path = click.Path(path_type=Path, exists=True)


@click.command()
@click.option("--corpus", type=_path, help="Paragraphs, a line each, .zst.")
@click.option("--pseudowords", type=_path, help="Words to leave out.")
@click.option("--tags", type=_path, required=True, help="Sense tags (SemCor, MASC).")
@click.option("--model", "folder", type=_path, default=WIKI_EN)
@click.option("--pairs", is_flag=True, help="Fit the rule to words and pairs of words too.")
def main(
    corpus: Path | None,
    pseudowords: Path | None,
    tags: Path,
    folder: Path,
    pairs: bool,
) -> None:
    """Write the projection and the rule of a model."""
    model = read_model(folder)
    nouns = read_nouns(tags)
    projection, contexts = model.senses, {}
    if corpus and pseudowords:
        words = choose_words(model, read_pseudowords(pseudowords))
        contexts = collect(corpus, set(words[WORDS : 2 * WORDS] if pairs else words[:WORDS]))
        click.echo(f"{len(contexts)} words, {len(nouns)} tagged nouns")
    if contexts and not pairs:
        hidden = [surroundings(model, rows, hide=True) for rows in contexts.values()]
        projection = fit_discriminant(hidden)
        mean, directions = (one.astype(np.float16) for one in projection[:2])
        projection = ContextProjection(mean, directions, projection.rule)
    if projection is None:
        raise click.UsageError("The model has no projection: give --corpus and --pseudowords.")
    examples = [
        (project(surroundings(model, occurrences), projection), several)
        for occurrences, several in nouns
    ]
    mean, directions = (one.astype(np.float16) for one in projection[:2])
    if pairs:
        rule = fit_rule(pair_examples(model, contexts, projection), examples)
    else:
        rule = fit_probability(examples)
    fitted = ContextProjection(mean, directions, rule)
    licence = (folder / "LICENSE").read_bytes()
    rewrite_model(folder.absolute(), model, senses=lambda _: fitted)
    (folder / "LICENSE").write_bytes(licence)


Example: TypeAlias = tuple[Floats, bool]
"""The points of a word, and whether it has several senses. [m, r]"""


def pair_examples(
    model: Model,
    contexts: Mapping[str, Sequence[TokenizedOccurrence]],
    projection: ContextProjection,
) -> list[Example]:
    """Return the words of PAIRS pairs (False), and half of the occurrences of both words (True)."""
    rows = {word: model.vocabulary.row(word) for word in contexts}
    ranks = {word: row + 1 for word, row in rows.items() if row is not None}
    ordered = sorted(ranks, key=lambda word: crc32(word.encode()))
    pairs = similar_pairs(model, ordered, ranks)[:PAIRS]
    points = {
        word: project(surroundings(model, contexts[word], hide=True), projection)
        for word in dict.fromkeys(chain.from_iterable(pairs))
    }
    examples = []
    for first, second in pairs:
        both = np.concatenate([points[first][::2], points[second][::2]])
        examples += [(points[first], False), (points[second], False), (both, True)]
    return examples


def read_nouns(path: Path) -> list[tuple[list[TokenizedOccurrence], bool]]:
    """Read the nouns with at least TAGGED tags, and whether they have several senses."""
    supersense_of = read_supersenses(path)
    held_out = json.loads(Path(__file__).with_name("nouns.json").read_text())["held_out"]
    tagged: dict[str, list[tuple[TokenizedOccurrence, str]]] = {}
    for sentence in read_tagged(path):
        if LENGTHS[0] <= len(sentence.tokens) <= LENGTHS[1]:
            for tag in sentence.tags:
                if tag.lemma.endswith("/noun") and word_of_lemma(tag.lemma) not in COARSEWSD:
                    occurrence = TokenizedOccurrence(tuple(sentence.tokens), tag.token)
                    tagged.setdefault(tag.lemma, []).append((occurrence, tag.sense))
    rng = np.random.default_rng(0)
    nouns = []
    for lemma, every in sorted(tagged.items()):
        if len(every) < TAGGED:
            continue
        drawn = rng.choice(len(every), min(len(every), MAX_TAGGED), replace=False)
        occurrences, senses = zip(*(every[number] for number in np.sort(drawn)), strict=True)
        one = largest_share(senses) >= ONE
        several = 1 - largest_share([supersense_of.get(s, s) for s in senses]) >= SEVERAL
        if (one or several) and lemma not in held_out:
            nouns.append((list(occurrences), not one))
    return nouns


def largest_share(values: Sequence[str]) -> float:
    """Return the share of the most frequent value."""
    return max(Counter(values).values()) / len(values)


def read_supersenses(path: Path) -> dict[str, str]:
    """Return the supersense of each dictionary sense: `106` of `bank%1:06:00::`."""
    for _, data in read_archive(path, (_MAP,)):
        pairs = (line.split("\t") for line in data.decode().splitlines())
        keys = ((sense, keys.split(",")[0].partition("%")[2]) for sense, keys in pairs)
        return {sense: "".join(key.split(":")[:2]) for sense, key in keys}
    raise click.UsageError(f"The archive has no {_MAP}.")


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
                if word in tokens and LENGTHS[0] <= len(tokens) <= LENGTHS[1]:
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
        tokens = model.tokenizer.look_up(shown)
        rows.append(surround(model, [tokens], [[place]]))
    return unit(np.concatenate(rows).astype(np.float64))


def fit_probability(examples: Sequence[Example]) -> Floats:
    """Fit the rule to nouns, and print it. -> [3]

    Both kinds have the same weight. Only the first statistic is used, and DECISION is subtracted.
    """
    similarity = np.array([two_cluster_statistics(points)[:1] for points, _ in examples])
    several = np.array([label for _, label in examples])
    weights = np.where(several, 0.5 / several.mean(), 0.5 / (1 - several.mean()))
    fitted = LogisticRegression(**REGRESSION).fit(similarity, several, weights)
    rule = np.round([fitted.intercept_[0] - DECISION, fitted.coef_[0, 0], 0.0], 3)
    click.echo(f"rule: {rule.tolist()}")
    return rule


def fit_rule(pairs: Sequence[Example], nouns: Sequence[Example]) -> Floats:
    """Return and print a rule for the examples of two kinds. -> [3]

    Both kinds weigh the same, and so do the examples with one sense and with several in each. With
    the rules of three quarters of the examples, FOUND of the other nouns with several senses are
    found: pairs hide the word and leave more evidence, requests show it, as nouns do.
    """
    examples = [*pairs, *nouns]
    is_noun = np.arange(len(examples)) >= len(pairs)
    features = np.array([two_cluster_statistics(points) for points, _ in examples])
    several = np.array([label for _, label in examples])
    weights = np.empty(len(examples))
    for part in (is_noun & several, is_noun & ~several, ~is_noun & several, ~(is_noun | several)):
        weights[part] = len(examples) / 4 / part.sum()
    folds = np.arange(len(examples)) // 3 % 4
    scores = cross_val_predict(
        LogisticRegression(**REGRESSION),
        features,
        several,
        cv=PredefinedSplit(folds),
        method="decision_function",
        params={"sample_weight": weights},
    )
    threshold = np.quantile(scores[is_noun & several], 1 - FOUND)
    fitted = LogisticRegression(**REGRESSION).fit(features, several, weights)
    rule = np.round(np.array([*(fitted.intercept_ - threshold), *fitted.coef_[0]]), 3)
    click.echo(f"rule: {rule.tolist()}")
    return rule


if __name__ == "__main__":
    main()

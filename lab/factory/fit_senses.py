"""Fit what `/v1/senses` knows of a model: the projection, and the rule for one sense or several.

Words of Wikipedia are hidden in 60 sentences each. The projection is the linear discriminant that
tells the words apart: directions in which the surroundings of every word vary count less,
directions in which words differ count more. The rule is a logistic regression that tells words from
pairs of similar words, and tagged nouns with one sense from those whose senses the clusters find.
A second rule, DEFAULT_RULE of `senses/clustering.py`, is fitted to the closed form of the same
vectors. None of the words is in the file of pseudo-words, or a word of CoarseWSD-20.

python lab/factory/fit_senses.py --corpus enwiki.txt.zst --pseudowords pseudowords.jsonl.xz \
    --tags google_wsd.tar.xz
"""

import argparse
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

import numpy as np
import zstandard
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, roc_auc_score

from polyseme.engine.arrays import Flags, Floats, unit
from polyseme.importing.weights import in_closed_form
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.models.senses import ContextProjection
from polyseme.models.writer import rewrite_model
from polyseme.senses.clustering import divide
from polyseme.senses.fitting import fit_discriminant, similar_pairs
from polyseme.senses.occurrences import encode_occurrences
from polyseme.senses.projection import estimate_projection, project
from polyseme.tokenizer import resolve_all
from polyseme.tokenizer import words as word_spans
from polyseme_lab.evaluation.datasets import TokenizedOccurrence
from polyseme_lab.evaluation.downstream import HIDDEN_WORD, PseudoWord, read_pseudowords
from polyseme_lab.evaluation.results import TWENTY
from polyseme_lab.training.tags import read_tagged, word_of_lemma

WORDS, SENTENCES = 4000, 60
RANKS = (800, 11_600)
"""Frequency ranks of the words, as in the file of pseudo-words."""
TAGGED, MAX_TAGGED = 40, 300
"""Smallest number of occurrences of a tagged noun; a random sample if there are more than this."""
ONE_SENSE, FOUND_SENSES = 0.95, 0.2
"""A noun has one sense if so many of its occurrences have the same tag, and several if the clusters
have at least this adjusted Rand index with the tags. Others are not used: dictionary senses are
finer than contexts show."""
LONGEST = 100
_SENTENCE_END = re.compile(r'(?<=[.!?]) +(?=[A-Z"])')


def main() -> None:
    """Write the projection and print the constants of the rule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="paragraphs, a line each, .zst")
    parser.add_argument("--pseudowords", type=Path, required=True, help="words to leave out")
    parser.add_argument("--tags", type=Path, required=True, help="sense tags (SemCor, MASC)")
    parser.add_argument(
        "--model", type=Path, default=Path(__file__).parents[2] / "models" / "wiki-en"
    )
    given = parser.parse_args()
    model = read_model(given.model)
    held_out = read_pseudowords(given.pseudowords)
    chosen = choose_words(model, held_out)
    contexts = collect(given.corpus, chosen)
    tagged = tagged_nouns(given.tags)
    print(f"{len(contexts)} words, {len(tagged)} tagged nouns")  # noqa: T201
    hidden = {word: surroundings(model, rows, hide=True) for word, rows in contexts.items()}
    names = sorted(hidden)
    halves = names[::2], names[1::2]
    ranks = {word: model.vocabulary.row(word) or 0 for word in names}
    pairs = [pair for half in halves for pair in similar_pairs(model, _shuffled(half), ranks)]
    points: dict[str, Floats] = {}
    for known, other in (halves, halves[::-1]):
        projection = fit_discriminant([hidden[word] for word in known])
        points |= {word: project(hidden[word], projection) for word in other}
    projection = fit_discriminant(list(hidden.values()))
    examples = tagged_examples(
        (project(surroundings(model, some), projection), senses) for some, senses in tagged
    )
    rule = fit_rule("fitted", pair_examples(points, pairs), examples)
    mean, directions = (one.astype(np.float16) for one in projection[:2])
    fitted = ContextProjection(mean, directions, rule)
    licence = (given.model / "LICENSE").read_bytes()
    rewrite_model(given.model.absolute(), model, senses=lambda _: fitted)
    (given.model / "LICENSE").write_bytes(licence)
    imported = with_closed_form(model)
    estimated = estimate_projection(imported)
    points = {
        word: project(surroundings(imported, contexts[word], hide=True), estimated)
        for word in dict.fromkeys(chain.from_iterable(pairs))
    }
    examples = tagged_examples(
        (project(surroundings(imported, some), estimated), senses) for some, senses in tagged
    )
    fit_rule("DEFAULT_RULE", pair_examples(points, pairs), examples)


def _shuffled(words: Sequence[str]) -> list[str]:
    return sorted(words, key=lambda word: crc32(word.encode()))


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
                occurrence = next(_with_word(line, word), None)
                if occurrence:
                    found[word].append(occurrence)
                if len(found[word]) == SENTENCES:
                    lacking.remove(word)
            if not lacking:
                break
    return {word: found[word] for word in sorted(found) if len(found[word]) == SENTENCES}


def _with_word(paragraph: str, word: str) -> Iterator[TokenizedOccurrence]:
    for sentence in _SENTENCE_END.split(paragraph):
        if word in sentence:
            tokens = tuple(sentence[start:end] for start, end in word_spans(sentence))
            if word in tokens and 5 <= len(tokens) <= LONGEST:  # noqa: PLR2004 - a sentence
                yield TokenizedOccurrence(tokens, tokens.index(word))


def tagged_nouns(path: Path) -> list[tuple[list[TokenizedOccurrence], list[str]]]:
    """Return the occurrences of each noun with enough tags, and their senses."""
    found: dict[str, list[tuple[TokenizedOccurrence, str]]] = {}
    for sentence in read_tagged(path):
        if 5 <= len(sentence.tokens) <= LONGEST:  # noqa: PLR2004 - a sentence
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
        rows.append(encode_occurrences(model, tokens, [place], 0)[0].surroundings)
    return unit(np.stack(rows).astype(np.float64))


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


def fit_rule(name: str, pairs: Sequence[Example], nouns: Sequence[Example]) -> Floats:
    """Fit the rule, and print it with its areas under the curve on examples left out. -> [3]

    The words, the pairs of words, and both kinds of nouns have the same total weight.
    """
    examples = [*pairs, *nouns]
    divisions = [divide(points) for points, _ in examples]
    features = np.array([one.statistics for one in divisions])
    several = np.array([label for _, label in examples])
    is_noun = np.arange(len(examples)) >= len(pairs)
    weights = np.empty(len(examples))
    for group in (several & is_noun, several & ~is_noun, ~several & is_noun, ~several & ~is_noun):
        weights[group] = len(examples) / 4 / group.sum()
    folds = np.arange(len(examples)) // 3 % 4
    scores = np.empty(len(examples))
    for fold in range(4):
        kept = folds != fold
        fitted = _fitted(features[kept], several[kept], weights[kept])
        scores[~kept] = fitted.decision_function(features[~kept])
    fitted = _fitted(features, several, weights)
    rule = np.round(np.array([*fitted.intercept_, *fitted.coef_[0]]), 3)
    print(f"{name}: {rule.tolist()}")  # noqa: T201
    for kind, group in (("words and pairs", ~is_noun), ("nouns", is_noun)):
        area = roc_auc_score(several[group], scores[group])
        right = [np.mean((scores[group] > 0)[several[group] == label] == label) for label in (0, 1)]
        print(  # noqa: T201
            f"  {group.sum()} {kind}: area {area:.3f}, right {right[0]:.3f} and {right[1]:.3f}"
        )
    return rule


def _fitted(features: Floats, several: Flags, weights: Floats) -> LogisticRegression:
    return LogisticRegression(C=100, max_iter=10_000).fit(features, several, weights)


if __name__ == "__main__":
    main()

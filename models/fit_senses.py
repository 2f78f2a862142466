"""Fit what `/v1/senses` knows of a model: the projection, and the rule for one sense.

Words of Wikipedia are hidden in 60 sentences each. The projection is the linear discriminant that
tells the words apart: directions in which the surroundings of every word vary count less,
directions in which words differ count more. The rule is a logistic regression that tells words from
pairs of words of like ending and frequency. None of the words is in the file of pseudo-words, or a
word of CoarseWSD-20.

python models/fit_senses.py --corpus enwiki.txt.zst --pseudowords pseudowords.jsonl.xz
"""

import argparse
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import zstandard
from scipy.linalg import eigh
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from polyseme.engine.arrays import Flags, Floats, unit
from polyseme.evaluation.datasets import TokenizedOccurrence
from polyseme.evaluation.downstream import HIDDEN_WORD, PseudoWord, read_pseudowords
from polyseme.evaluation.results import TWENTY
from polyseme.models.model import Model
from polyseme.models.reader import read_model
from polyseme.senses.clustering import best_separation, statistics
from polyseme.senses.induction import encode_occurrences
from polyseme.senses.projection import ContextProjection, project, write_projection
from polyseme.tokenizer import resolve_all
from polyseme.tokenizer import words as word_spans

WORDS, SENTENCES = 4000, 60
RANKS = (800, 11_600)
"""Frequency ranks of the words, as in the file of pseudo-words."""
SHRINKAGE, WIDTH = 1.0, 200
"""The part of the mean variance that is added to the covariance within words; dimensions kept."""
CLEAR = 0.93
"""The share of single words whose silhouette is below the threshold for several senses."""
LONGEST = 100
_SENTENCE_END = re.compile(r'(?<=[.!?]) +(?=[A-Z"])')


def main() -> None:
    """Write the projection and print the constants of the rule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="paragraphs, a line each, .zst")
    parser.add_argument("--pseudowords", type=Path, required=True, help="words to leave out")
    parser.add_argument("--model", type=Path, default=Path(__file__).parent / "wiki-en")
    given = parser.parse_args()
    model = read_model(given.model)
    held_out = read_pseudowords(given.pseudowords)
    chosen = choose_words(model, held_out)
    hidden = {
        word: hidden_surroundings(model, occurrences)
        for word, occurrences in collect(given.corpus, chosen).items()
    }
    print(f"{len(hidden)} words, {sum(map(len, hidden.values()))} contexts")  # noqa: T201
    ranks = {word: model.vocabulary.row(word) or 0 for word in hidden}
    names = sorted(hidden)
    halves = names[::2], names[1::2]
    examples = []
    for known, other in (halves, halves[::-1]):
        projection = fit_projection([hidden[word] for word in known])
        points = {word: project(hidden[word], projection) for word in other}
        examples += pair_examples(points, ranks)
    rule = fit_rule("projected", examples)
    contexts = {word: rows[:, : model.manifest.dimension] for word, rows in hidden.items()}
    fit_rule("plain, for PLAIN_RULE", pair_examples(contexts, ranks))
    write_projection(model, fit_projection(list(hidden.values()))._replace(rule=rule))


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


def hidden_surroundings(model: Model, occurrences: Sequence[TokenizedOccurrence]) -> Floats:
    """Return the surroundings of a word that is hidden. -> [m, 3d]"""
    rows = []
    for words, place in occurrences:
        hidden = [*words[:place], HIDDEN_WORD, *words[place + 1 :]]
        tokens = resolve_all(hidden, model.vocabulary, composes=model.composes)
        rows.append(encode_occurrences(model, tokens, [place], 0)[0].surroundings)
    return unit(np.stack(rows).astype(np.float64))


def fit_projection(words: Sequence[Floats]) -> ContextProjection:
    """Fit a linear discriminant to the surroundings of words. [m, 3d] each"""
    means = np.stack([one.mean(axis=0) for one in words])
    rest = np.concatenate([one - mean for one, mean in zip(words, means, strict=True)])
    within = rest.T @ rest / (len(rest) - len(words))
    between = np.cov(means.T) - within * np.mean([1 / len(one) for one in words])
    d = len(within)
    shrunk = within + SHRINKAGE * np.trace(within) / d * np.eye(d)
    _, directions = eigh(between, shrunk, subset_by_index=[d - min(WIDTH, d), d - 1])
    return ContextProjection(means.mean(axis=0), directions[:, ::-1], np.zeros(0))


def like_pairs(ranks: Mapping[str, int]) -> list[tuple[str, str]]:
    """Pair words with equal last 3, different first 4 letters, and ranks within a factor of 2."""
    left = sorted(ranks, key=lambda word: crc32(word.encode()))
    found = []
    while left:
        word = left.pop()
        like = [
            other
            for other in left
            if other[-3:] == word[-3:]
            and other[:4] != word[:4]
            and 0.5 < ranks[other] / ranks[word] < 2  # noqa: PLR2004 - a factor
        ]
        if like:
            found.append((word, like[0]))
            left.remove(like[0])
    return found


def pair_examples(
    points: Mapping[str, Floats], ranks: Mapping[str, int]
) -> list[tuple[Floats, bool]]:
    """Return the occurrences of each word (False), and half of those of both in a pair (True)."""
    examples = []
    for pair in like_pairs({word: ranks[word] for word in points}):
        words = [unit(points[word]) for word in pair]
        both = np.concatenate([one[::2] for one in words])
        examples += [*((one, False) for one in words), (both, True)]
    return examples


def fit_rule(name: str, examples: Sequence[tuple[Floats, bool]]) -> Floats:
    """Fit the rule; print it with its area under the curve on pairs that are left out. -> [4]"""
    features = np.array([statistics(points) for points, _ in examples])
    separations = [best_separation(points) for points, label in examples if not label]
    several = np.array([label for _, label in examples])
    folds = np.arange(len(several)) // 3 % 4
    scores = np.empty(len(several))
    for fold in range(4):
        fitted = _fitted(features[folds != fold], several[folds != fold])
        scores[folds == fold] = fitted.decision_function(features[folds == fold])
    fitted = _fitted(features, several)
    clear = np.quantile(separations, CLEAR)
    rule = np.round(np.array([*fitted.intercept_, *fitted.coef_[0], clear]), 3)
    area = roc_auc_score(several, scores)
    print(f"{name}: {rule.tolist()}; {len(several)} examples, area {area:.3f}")  # noqa: T201
    return rule


def _fitted(features: Floats, several: Flags) -> LogisticRegression:
    rule = LogisticRegression(C=100, max_iter=10_000, class_weight="balanced")
    return rule.fit(features, several)


if __name__ == "__main__":
    main()

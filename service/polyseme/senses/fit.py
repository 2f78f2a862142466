"""Fit the projection and the rule of `/v1/senses` to hidden words of texts, without labels.

Words that occur often enough are hidden in the texts. The projection is the linear discriminant
(Fisher 1936) that tells the words apart: directions in which the surroundings of every word vary
count less, directions in which words differ count more. The rule for one sense or several is a
logistic regression that tells single words from pairs of similar words.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain

import numpy as np

from polyseme.engine import Flags, Floats, unit
from polyseme.models.model import Model
from polyseme.models.weights import ContextProjection
from polyseme.senses.clustering import DEFAULT_RULE, log_odds, two_cluster_statistics
from polyseme.senses.occurrences import (
    HIDDEN,
    SHRINKAGE,
    estimate_projection,
    project,
    surround,
)
from polyseme.terminal import SILENT, Progress
from polyseme.tokenizer import Text, resolve, words_of

WIDTH = 200
"""The number of dimensions of the projection."""
RATIO, SIMILAR = 1.35, (0.1, 0.35)
"""Largest ratio of the ranks, and range of the static cosine, of a pair of similar words."""
MAX_WORDS, MIN_WORDS = 1500, 100
"""The number of words to hide. With fewer, the projection is estimated from random sentences."""
MAX_OCCURRENCES, MIN_OCCURRENCES = 60, 20
"""The number of occurrences of each word."""
MAX_FREQUENCY = 2e-4
"""The largest relative frequency of a word to hide; more frequent ones are function words."""
REACH = 20
"""The number of words on each side of an occurrence."""
MIN_PAIRS = 30
"""With fewer pairs of similar words, the rule is the default one."""
SHARES = (0.5, 0.25)
"""The shares of the second word in the examples of a pair."""
ONE_SENSE = 0.4
"""The proportion of hidden words that the rule says to have one sense. With it, the rule is right
as often for tagged nouns with several senses as for those with one (docs/decisions/0022)."""
RIDGE, STEPS = 1e-3, 30
SEED = 1


def fit_senses(
    model: Model, texts: Sequence[Text], exclude: Collection[str] = (), progress: Progress = SILENT
) -> ContextProjection:
    """Fit the projection and the rule to the words of texts, except those in `exclude`.

    If there are too few words, the result is that of `estimate_projection`.
    """
    counts = Counter(chain.from_iterable(map(words_of, texts)))
    surroundings = encode_hidden_words(model, choose_words(model, counts, exclude), texts, progress)
    if len(surroundings) < MIN_WORDS:
        return estimate_projection(model)
    # The points of a word are those of a projection that was not fitted to it.
    names = list(surroundings)
    halves = names[::2], names[1::2]
    points: dict[str, Floats] = {}
    for known, others in (halves, halves[::-1]):
        projection = fit_discriminant([surroundings[word] for word in known])
        points |= {word: project(surroundings[word], projection) for word in others}
    pairs = [pair for half in halves for pair in similar_pairs(model, half, counts)]
    rule = fit_rule(points, pairs, progress)
    return fit_discriminant(list(surroundings.values()))._replace(rule=rule)


def choose_words(model: Model, counts: Counter[str], exclude: Collection[str]) -> list[str]:
    """Return at most MAX_WORDS random words of the vocabulary that are neither rare nor frequent.

    Only the frequency of a word and whether it consists of letters matter, so no language is
    assumed.
    """
    most = max(MAX_FREQUENCY * counts.total(), MIN_OCCURRENCES)
    chosen = [
        word
        for word, count in counts.items()
        if MIN_OCCURRENCES <= count <= most
        and word.isalpha()
        and word.casefold() not in exclude
        and resolve(word, model.vocabulary).row is not None
    ]
    # Of too many words, those with more occurrences are preferred, up to the maximum.
    enough = [word for word in chosen if counts[word] >= MAX_OCCURRENCES]
    chosen = enough if len(enough) >= MAX_WORDS else chosen
    order = np.random.default_rng(SEED).permutation(len(chosen))
    return [chosen[index] for index in order[:MAX_WORDS]]


def encode_hidden_words(
    model: Model, chosen: Sequence[str], texts: Sequence[Text], progress: Progress = SILENT
) -> dict[str, Floats]:
    """Return the surroundings of the words, hidden in texts. -> [m, 3d] each

    They are those of the first occurrences, at most one in each text. The result is empty for fewer
    than MIN_WORDS words.
    """
    windows: dict[str, list[tuple[list[str], int]]] = {word: [] for word in chosen}
    left = set(chosen)
    for text in texts:
        words = [*words_of(text)]
        for word in left.intersection(words):
            position = words.index(word)
            first = max(position - REACH, 0)
            windows[word].append((words[first : position + REACH + 1], position - first))
            if len(windows[word]) == MAX_OCCURRENCES:
                left.remove(word)
    windows = {word: some for word, some in windows.items() if len(some) >= MIN_OCCURRENCES}
    surroundings: dict[str, Floats] = {}
    if len(windows) < MIN_WORDS:
        return surroundings
    with progress.stage("hidden words", len(windows), in_bytes=False) as bar:
        for word, occurrences in windows.items():
            sentences = []
            for words, position in occurrences:
                tokens = model.tokenizer.look_up(words)
                tokens[position] = HIDDEN
                sentences.append(tokens)
            hidden = surround(model, sentences, [[position] for _, position in occurrences])
            surroundings[word] = unit(hidden.astype(np.float64))
            bar.advance(1)
    return surroundings


def fit_discriminant(words: Sequence[Floats]) -> ContextProjection:
    """Fit a linear discriminant to the surroundings of words. [m, 3d] each -> [3d], [3d, r]"""
    from scipy.linalg import eigh

    means = np.stack([one.mean(axis=0) for one in words])
    rest = np.concatenate([one - mean for one, mean in zip(words, means, strict=True)])
    within = rest.T @ rest / (len(rest) - len(words))
    between = np.cov(means.T) - within * np.mean([1 / len(one) for one in words])
    d = len(within)
    shrunk = within + (SHRINKAGE * np.trace(within) / d or 1) * np.eye(d)
    _, directions = eigh(between, shrunk, subset_by_index=[d - min(WIDTH, d), d - 1])
    return ContextProjection(means.mean(axis=0), directions[:, ::-1], np.zeros(0))


def similar_pairs(
    model: Model, words: Sequence[str], sizes: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Pair words of the same last two letters, and of similar size and static vector.

    The sizes are frequencies or ranks.
    """
    left = list(words)
    statics = model.static(model.tokenizer.look_up(left))
    vectors = dict(zip(left, unit(statics), strict=True))
    pairs = []
    while left:
        word = left.pop()
        for other in left:
            if (
                other[-2:] == word[-2:]
                and 1 / RATIO < sizes[other] / sizes[word] < RATIO
                and SIMILAR[0] < vectors[other] @ vectors[word] < SIMILAR[1]
            ):
                pairs.append((word, other))
                left.remove(other)
                break
    return pairs


def fit_rule(
    points: Mapping[str, Floats], pairs: Sequence[tuple[str, str]], progress: Progress = SILENT
) -> Floats:
    """Fit the rule to words and to pairs of words. [m, r] each -> [3]

    An example of a pair has as many occurrences as one of a word, and the words have the shares in
    SHARES. The threshold is such that ONE_SENSE of the words have one sense: the senses of a word
    are nearer to each other than two words, so with a threshold between words and pairs
    the rule would find few of them.
    """
    if len(pairs) < MIN_PAIRS:
        return np.array(DEFAULT_RULE)
    values, several = [], []
    with progress.stage("pairs of words", len(pairs), in_bytes=False) as bar:
        for first, second in pairs:
            examples = [points[first], points[second]]
            m = min(map(len, examples))
            for share in SHARES:
                rarer = round(share * m)
                examples.append(np.concatenate([points[first][rarer:m], points[second][:rarer]]))
            values += [two_cluster_statistics(example) for example in examples]
            several += [False, False, *(True for _ in SHARES)]
            bar.advance(1)
    statistics, labels = np.array(values), np.array(several)
    rule = logistic_regression(statistics, labels)
    odds = [log_odds(one, rule) for one in statistics[~labels]]
    rule[0] -= np.quantile(odds, ONE_SENSE)
    return rule


def logistic_regression(values: Floats, labels: Flags) -> Floats:
    """Return intercept and weights by Newton's method. [m, s], [m] -> [1 + s]

    Both classes have the same total weight. The weights have a small ridge, so the result is finite
    even if a plane separates the classes.
    """
    x = np.hstack([np.ones((len(values), 1)), values])
    y = labels.astype(np.float64)
    weights = np.where(labels, 0.5 / y.mean(), 0.5 / (1 - y.mean())) / len(y)
    ridge = RIDGE * np.diag([0.0] + [1.0] * values.shape[1])
    rule = np.zeros(x.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-x @ rule))
        gradient = x.T @ (weights * (y - p)) - ridge @ rule
        rule += np.linalg.solve((x * (weights * p * (1 - p))[:, None]).T @ x + ridge, gradient)
    return rule

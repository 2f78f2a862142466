"""Measure how often a head attends most to the antecedent of a pronoun, and the weights of "it"."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from lab.studies.treebank import PRONOUNS, ParsedSentence, Pronoun, halves, pronouns_of
from numpy.typing import NDArray

from polyseme.client.local import LocalModel
from polyseme.engine.arrays import Flags, Floats, Integers, unit
from polyseme_lab.evaluation.statistics import IntervalEstimate

SENTENCES = {
    "tired": "The animal didn't cross the street because it was too tired",
    "wide": "The animal didn't cross the street because it was too wide",
}
REFERENTS = ("animal", "street")
ALL = "all"


def resampled(values: Floats | Flags, groups: NDArray[Any]) -> dict[str, float]:
    """Return the mean of values [m], × 100, with its interval over groups [m] of values."""
    _, numbers = np.unique(groups, return_inverse=True)
    totals = np.bincount(numbers, values.astype(float))
    counts = np.bincount(numbers)
    estimate = IntervalEstimate.of_statistic(
        lambda drawn: float(totals[drawn].sum() / counts[drawn].sum()), len(counts)
    )
    return rounded(estimate._asdict())


def rounded(figures: dict[str, float], digits: int = 1) -> dict[str, float]:
    """Round figures for people; -0 becomes 0."""
    return {name: round(float(figure), digits) + 0.0 for name, figure in figures.items()}


def shares(
    values: Floats | Flags, places: dict[str, Flags], documents: NDArray[np.str_]
) -> dict[str, Any]:
    """Return the mean of the values in each place, with its interval over documents. [m] each"""
    return {name: resampled(values[place], documents[place]) for name, place in places.items()}


def largest(scores: Floats, pronoun: Pronoun) -> Integers:
    """Return the candidate with the largest score of each row. [H, n] -> [H]"""
    return np.array(pronoun.candidates)[scores[:, pronoun.candidates].argmax(axis=1)]


def ranked_by_rules(pronoun: Pronoun, static: Floats) -> dict[str, float]:
    """Return whether each rule without attention names an antecedent; for chance, how often."""
    vectors = unit(static)
    (similar,) = largest(vectors[[pronoun.place]] @ vectors.T, pronoun)
    return {
        "chance": len(pronoun.antecedents) / len(pronoun.candidates),
        "nearest noun": float(pronoun.candidates[-1] in pronoun.antecedents),
        "first noun": float(pronoun.candidates[0] in pronoun.antecedents),
        "most similar noun": float(similar in pronoun.antecedents),
    }


def antecedents(encoder: LocalModel, sentences: Sequence[ParsedSentence]) -> dict[str, Any]:
    """Return how often each layer's best head attends most to an antecedent, by group of pronouns.

    The head is the best for all pronouns of the first half, and everything is measured in the
    second. `elsewhere` is where the nearest noun is no antecedent; groups without such pronouns are
    left out. Intervals are over documents.
    """
    rows = [
        (pronoun, sentence, half)
        for sentence, half in zip(sentences, halves(sentences), strict=True)
        for pronoun in pronouns_of(sentence)
    ]
    texts = [sentence.words for _, sentence, _ in rows]
    of_heads, of_rules = [], []
    encoded = encoder.encode_each(texts, include=["attention", "static"])
    for (pronoun, _, _), result in zip(rows, encoded, strict=True):
        guesses = [largest(weights[:, pronoun.place], pronoun) for weights in result.attention]
        of_heads.append(np.isin(guesses, pronoun.antecedents))
        of_rules.append(ranked_by_rules(pronoun, result.static))
    hits = np.array(of_heads)  # [m, L, h]
    rules = {name: np.array([each[name] for each in of_rules]) for name in of_rules[0]}
    kinds = np.array([pronoun.kind for pronoun, _, _ in rows])
    half = np.array([number for _, _, number in rows])
    documents = np.array([sentence.document for _, sentence, _ in rows])
    best = hits[half == 0].mean(axis=0).argmax(axis=1)  # [L]
    own = {layer: hits[:, layer, head] for layer, head in enumerate(best)}
    found: dict[str, Any] = {}
    for kind in (ALL, *dict.fromkeys(PRONOUNS.values())):
        measured = (half == 1) & ((kinds == kind) | (kind == ALL))
        elsewhere = measured & (rules["nearest noun"] == 0)
        if not elsewhere.any():
            continue
        places = {"share": measured, "elsewhere": elsewhere}
        found[kind] = {
            "pronouns": int(measured.sum()),
            "elsewhere": int(elsewhere.sum()),
            "rules": {name: shares(values, places, documents) for name, values in rules.items()},
            "layers": [
                {
                    "head": int(best[layer]) + 1,
                    **shares(values, places, documents),
                    "over": {
                        name: resampled((values - by_rule)[measured], documents[measured])
                        for name, by_rule in rules.items()
                    },
                    "heads": (100 * hits[measured, layer].mean(axis=0)).round(1).tolist(),
                }
                for layer, values in own.items()
            ],
        }
    return found


def animal_and_street(encoder: LocalModel) -> dict[str, Any]:
    """Return the weights of "it" on all tokens in both sentences [L, h, n], and on the referents.

    `head` is that of the last layer with the largest weight on the animal in the first sentence;
    `change` is the largest difference of a weight on a referent between the sentences, in any head.
    """
    found: dict[str, Any] = {}
    for name, text in SENTENCES.items():
        (sentence,) = encoder.encode([text])
        words = list(sentence.words)
        weights = sentence.attention[:, :, words.index("it")].astype(float)
        found[name] = {
            "text": text,
            "tokens": words,
            "weights": weights.round(3).tolist(),
            **{word: weights[:, :, words.index(word)].round(3).tolist() for word in REFERENTS},
        }
    last = found["tired"]["animal"][-1]
    changes = [np.subtract(found["tired"][word], found["wide"][word]) for word in REFERENTS]
    change = round(float(np.abs(changes).max()), 3)
    return {"head": last.index(max(last)) + 1, "change": change, **found}

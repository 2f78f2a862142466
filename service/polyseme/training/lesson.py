"""What a training looks at: lemmas and pseudo-words to draw from, and those that are held out."""

from dataclasses import dataclass

import numpy as np

from polyseme.training.contexts import Contexts, Tensors
from polyseme.training.groups import Draw, Lemmas, PseudoWords, is_held_out, together
from polyseme.training.heldout import HeldOut, measurable
from polyseme.training.material import Sentences
from polyseme.training.reading import Material, held_out_groups
from polyseme.training.recipe import Recipe
from polyseme.training.refusal import TrainingError

HELD_OUT_GROUPS = 150
"""Pseudo-words that are scored, where there are no tags."""


HELD_OUT_OCCURRENCES = 24
"""of each of their words"""


@dataclass(frozen=True)
class Lesson:
    """All that a training looks at."""

    contexts: Contexts
    tensors: Tensors
    lemmas: Lemmas | None
    words: PseudoWords | None
    held_out: HeldOut

    def draw(self, recipe: Recipe, rng: np.random.Generator) -> Draw:
        """What one step compares."""
        if self.lemmas is None:
            return self._of_words(recipe.groups, recipe, rng)
        count = 0 if self.words is None else round(recipe.mix * recipe.groups)
        draws = [self._of_words(count, recipe, rng)] if count else []
        if count < recipe.groups:
            draws.append(self.lemmas.draw(rng, recipe.groups - count, recipe.occurrences))
        return together(draws)

    def _of_words(self, groups: int, recipe: Recipe, rng: np.random.Generator) -> Draw:
        assert self.words is not None  # noqa: S101 - `lesson` sees to one of the two
        return self.words.draw(rng, groups, recipe.of_each_word)


def lesson(material: Material, recipe: Recipe) -> Lesson:
    """Divide a material into what is trained on and what is held out.

    Raises TrainingError where there is too little to learn from.
    """
    contexts = Contexts(material.table, material.sentences)
    tensors = Tensors(material.table)
    held = held_out_groups(material.tagged.names, recipe)[material.tagged.groups]
    lemmas = Lemmas(material.tagged.chosen(~held)) if len(material.tagged) else None
    words, held_words = _pseudo_words(material, recipe)
    if not (lemmas or words):
        raise TrainingError(
            "There is too little to learn from: lemmas with two senses in --tags, or words that"
            " occur five times in --corpus, and that the model's vocabulary has."
        )
    if lemmas or held_words is None:
        occurrences = measurable(material.tagged.chosen(held), recipe.fewest, recipe.split)
        draw = Draw(occurrences, np.zeros(len(occurrences), np.bool_))
    else:
        rng = np.random.default_rng([recipe.split, 0x0D])
        draw = held_words.draw(rng, HELD_OUT_GROUPS, HELD_OUT_OCCURRENCES)
        occurrences = measurable(draw.occurrences, recipe.fewest, recipe.split)
        draw = Draw(occurrences, np.ones(len(occurrences), np.bool_))
    held_out = HeldOut(contexts, tensors, draw, recipe.split)
    return Lesson(contexts, tensors, lemmas or None, words or None, held_out)


def _pseudo_words(
    material: Material, recipe: Recipe
) -> tuple[PseudoWords | None, PseudoWords | None]:
    """The words of the corpus that are trained on, and those that are held out."""
    sentences = _corpus(material)
    if not len(sentences.entries):
        return None, None
    left_out = frozenset(word.casefold() for word in recipe.leave_out)
    words = PseudoWords(
        material.table, sentences, left_out, recipe.pseudo_words, recipe.commonest_words
    )
    spelled = dict(zip(material.table.words[:-1].tolist(), material.table.keys, strict=False))
    held = np.array(
        [is_held_out(spelled[w].casefold(), recipe.held_out, recipe.split)
         for w in words.by_frequency.tolist()], np.bool_)  # fmt: skip
    kept, held_words = (words.restricted(words.by_frequency[which]) for which in (~held, held))
    fewest = recipe.pseudo_words
    return (
        kept if len(kept) >= fewest else None,
        held_words if len(held_words) >= fewest else None,
    )


def _corpus(material: Material) -> Sentences:
    """The sentences of the corpus alone; those of tags are looked at as unknown words."""
    sentences = material.sentences
    begin = sentences.offsets[material.paragraphs_from]
    if begin == len(sentences.entries):
        return Sentences(sentences.entries[:0], sentences.lowered[:0], sentences.offsets[:1])
    entries = sentences.entries.copy()
    entries[:begin] = material.table.unknown
    return Sentences(entries, sentences.lowered, sentences.offsets)

"""The flat map of occurrences and their neighbours."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from polyseme.encoding.compare import READING_SHARE, Occurrence, compare
from polyseme.encoding.encode import Timings
from polyseme.engine.arrays import unit
from polyseme.engine.layers import contextualize
from tests.tiny import LIMITS, VECTORS, WORDS

TEXTS = ("river bank flows", "money bank grows")


def mapped(model, *occurrences, neighbours=2):
    result = compare(model, occurrences, neighbours, "auto", LIMITS, Timings(), mapped=True)
    return result, result.flat_map


def occurrences_of(word, *texts):
    return [Occurrence(text, word) for text in texts]


def test_there_is_no_map_unless_it_is_asked_for(plain):
    made = occurrences_of("bank", *TEXTS)
    assert compare(plain, made, 2, "auto", LIMITS, Timings()).flat_map is None


def test_the_map_is_the_principal_components_of_all_directions(bundled):
    result, flat = mapped(bundled, *occurrences_of("bank", *TEXTS), neighbours=4)
    directions = [unit(bundled.static([one.token]))[0] for one in result.occurrences[:1]]
    for text in TEXTS:
        tokens = bundled.tokenizer.tokens(text)
        sentence = bundled.sentence(tokens)
        place = [token.text for token in tokens].index("bank")
        contextual = contextualize(sentence, bundled.layers).contextual[place]
        both = unit(np.stack([contextual, sentence.vectors[place]]))
        directions.append(unit((both[0] + READING_SHARE * both[1])[None])[0])
    words = list(flat.neighbours)
    listed = {
        word
        for one in result.occurrences
        for near in (one.static_neighbours, one.contextual_neighbours)
        for word, _ in near
    }
    assert set(words) == listed
    rows = [bundled.vocabulary.row(word) for word in words]
    directions += list(unit(bundled.rows[np.array(rows)].astype(np.float64)))
    oracle = PCA(2).fit(np.array(directions))
    expected = oracle.transform(np.array(directions))
    found = np.array([flat.static[0], *flat.contextual, *flat.neighbours.values()])
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-5)
    np.testing.assert_allclose(
        flat.explained_variance_ratio, oracle.explained_variance_ratio_, atol=1e-5
    )


def test_one_static_vector_is_one_point_and_its_contexts_are_two(bundled):
    _, flat = mapped(bundled, *occurrences_of("bank", *TEXTS))
    assert flat.static[0] == flat.static[1]
    assert flat.contextual[0] != flat.contextual[1]


def test_a_shared_vector_weighs_as_much_as_one(bundled):
    """Comparing one occurrence with itself many times does not move the map."""
    _, two = mapped(bundled, *occurrences_of("bank", *TEXTS))
    _, six = mapped(bundled, *occurrences_of("bank", *TEXTS, *TEXTS, *TEXTS))
    np.testing.assert_allclose(six.contextual[:2], two.contextual, atol=1e-12)
    assert six.neighbours.keys() == two.neighbours.keys()


def test_a_zero_vector_has_no_place(plain):
    _, flat = mapped(plain, Occurrence("qqzz", "qqzz"), Occurrence("bank river", "bank"))
    assert flat.static[0] is None
    assert flat.contextual[0] is None
    assert len(flat.static[1]) == 2


def test_nothing_known_is_an_empty_map(plain):
    _, flat = mapped(plain, Occurrence("qqzz", "qqzz"), Occurrence("zzqq", "zzqq"))
    assert flat.static == flat.contextual == [None, None]
    assert flat.neighbours == {}
    assert flat.explained_variance_ratio == [0, 0]


@pytest.mark.parametrize("neighbours", [0, 1])
def test_few_points_are_mapped_too(plain, neighbours):
    assert len(WORDS) == len(VECTORS)
    _, flat = mapped(plain, *occurrences_of("bank", "bank", "bank"), neighbours=neighbours)
    assert np.isfinite(np.array(flat.static)).all()

"""Whole layers whose answers a person gets with paper and pencil; the derivation stands beside."""

import math

import numpy as np
import pytest

from polyseme.engine.attention import Scoring, Sentence
from polyseme.engine.layers import Layer, LayerNorm, Projection, Residual, contextualize


def sentence(vectors, known=None, words=None, word_bias=None):
    vectors = np.array(vectors, np.float64)
    n = len(vectors)
    return Sentence(
        vectors,
        np.ones(n, np.bool_) if known is None else np.array(known, np.bool_),
        np.arange(n) if words is None else np.array(words),
        None if word_bias is None else np.array(word_bias, np.float64),
    )


def run(start, layer):
    """The result and the weights of the first head."""
    done = contextualize(start, [layer], ["weights"])
    return done.contextual, done.records[0]["weights"][0]


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, atol=1e-12)


def test_two_tokens_with_identity_weights():
    # x0 = (a, 0), x1 = (0, a) with a² = ln 3: own score ln 3, the other's 0, so 3/4 and 1/4.
    a = math.sqrt(math.log(3))
    context, weights = run(sentence([[a, 0], [0, a]]), Layer(scoring=Scoring(scale=False)))
    assert_close(weights, [[0.75, 0.25], [0.25, 0.75]])
    assert_close(context, [[0.75 * a, 0.25 * a], [0.25 * a, 0.75 * a]])


def test_scores_are_divided_by_the_root_of_the_width_of_a_head():
    # k = 4, so √k = 2. Own score 2·ln 3, divided by 2 is ln 3: 3/4 and 1/4 again.
    a = math.sqrt(2 * math.log(3))
    _, weights = run(sentence([[a, 0, 0, 0], [0, a, 0, 0]]), Layer())
    assert_close(weights, [[0.75, 0.25], [0.25, 0.75]])


def test_the_width_that_divides_is_that_of_one_head_not_of_all():
    # Two heads of k = 4. The first head sees (a,0,0,0) and (0,a,0,0) as above; the second zeros.
    a = math.sqrt(2 * math.log(3))
    start = sentence([[a, 0, 0, 0, 0, 0, 0, 0], [0, a, 0, 0, 0, 0, 0, 0]])
    weights = contextualize(start, [Layer(heads=2)], ["weights"]).records[0]["weights"]
    assert_close(weights, [[[0.75, 0.25], [0.25, 0.75]], [[0.5, 0.5], [0.5, 0.5]]])


def test_queries_come_from_the_token_that_looks_and_keys_from_the_one_looked_at():
    # q = 1 for token 0 and 0 for token 1; k = 0 for token 0 and ln 3 for token 1.
    # Row 0: scores 0, ln 3 -> 1/4, 3/4. Row 1: scores 0, 0 -> 1/2, 1/2.
    layer = Layer(
        query=Projection(np.array([[1.0], [0.0]])),
        key=Projection(np.array([[0.0], [math.log(3)]])),
        value=Projection(np.array([[4.0], [8.0]])),
        output=Projection(np.array([[1.0, 10.0]])),
    )
    context, weights = run(sentence([[1, 0], [0, 1]]), layer)
    assert_close(weights, [[0.25, 0.75], [0.5, 0.5]])
    # Values 4 and 8: 1/4·4 + 3/4·8 = 7 and 1/2·4 + 1/2·8 = 6; the output widens them to two.
    assert_close(context, [[7, 70], [6, 60]])


def test_a_position_bias_picks_the_neighbour_to_the_right():
    # R = 1, the table is for distances -1, 0, +1: ln 1, ln 1, ln 8. All scores are 0.
    # Row 0: weights 1 : 8 : 8 (distance 2 counts as 1). Row 1: 1 : 1 : 8. Row 2: 1 : 1 : 1.
    bias = np.array([[0, 0, math.log(8)]])
    start = sentence(np.zeros((3, 2)))
    _, weights = run(start, Layer(scoring=Scoring(position_bias=bias)))
    rows = [[1 / 17, 8 / 17, 8 / 17], [0.1, 0.1, 0.8], [1 / 3, 1 / 3, 1 / 3]]
    assert_close(weights, rows)


def test_a_word_bias_is_added_to_the_column_of_its_word():
    # All scores 0; biases ln 2, 0, ln 5: every row is 2 : 1 : 5.
    start = sentence(np.zeros((3, 2)), word_bias=[math.log(2), 0, math.log(5)])
    _, weights = run(start, Layer(scoring=Scoring(word_bias=True)))
    assert_close(weights, [[0.25, 0.125, 0.625]] * 3)
    _, plain = run(start, Layer(scoring=Scoring(word_bias=False)))
    assert_close(plain, [[1 / 3] * 3] * 3)


def test_each_head_adds_the_word_bias_by_its_own_factor():
    # Biases 0 and ln 3. Factor 2: 1 : 9; factor 1: 1 : 3; factor 0: 1 : 1; factor -1: 3 : 1.
    start = sentence(np.zeros((2, 4)), word_bias=[0, math.log(3)])
    scoring = Scoring(word_bias=True, word_bias_scale=np.array([2.0, 1.0, 0.0, -1.0]))
    weights = contextualize(start, [Layer(4, scoring=scoring)], ["weights"]).records[0]["weights"]
    assert_close(weights[:, 0], [[0.1, 0.9], [0.25, 0.75], [0.5, 0.5], [0.75, 0.25]])
    assert_close(weights[:, 1], weights[:, 0])


def test_a_factor_on_the_word_bias_alone_adds_nothing():
    for bias, asked in ((None, True), ([5.0, 7.0], False)):
        start = sentence(np.zeros((2, 2)), word_bias=bias)
        scoring = Scoring(word_bias=asked, word_bias_scale=np.array([3.0]))
        assert_close(run(start, Layer(scoring=scoring))[1], [[0.5, 0.5]] * 2)


def test_others_hides_the_token_itself_only():
    _, weights = run(
        sentence(np.zeros((3, 2)), words=[4, 4, 9]), Layer(scoring=Scoring(looks_at="others"))
    )
    assert_close(weights, [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])


def test_other_words_hides_every_occurrence_of_the_word():
    # Tokens: apple eats apple. "apple" sees "eats" alone; "eats" sees both apples.
    start = sentence(np.zeros((3, 2)), words=[4, 9, 4])
    _, weights = run(start, Layer(scoring=Scoring(looks_at="other-words")))
    assert_close(weights, [[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]])


def test_a_word_with_no_other_word_beside_it_looks_at_itself():
    # apple apple: neither sees another word, so each looks at itself and not at the other one.
    start = sentence([[1, 2], [1, 2]], words=[4, 4])
    _, weights = run(start, Layer(scoring=Scoring(looks_at="other-words")))
    assert_close(weights, np.eye(2))


@pytest.mark.parametrize("looks_at", ["all", "others", "other-words"])
def test_a_lone_token_is_its_own_context(looks_at):
    context, weights = run(sentence([[3, 4]]), Layer(scoring=Scoring(looks_at=looks_at)))
    assert_close(weights, [[1]])
    assert_close(context, [[3, 4]])


def test_an_unknown_token_is_not_looked_at_but_looks():
    # Tokens: known, unknown, known. The unknown one has a zero row, so its scores are equal.
    start = sentence([[2, 0], [0, 0], [0, 4]], known=[True, False, True])
    context, weights = run(start, Layer(scoring=Scoring(looks_at="others")))
    assert_close(weights, [[0, 0, 1], [0.5, 0, 0.5], [1, 0, 0]])
    assert_close(context, [[0, 4], [1, 2], [2, 0]])


def test_unknown_tokens_alone_look_at_themselves_and_find_nothing():
    # Their value is zero even where the projection has a bias of 5.
    layer = Layer(value=Projection(np.eye(2), np.array([5.0, 5.0])))
    context, weights = run(sentence(np.zeros((2, 2)), known=[False, False]), layer)
    assert_close(weights, np.eye(2))
    assert_close(context, np.zeros((2, 2)))


def test_pre_norm_normalises_what_is_projected_and_not_what_is_added():
    # One token (1, 3): normed (-1, 1), looks at itself, plus the residual (1, 3): (0, 4).
    norm = LayerNorm(np.ones(2), np.zeros(2), epsilon=0.0)
    layer = Layer(residual=Residual("add"), norm="before", attention_norm=norm)
    assert_close(run(sentence([[1, 3]]), layer)[0], [[0, 4]])


def test_post_norm_normalises_the_sum():
    # (1, 3) looks at itself, sum (2, 6), mean 4, deviations -2 and 2, variance 4: (-1, 1).
    norm = LayerNorm(np.ones(2), np.zeros(2), epsilon=0.0)
    layer = Layer(residual=Residual("add"), norm="after", attention_norm=norm)
    assert_close(run(sentence([[1, 3]]), layer)[0], [[-1, 1]])


def test_the_second_layer_starts_from_the_result_of_the_first():
    # Each layer doubles by adding itself to itself: 1 -> 2 -> 4 -> 8.
    layer = Layer(residual=Residual("add"))
    result = contextualize(sentence([[1, 5]]), [layer] * 3).contextual
    assert_close(result, [[8, 40]])


def test_no_layers_give_the_static_vectors():
    assert_close(contextualize(sentence([[1, 5]]), []).contextual, [[1, 5]])

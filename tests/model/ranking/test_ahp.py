"""Against the weights that Faigl, Pellikka, Bokor and Gurtov print, and counts by hand."""

from itertools import pairwise
from math import log, sqrt

import numpy as np
import pytest

from ikeanalyze.model.ranking.ahp import (
    GRADE_STEP,
    Opinion,
    compute_ranks,
    compute_scores,
    find_turning_points,
    fit_weights,
    set_weight,
)

PAPER = (0.3075, 0.207, 0.2785, 0.207)


def test_the_papers_weights_come_of_whole_steps_of_seven_experts():
    """Sums of 8, 2 and 8 steps over the seven give the printed weights; the text has the steps of four alone."""
    steps = [[2, 1, 1, 1, 1, 1, 1], [2, 0, 0, 0, 0, 0, 0], [2, 2, 2, 2, 0, 0, 0]]
    opinions = [Opinion(0, n, some) for n, some in enumerate(steps, 1)]
    assert fit_weights(4, opinions, [1] * 7, [1] * 7) == pytest.approx(PAPER, abs=6e-5)


def test_the_four_experts_of_the_text():
    """By hand: mean steps of -1/4, -3/2 and 0, a step being a factor of the square root of 2."""
    opinions = [Opinion(0, 1, [-1, 0, -1, 1]), Opinion(0, 2, [-2, -2, -2, 0]), Opinion(0, 3, [1, 0, 0, -1])]
    ratios = np.array([1, sqrt(2) ** 0.25, sqrt(2) ** 1.5, 1])
    assert fit_weights(4, opinions, [1] * 4, [1] * 4) == pytest.approx(ratios / ratios.sum())


def test_importance_and_progression():
    # one expert of importance 3 against one of 1: (3 * 2 + 1 * -2) / 4 = 1 step
    result = fit_weights(2, [Opinion(0, 1, [2, -2])], [3, 1], [1, 1], step=2)
    assert result == pytest.approx([2 / 3, 1 / 3])
    # steps of an expert with a progression factor of 2 count twice
    assert fit_weights(2, [Opinion(0, 1, [1])], [1], [2], step=2) == pytest.approx([4 / 5, 1 / 5])
    assert fit_weights(2, [Opinion(0, 1, [9, 1])], [0, 1], [1, 1], step=2) == pytest.approx([2 / 3, 1 / 3])


def test_contradicting_opinions_meet_in_the_middle():
    """A cycle of 1, 1 and -1 steps, which should be 2: each takes a third of what is too much."""
    opinions = [Opinion(0, 1, [1]), Opinion(1, 2, [1]), Opinion(0, 2, [-1])]
    result = fit_weights(3, opinions, [1], [1], step=2)
    assert np.log2(result[0] / result[1]) == pytest.approx(0)
    assert np.log2(result[1] / result[2]) == pytest.approx(0)


def test_no_opinions_and_too_few():
    assert fit_weights(4, [], [1], [1]).tolist() == [0.25] * 4
    with pytest.raises(ValueError, match="do not connect"):
        fit_weights(3, [Opinion(0, 1, [1])], [1], [1])
    with pytest.raises(ValueError, match="do not connect"):
        fit_weights(2, [Opinion(0, 1, [1])], [0], [1])


def test_scores_are_products_of_powers():
    grades = np.array([[3, 1], [0, 4]])
    products = [2 ** (0.7 * 3) * 2 ** (0.3 * 0), 2 ** (0.7 * 1) * 2 ** (0.3 * 4)]
    scores = compute_scores(np.array([0.7, 0.3]), grades * log(GRADE_STEP))
    assert scores == pytest.approx(np.array(products) / sum(products))


def test_ranks_agree_with_the_paper():
    assert compute_ranks(np.array([0.2, 0.5, 0.3])) == [3, 1, 2]
    assert compute_ranks(np.array([0.25, 0.5, 0.25])) == [2, 1, 2]


def test_with_weight_keeps_proportions():
    assert set_weight(np.array([0.5, 0.3, 0.2]), 0, 0.0).tolist() == pytest.approx([0, 0.6, 0.4])
    assert set_weight(np.array([0.5, 0.3, 0.2]), 1, 0.3).tolist() == pytest.approx([0.5, 0.3, 0.2])
    assert set_weight(np.array([1.0, 0.0, 0.0]), 0, 0.4).tolist() == pytest.approx([0.4, 0.3, 0.3])


def test_turning_points_by_hand():
    # one is 2 better in the first criterion, the other 1 in the second: 2 w = 1 - w
    points = find_turning_points(np.array([0.5, 0.5]), np.array([[2.0, 0.0], [0.0, 1.0]]), 0)
    assert [(point.weight, point.above, point.below) for point in points] == [(pytest.approx(1 / 3), 0, 1)]
    points = find_turning_points(np.array([0.5, 0.5]), np.array([[2.0, 0.0], [0.0, 1.0]]), 1)
    assert [(point.weight, point.above, point.below) for point in points] == [(pytest.approx(2 / 3), 1, 0)]
    assert find_turning_points(np.array([0.5, 0.5]), np.array([[2.0, 0.0], [1.0, 0.0]]), 0) == []
    assert find_turning_points(np.array([1.0]), np.array([[2.0, 0.0]]), 0) == []


def test_the_order_changes_at_turning_points_and_nowhere_else():
    random = np.random.default_rng(5)
    for _ in range(20):
        own = random.dirichlet(np.ones(4))
        steps = random.integers(0, 4, (4, 6)).astype(float)
        for criterion in range(4):
            edges = [0.0, *(point.weight for point in find_turning_points(own, steps, criterion)), 1.0]
            orders = []
            for low, high in pairwise(edges):
                if high - low < 1e-6:
                    continue
                within = [low + (high - low) * share for share in (0.01, 0.5, 0.99)]
                result = {tuple(compute_ranks(compute_scores(set_weight(own, criterion, w), steps))) for w in within}
                assert len(result) == 1
                orders += result
            assert all(value != other for value, other in pairwise(orders))

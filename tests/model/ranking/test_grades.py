import pytest

from ikeanalyze.model.ranking.grades import ReferenceGrade, ThresholdGrade


@pytest.mark.parametrize(
    ("ms", "grade"),
    [(0, 4), (50, 4), (50.1, 3), (100, 3), (101, 2), (150, 2), (151, 1), (300, 1), (300.1, 0), (5000, 0)],
)
def test_the_papers_packet_delay_budgets(ms, grade):
    budgets = ThresholdGrade([(50, 4), (100, 3), (150, 2), (300, 1)], 0)
    assert budgets.grade(ms) == grade


@pytest.mark.parametrize(("cost", "grade"), [(0, 1), (1, 0), (2, 0)])
def test_the_papers_deployment_cost(cost, grade):
    assert ThresholdGrade([(0, 1)], 0).grade(cost) == grade


@pytest.mark.parametrize(
    ("value", "grade"), [(11, 0), (5.5, 1), (22, -1), (11 / 8, 3), (1, 3), (0, 3), (44, -2), (1000, -2)]
)
def test_a_grade_is_relative_to_the_reference(value, grade):
    """Half is one grade better, twice is one worse; L_l and L_r of the paper are the limits."""
    assert ReferenceGrade(11, better=3, worse=2).grade(value) == pytest.approx(grade)


def test_reference_where_more_is_better():
    more = ReferenceGrade(100, better=3, worse=2, more_is_better=True)
    assert [more.grade(value) for value in (100, 200, 50, 10_000, 0)] == [0, 1, -1, 3, -2]

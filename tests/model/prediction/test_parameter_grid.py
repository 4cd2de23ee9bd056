import pytest

from ikeanalyze.model.prediction.link import LinkModel
from ikeanalyze.model.prediction.parameter_grid import ParameterGridError, expand_links, parse_value_list


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("600", (600,)),
        ("10,50,600", (10, 50, 600)),
        ("0:0.3:0.1", (0, 0.1, 0.2, 0.3)),
        ("0:1:0.4", (0, 0.4, 0.8)),
        ("5:5:1", (5,)),
        ("0,0.1:0.3:0.1,0.2", (0, 0.1, 0.2, 0.3)),
    ],
)
def test_ranges_and_lists_of_numbers_are_parsed(text, values):
    assert parse_value_list(text) == values


def test_a_range_includes_its_end_despite_rounding():
    assert len(parse_value_list("0:0.3:0.02")) == 16
    assert len(parse_value_list("0:0.999:0.001")) == 1000


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "'' is neither a number"),
        ("1,,2", "is neither a number"),
        ("x", "is neither a number"),
        ("nan", "is not a number"),
        ("inf", "is not a number"),
        ("0:1", "is not a range from:to:step, such as"),
        ("0:1:2:3", "is not a range"),
        ("0:1:0", "from:to:step with a positive step"),
        ("1:0:0.1", "from:to:step with a positive step"),
        ("0:1:1e-9", "more than 1,000 values"),
        ("0:999:1,1000", "more than 1,000 values"),
    ],
)
def test_malformed_numbers_are_rejected(text, what):
    with pytest.raises(ParameterGridError) as error:
        parse_value_list(text)
    assert what in str(error.value)


def test_a_grid_of_links_has_each_combination_and_a_limit():
    result = expand_links(LinkModel(1, name="x"), {"rtt_ms": (10, 20), "loss": (0, 0.1)})
    assert result == [LinkModel(rtt, loss, name="x") for rtt in (10, 20) for loss in (0, 0.1)]
    assert expand_links(LinkModel(1), {}) == [LinkModel(1)]
    with pytest.raises(ParameterGridError, match="1,000,000 links; the limit is 5,000"):
        expand_links(LinkModel(1), {"rtt_ms": range(1000), "loss": range(1000)})

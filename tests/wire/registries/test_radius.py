import pytest

from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.radius import RadiusCode
from tests.wire.registries.oracle import normal, values


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "Access-Request"),
        (11, "Access-Challenge"),
        (43, "CoA-Request"),
        (52, "Protocol-Error"),
        (99, "99"),
    ],
)
def test_names(value, name):
    assert get_name(RadiusCode, value) == name


@pytest.mark.tshark
def test_against_tshark():
    known = values()["radius.code"]
    for code in RadiusCode:
        # 24 is Query_Response there
        if code in known and code != 24:
            assert normal(code.label) == normal(known[code][0])

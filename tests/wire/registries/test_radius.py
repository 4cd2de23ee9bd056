import pytest

from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.radius import RadiusAttribute, RadiusCode
from tests.wire.registries.oracle import normal, values


@pytest.mark.parametrize(
    ("registry", "value", "name"),
    [
        (RadiusCode, 1, "Access-Request"),
        (RadiusCode, 11, "Access-Challenge"),
        (RadiusCode, 43, "CoA-Request"),
        (RadiusCode, 52, "Protocol-Error"),
        (RadiusCode, 99, "99"),
        (RadiusAttribute, 4, "NAS-IP-Address"),
        (RadiusAttribute, 24, "State"),
        (RadiusAttribute, 30, "Called-Station-Id"),
        (RadiusAttribute, 31, "Calling-Station-Id"),
        (RadiusAttribute, 33, "Proxy-State"),
        (RadiusAttribute, 79, "EAP-Message"),
        (RadiusAttribute, 95, "NAS-IPv6-Address"),
    ],
)
def test_values_have_names(registry, value, name):
    assert get_name(registry, value) == name


@pytest.mark.tshark
def test_names_of_codes_are_those_of_tshark():
    known = values()["radius.code"]
    for code in RadiusCode:
        # 24 is Query_Response there
        if code in known and code != 24:
            assert normal(code.label) == normal(known[code][0])

import pytest

from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.radius import RadiusAttribute


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "User-Name"),
        (4, "NAS-IP-Address"),
        (24, "State"),
        (31, "Calling-Station-Id"),
        (79, "EAP-Message"),
        (80, "Message-Authenticator"),
        (95, "NAS-IPv6-Address"),
        (245, "Extended-Attribute-5"),
        (17, "17"),
    ],
)
def test_names(value, name):
    assert get_name(RadiusAttribute, value) == name


def test_only_four_numbers_up_to_190_are_unassigned():
    assert set(range(1, 191)) - set(RadiusAttribute) == {17, 21, 54, 93}

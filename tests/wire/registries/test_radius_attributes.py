import pytest

from ikeanalyze.wire.registries import name_of
from ikeanalyze.wire.registries.radius_attributes import Attribute


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
    assert name_of(Attribute, value) == name


def test_only_four_numbers_up_to_190_are_unassigned():
    assert set(range(1, 191)) - set(Attribute) == {17, 21, 54, 93}

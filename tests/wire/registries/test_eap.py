import re

import pytest

from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.eap import EapCode, EapType
from tests.wire.registries.oracle import normal, values


@pytest.mark.parametrize(
    ("registry", "value", "name"),
    [
        (EapType, 13, "EAP-TLS"),
        (EapType, 25, "PEAP"),
        (EapType, 50, "EAP-AKA'"),
        (EapType, 99, "99"),
        (EapCode, 3, "Success"),
    ],
)
def test_values_have_names(registry, value, name):
    assert get_name(registry, value) == name


@pytest.mark.tshark
def test_names_of_eap_types_are_those_of_tshark():
    known = values()["eap.type"]
    # 26 and 29: Microsoft's MSCHAPv2 is 26, MS-EAP-Authentication at IANA
    skipped = {1, 2, 3, 26, 33, 254, 255}
    for kind in EapType:
        result = re.search(r"\((.*)\)", known.get(kind, [""])[0])
        if result and kind not in skipped:
            ours, theirs = (normal(name).removeprefix("EAP") for name in (kind.label, result.group(1)))
            assert theirs.startswith(ours), kind

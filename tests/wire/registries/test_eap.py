import re

import pytest

from ikeanalyze.wire.registries import name_of
from ikeanalyze.wire.registries.eap import Code, Type
from tests.wire.registries.oracle import normal, values


@pytest.mark.parametrize(
    ("registry", "value", "name"),
    [
        (Type, 13, "EAP-TLS"),
        (Type, 25, "PEAP"),
        (Type, 50, "EAP-AKA'"),
        (Type, 99, "99"),
        (Code, 3, "Success"),
    ],
)
def test_names(registry, value, name):
    assert name_of(registry, value) == name


@pytest.mark.tshark
def test_against_tshark():
    known = values()["eap.type"]
    # 26 and 29: Microsoft's MSCHAPv2 is 26, MS-EAP-Authentication at IANA
    skipped = {1, 2, 3, 26, 33, 254, 255}
    for kind in Type:
        found = re.search(r"\((.*)\)", known.get(kind, [""])[0])
        if found and kind not in skipped:
            ours, theirs = (normal(name).removeprefix("EAP") for name in (kind.label, found.group(1)))
            assert theirs.startswith(ours), kind

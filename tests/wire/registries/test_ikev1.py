import pytest

from ikeanalyze.wire.registries import get_name, ikev1
from ikeanalyze.wire.registries.ikev1_notifies import Ikev1NotifyType
from tests.wire.registries.oracle import normal, values


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1, "Base"),
        (2, "Main Mode"),
        (3, "Authentication Only"),
        (4, "Aggressive Mode"),
        (5, "Informational"),
        (6, "Transaction"),
        (32, "Quick Mode"),
        (33, "New Group Mode"),
        (34, "34"),
    ],
)
def test_exchange_types(value, name):
    assert get_name(ikev1.Ikev1ExchangeType, value) == name


@pytest.mark.tshark
def test_exchange_types_against_tshark():
    known = values()["isakmp.exchangetype"]
    for kind in ikev1.Ikev1ExchangeType:
        assert kind.label.removesuffix(" Mode") in known[kind][0]


@pytest.mark.tshark
@pytest.mark.parametrize(
    ("registry", "field", "prefix"),
    [
        (Ikev1NotifyType, "isakmp.notify.msgtype", ""),
        (ikev1.Ikev1ProtocolId, "isakmp.prop.protoid", "PROTO"),
        (ikev1.Ikev1IdType, "isakmp.id.type", "ID"),
    ],
)
def test_other_names_are_those_of_tshark(registry, field, prefix):
    known = values()[field]
    for member in registry:
        if member.name != "ID_LIST":  # KEY_LIST there
            assert normal(member.label).removeprefix(prefix) in {normal(name) for name in known[member]}

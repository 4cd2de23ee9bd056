import pytest

from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.eap import (
    MsChapOperation,
    SimAkaAttribute,
    SimAkaClientError,
    SimAkaNotification,
    SimAkaSubtype,
)
from tests.wire.registries.oracle import normal, values


def test_values_have_names():
    assert get_name(SimAkaAttribute, 136) == "AT_BIDDING"
    assert get_name(SimAkaSubtype, 13) == "Reauthentication"
    assert get_name(MsChapOperation, 5) == "5"


@pytest.mark.tshark
@pytest.mark.parametrize(
    ("registry", "field"),
    [
        (SimAkaNotification, "notification_type"),
        (SimAkaClientError, "error_code"),
    ],
)
def test_codes_against_tshark(registry, field):
    for method in ("sim", "aka"):
        known = values()[f"eap.{method}.{field}"]
        for member in registry:
            # tshark has the RFC's sentence; ours is made of its words
            words = known[member][0].lower().split()
            assert all(word in words for word in member.label.lower().split())


@pytest.mark.tshark
@pytest.mark.parametrize(
    ("registry", "field"),
    [
        (SimAkaAttribute, "eap.aka.subtype.type"),
        (SimAkaSubtype, "eap.sim.subtype"),
        (SimAkaSubtype, "eap.aka.subtype"),
        (MsChapOperation, "eap.ms_chap_v2.opcode"),
    ],
)
def test_names_are_those_of_tshark(registry, field):
    known = values()[field]
    assert len(set(registry) & set(known)) >= 5
    for member in registry:
        if member in known:
            assert normal(known[member][0]).removeprefix("AKA") == normal(member.label)

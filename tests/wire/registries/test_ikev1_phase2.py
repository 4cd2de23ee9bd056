import pytest

from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries import ikev1_phase2 as ours
from tests.wire.registries.oracle import normal, values


@pytest.mark.parametrize(
    ("registry", "value", "name"),
    [
        (ours.EspTransform, 12, "AES-CBC"),
        (ours.EspTransform, 20, "AES-GCM-16"),
        (ours.AhTransform, 5, "SHA2-256"),
        (ours.AuthenticationAlgorithm, 2, "HMAC-SHA1"),
        (ours.Phase2Attribute, 99, "99"),
        (ours.TransactionType, 1, "REQUEST"),
        (ours.TRANSFORM_IDS[4], 2, "DEFLATE"),
    ],
)
def test_values_have_names(registry, value, name):
    assert get_name(registry, value) == name


def test_attributes_of_a_transaction():
    names = [ours.get_transaction_attribute_name(kind) for kind in (1, 16521, 16522, 28672)]
    assert names == ["INTERNAL_IP4_ADDRESS", "XAUTH_USER_NAME", "XAUTH_USER_PASSWORD", "28672"]


@pytest.mark.tshark
@pytest.mark.parametrize(
    ("registry", "field"),
    [
        (ours.AuthenticationAlgorithm, "isakmp.ipsec.attr.auth_algorithm"),
        (ours.TransactionType, "isakmp.cfg.type"),
        (ours.Phase2Attribute, "isakmp.ipsec.attr.type"),
    ],
)
def test_names_are_those_of_tshark(registry, field):
    known = values()[field]
    requested = 0
    for member in registry:
        names = {normal(name).removeprefix("ISAKMPCFG").removeprefix("CFG") for name in known[member]}
        # words that are spelt out there: ECN Tunnel, Extended (64-bit) Sequence Number
        label = normal(member.label).replace("SHA1", "SHA").replace("EXTENDEDSEQ", "EXTENDED64BITSEQ")
        assert any(label in name for name in names), (member, names)
        requested += 1
    assert requested >= 4


@pytest.mark.tshark
def test_xauth_against_tshark():
    known = values()["isakmp.cfg.attr.type"]
    for member in ours.XauthAttribute:
        assert normal(member.label).removeprefix("XAUTH") in {
            normal(name).removeprefix("XAUTH").replace("CHALLANGE", "CHALLENGE") for name in known[member]
        }

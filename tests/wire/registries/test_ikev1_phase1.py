import pytest

from ikeanalyze.wire.registries import ikev1_phase1 as ours
from ikeanalyze.wire.registries import name_of
from tests.wire.registries.oracle import normal, values


@pytest.mark.parametrize(
    ("registry", "value", "name"),
    [
        (ours.Encryption, 7, "AES-CBC"),
        (ours.Encryption, 5, "3DES-CBC"),
        (ours.Hash, 2, "SHA1"),
        (ours.AuthenticationMethod, 1, "PSK"),
        (ours.AuthenticationMethod, 3, "RSA-SIG"),
        (ours.AuthenticationMethod, 65001, "XAuthInitPSK"),
        (ours.Group, 14, "MODP-2048"),
        (ours.Group, 99, "99"),
    ],
)
def test_names(registry, value, name):
    assert name_of(registry, value) == name


@pytest.mark.tshark
@pytest.mark.parametrize(
    ("registry", "field"),
    [
        (ours.Phase1Attribute, "isakmp.ike.attr.type"),
        (ours.Encryption, "isakmp.ike.attr.encryption_algorithm"),
        (ours.Hash, "isakmp.ike.attr.hash_algorithm"),
        (ours.LifeType, "isakmp.ike.attr.life_type"),
        (ours.GroupType, "isakmp.ike.attr.group_type"),
    ],
)
def test_against_tshark(registry, field):
    for member in registry:
        assert normal(member.label).replace("SHA1", "SHA") in {normal(name) for name in values()[field][member]}


@pytest.mark.tshark
def test_authentication_methods_against_tshark():
    known = values()["isakmp.ike.attr.authentication_method"]
    assert set(ours.AuthenticationMethod) <= set(known)
    for method in ours.AuthenticationMethod:
        if method > 60000:
            long = normal(known[method][0]).replace("PRESHARED", "PSK").replace("ENCRYPTION", "ENC")
            assert normal(method.label).replace("ENCREVISED", "REVISEDENC") == long

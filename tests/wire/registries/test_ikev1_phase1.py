import pytest

from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries import ikev1_phase1 as ours
from tests.wire.registries.oracle import normal, values


@pytest.mark.parametrize(
    ("registry", "value", "name"),
    [
        (ours.Phase1Encryption, 7, "AES-CBC"),
        (ours.Phase1Encryption, 5, "3DES-CBC"),
        (ours.Phase1Hash, 2, "SHA1"),
        (ours.AuthenticationMethod, 1, "PSK"),
        (ours.AuthenticationMethod, 3, "RSA-SIG"),
        (ours.AuthenticationMethod, 65001, "XAuthInitPSK"),
        (ours.Phase1Group, 14, "MODP-2048"),
        (ours.Phase1Group, 99, "99"),
    ],
)
def test_values_have_names(registry, value, name):
    assert get_name(registry, value) == name


@pytest.mark.tshark
@pytest.mark.parametrize(
    ("registry", "field"),
    [
        (ours.Phase1Attribute, "isakmp.ike.attr.type"),
        (ours.Phase1Encryption, "isakmp.ike.attr.encryption_algorithm"),
        (ours.Phase1Hash, "isakmp.ike.attr.hash_algorithm"),
    ],
)
def test_names_are_those_of_tshark(registry, field):
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

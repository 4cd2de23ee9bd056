import pytest

from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.hip_parameters import (
    DhGroup,
    EcdsaCurve,
    HipCipher,
    HipEspSuite,
    HipNotifyType,
    HipTransform,
    HitSuite,
    HostAlgorithm,
    NatMode,
    Registration,
)
from ikeanalyze.wire.registries.ikev2_transforms import KeyExchangeMethod


# numbers of IANA's registry "Host Identity Protocol (HIP) Parameters"
@pytest.mark.parametrize(
    ("registry", "value", "name"),
    [
        (DhGroup, 3, "MODP-1536"),
        (DhGroup, 7, "ECP-256"),
        (DhGroup, 10, "SECP160R1"),
        (DhGroup, 99, "99"),
        (HipCipher, 2, "AES-CBC-128"),
        (HipCipher, 4, "AES-CBC-256"),
        (HipTransform, 2, "3DES/HMAC-SHA1"),
        (HipEspSuite, 8, "AES-CBC-128/HMAC-SHA2-256"),
        (HipEspSuite, 13, "AES-GCM-16"),
        (HostAlgorithm, 5, "RSA"),
        (HostAlgorithm, 7, "ECDSA"),
        (HitSuite, 2, "ECDSA/SHA-384"),
        (EcdsaCurve, 1, "P-256"),
        (HipNotifyType, 42, "BLOCKED_BY_POLICY"),
        (HipNotifyType, 50, "INVALID_CERTIFICATE"),
        (HipNotifyType, 100, "NO_VALID_HIP_TRANSPORT_MODE"),
        (HipNotifyType, 16384, "I2_ACKNOWLEDGEMENT"),
        (HipNotifyType, 16385, "NAT_KEEPALIVE"),
        (Registration, 1, "RENDEZVOUS"),
        (NatMode, 2, "ICE-STUN-UDP"),
    ],
)
def test_values_have_names(registry, value, name):
    assert get_name(registry, value) == name


def test_groups_have_ikev2s_names():
    ours = {item.label for item in DhGroup} - {"MODP-384", "SECP160R1"}
    assert ours <= {item.label for item in KeyExchangeMethod}

"""Registries of IKEv1's phase 2 (RFC 2407, sections 4.4 and 4.5) and of its configuration transactions.

The transactions are specified in draft-dukes-ike-mode-cfg and draft-beaulieu-ike-xauth.
"""

from collections.abc import Mapping
from typing import Final

from ikeanalyze.wire.registries import DashedRegistry, Registry
from ikeanalyze.wire.registries.ikev1 import Ikev1ProtocolId
from ikeanalyze.wire.registries.ikev2 import ConfigurationAttribute


class EspTransform(DashedRegistry):
    """ESP transforms, IANA's ESP_... (RFC 2407, section 4.4.4; RFC 3602, RFC 3686, RFC 4106, RFC 4309, RFC 4543)."""

    DES_IV64 = 1
    DES = 2
    TRIPLE_DES = 3, "3DES"
    RC5 = 4
    IDEA = 5
    CAST = 6
    BLOWFISH = 7
    TRIPLE_IDEA = 8, "3IDEA"
    DES_IV32 = 9
    RC4 = 10
    NULL = 11
    AES_CBC = 12
    AES_CTR = 13
    AES_CCM_8 = 14
    AES_CCM_12 = 15
    AES_CCM_16 = 16
    AES_GCM_8 = 18
    AES_GCM_12 = 19
    AES_GCM_16 = 20
    SEED_CBC = 21
    CAMELLIA = 22
    NULL_AUTH_AES_GMAC = 23


class AhTransform(DashedRegistry):
    """AH transforms, IANA's AH_... (RFC 2407, section 4.4.3)."""

    MD5 = 2
    SHA = 3
    DES = 4
    SHA2_256 = 5
    SHA2_384 = 6
    SHA2_512 = 7
    RIPEMD = 8
    AES_XCBC_MAC = 9


class Ikev1IpcompTransform(DashedRegistry):
    """IPCOMP transforms (RFC 2407, section 4.4.5)."""

    OUI = 1
    DEFLATE = 2
    LZS = 3
    LZJH = 4


class Phase2Attribute(DashedRegistry):
    """Attributes of a phase 2 transform (RFC 2407, section 4.5)."""

    SA_LIFE_TYPE = 1
    SA_LIFE_DURATION = 2
    GROUP_DESCRIPTION = 3
    ENCAPSULATION_MODE = 4
    AUTHENTICATION_ALGORITHM = 5
    KEY_LENGTH = 6
    KEY_ROUNDS = 7
    COMPRESS_DICTIONARY_SIZE = 8
    COMPRESS_PRIVATE_ALGORITHM = 9
    ECN_TUNNEL = 10
    EXTENDED_SEQUENCE_NUMBER = 11


class AuthenticationAlgorithm(DashedRegistry):
    """Integrity protection of ESP and AH (RFC 2407, section 4.5; RFC 4868)."""

    HMAC_MD5 = 1
    HMAC_SHA1 = 2
    DES_MAC = 3
    KPDK = 4
    HMAC_SHA2_256 = 5
    HMAC_SHA2_384 = 6
    HMAC_SHA2_512 = 7
    HMAC_RIPEMD = 8
    AES_XCBC_MAC = 9


class TransactionType(Registry):
    """Types of a configuration transaction (draft-dukes-ike-mode-cfg, section 3.2)."""

    REQUEST = 1
    REPLY = 2
    SET = 3
    ACK = 4


class XauthAttribute(Registry):
    """Attributes of XAuth (draft-beaulieu-ike-xauth, section 6.2)."""

    XAUTH_TYPE = 16520
    XAUTH_USER_NAME = 16521
    XAUTH_USER_PASSWORD = 16522
    XAUTH_PASSCODE = 16523
    XAUTH_MESSAGE = 16524
    XAUTH_CHALLENGE = 16525
    XAUTH_DOMAIN = 16526
    XAUTH_STATUS = 16527
    XAUTH_NEXT_PIN = 16528
    XAUTH_ANSWER = 16529


#: Registry of transform IDs, by protocol.
TRANSFORM_IDS: Final[Mapping[int, type[Registry]]] = {
    Ikev1ProtocolId.PROTO_IPSEC_AH: AhTransform,
    Ikev1ProtocolId.PROTO_IPSEC_ESP: EspTransform,
    Ikev1ProtocolId.PROTO_IPCOMP: Ikev1IpcompTransform,
}


def get_transaction_attribute_name(kind: int) -> str:
    """Name of an attribute in a configuration transaction; its number if it has no name."""
    for registry in (XauthAttribute, ConfigurationAttribute):
        member = registry._value2member_map_.get(kind)
        if member is not None:
            return member.name
    return str(kind)

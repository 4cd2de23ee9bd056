"""HIP registries (RFC 7401 and its companions): parameters, and the numbers in them.

Algorithms have the same names as in IKEv2. Values of draft-ietf-hip-dex, which IANA has not assigned, are marked.
"""

from ikeanalyze.wire.registries import DashedRegistry, Registry


class HipParameterType(Registry):
    """Parameter types (RFC 7401, section 5.2)."""

    ESP_INFO = 65  # RFC 7402
    R1_COUNTER_V1 = 128, "R1_Counter"  # RFC 5201
    R1_COUNTER = 129
    LOCATOR_SET = 193  # RFC 8046
    PUZZLE = 257
    SOLUTION = 321
    SEQ = 385
    ACK = 449
    DH_GROUP_LIST = 511
    DIFFIE_HELLMAN = 513
    HIP_TRANSFORM = 577  # RFC 5201
    HIP_CIPHER = 579
    NAT_TRAVERSAL_MODE = 608  # RFC 5770
    TRANSACTION_PACING = 610  # RFC 5770
    ENCRYPTED = 641
    ENCRYPTED_KEY = 643  # this and the next: draft-ietf-hip-dex
    I_NONCE = 644
    HOST_ID = 705
    HIT_SUITE_LIST = 715
    CERT = 768  # RFC 8002
    NOTIFICATION = 832
    ECHO_REQUEST_SIGNED = 897
    REG_INFO = 930  # this and the next three: RFC 8003
    REG_REQUEST = 932
    REG_RESPONSE = 934
    REG_FAILED = 936
    REG_FROM = 950  # RFC 5770
    ECHO_RESPONSE_SIGNED = 961
    TRANSPORT_FORMAT_LIST = 2049
    DH_GROUP_LIST_DRAFT = 2151, "DH_GROUP_LIST"  # drafts of RFC 7401, and implementations of them
    ESP_TRANSFORM = 4095  # RFC 7402
    SEQ_DATA = 4481  # this and the next three: RFC 6078
    ACK_DATA = 4545
    PAYLOAD_MIC = 4577
    TRANSACTION_ID = 4580
    OVERLAY_ID = 4592  # RFC 6079
    ROUTE_DST = 4601  # RFC 6028
    RELAYED_ADDRESS = 4650  # this and the next four: RFC 9028
    MAPPED_ADDRESS = 4660
    PEER_PERMISSION = 4680
    CANDIDATE_PRIORITY = 4700
    NOMINATE = 4710
    HIP_TRANSPORT_MODE = 7680  # RFC 6261
    HIP_MAC = 61505
    HIP_MAC_3 = 61507  # CMAC in early drafts of HIP DEX; later ones use HIP_MAC
    HIP_MAC_2 = 61569
    HIP_SIGNATURE_2 = 61633
    HIP_SIGNATURE = 61697
    ECHO_RESPONSE_UNSIGNED = 63425
    ECHO_REQUEST_UNSIGNED = 63661
    RELAY_FROM = 63998  # RFC 5770
    RELAY_TO = 64002  # RFC 5770
    OVERLAY_TTL = 64011  # RFC 6079
    ROUTE_VIA = 64017  # RFC 6028
    FROM = 65498  # this and the next two: RFC 8004
    RVS_HMAC = 65500
    VIA_RVS = 65502
    RELAY_HMAC = 65520  # RFC 5770


class DhGroup(DashedRegistry):
    """Diffie-Hellman groups (RFC 7401, section 5.2.7)."""

    MODP_384 = 1  # this, 2, 5 and 6: RFC 5201
    MODP_768 = 2
    MODP_1536 = 3
    MODP_3072 = 4
    MODP_6144 = 5
    MODP_8192 = 6
    ECP_256 = 7
    ECP_384 = 8
    ECP_521 = 9
    SECP160R1 = 10
    MODP_2048 = 11
    X25519 = 12  # this and the next: draft-ietf-hip-dex
    X448 = 13


class HipCipher(DashedRegistry):
    """Ciphers of HIP_CIPHER (RFC 7401, section 5.2.8)."""

    NULL = 1
    AES_CBC_128 = 2
    AES_CBC_256 = 4
    AES_CTR_128 = 5  # draft-ietf-hip-dex


class HipTransform(DashedRegistry):
    """Suites of HIPv1's HIP_TRANSFORM and ESP_TRANSFORM (RFC 5201, section 5.2.7; RFC 5202, section 5.1.2)."""

    AES_CBC_128_HMAC_SHA1 = 1, "AES-CBC-128/HMAC-SHA1"
    TRIPLE_DES_HMAC_SHA1 = 2, "3DES/HMAC-SHA1"
    TRIPLE_DES_HMAC_MD5 = 3, "3DES/HMAC-MD5"
    BLOWFISH_HMAC_SHA1 = 4, "BLOWFISH/HMAC-SHA1"
    NULL_HMAC_SHA1 = 5, "NULL/HMAC-SHA1"
    NULL_HMAC_MD5 = 6, "NULL/HMAC-MD5"


class HipEspSuite(DashedRegistry):
    """Suites of ESP_TRANSFORM (RFC 7402, section 5.1.2)."""

    AES_CBC_128_HMAC_SHA1 = 1, "AES-CBC-128/HMAC-SHA1"
    NULL_HMAC_SHA2_256 = 7, "NULL/HMAC-SHA2-256"
    AES_CBC_128_HMAC_SHA2_256 = 8, "AES-CBC-128/HMAC-SHA2-256"
    AES_CBC_256_HMAC_SHA2_256 = 9, "AES-CBC-256/HMAC-SHA2-256"
    AES_CCM_8 = 10
    AES_CCM_16 = 11
    AES_GCM_8 = 12
    AES_GCM_16 = 13
    AES_CMAC_96 = 14
    AES_GMAC = 15


class HostAlgorithm(Registry):
    """Algorithms of host identities and of signatures (RFC 7401, section 5.2.9)."""

    NULL = 1
    DSA = 3
    RSA = 5
    ECDSA = 7
    ECDSA_LOW = 9
    ECDH = 11  # draft-ietf-hip-dex: a static key of its Diffie-Hellman group
    EDDSA = 13, "EdDSA"  # RFC 9374


class HitSuite(Registry):
    """HIT suites: algorithms of a host identity and of its hash (RFC 7401, section 5.2.10)."""

    RSA_DSA_SHA256 = 1, "RSA,DSA/SHA-256"
    ECDSA_SHA384 = 2, "ECDSA/SHA-384"
    ECDSA_LOW_SHA1 = 3, "ECDSA_LOW/SHA-1"
    EDDSA_CSHAKE128 = 5, "EdDSA/cSHAKE128"  # RFC 9374


class EcdsaCurve(DashedRegistry):
    """Curves of ECDSA host identities (RFC 7401, section 5.2.9)."""

    P_256 = 1
    P_384 = 2


class HipNotifyType(Registry):
    """Notify message types (RFC 7401, section 5.2.19, and its companions)."""

    UNSUPPORTED_CRITICAL_PARAMETER_TYPE = 1
    INVALID_SYNTAX = 7
    NO_DH_PROPOSAL_CHOSEN = 14
    INVALID_DH_CHOSEN = 15
    NO_HIP_PROPOSAL_CHOSEN = 16
    INVALID_HIP_CIPHER_CHOSEN = 17
    NO_ESP_PROPOSAL_CHOSEN = 18
    INVALID_ESP_TRANSFORM_CHOSEN = 19
    UNSUPPORTED_HIT_SUITE = 20
    AUTHENTICATION_FAILED = 24
    CHECKSUM_FAILED = 26
    HIP_MAC_FAILED = 28
    ENCRYPTION_FAILED = 32
    INVALID_HIT = 40
    BLOCKED_BY_POLICY = 42
    RESPONDER_BUSY_PLEASE_RETRY = 44
    LOCATOR_TYPE_UNSUPPORTED = 46  # RFC 8046
    CREDENTIALS_REQUIRED = 48  # this and the next: RFC 8002
    INVALID_CERTIFICATE = 50
    REG_REQUIRED = 51  # RFC 8003
    NO_VALID_NAT_TRAVERSAL_MODE_PARAMETER = 60  # this and the next two: RFC 5770
    CONNECTIVITY_CHECKS_FAILED = 61
    MESSAGE_NOT_RELAYED = 62
    SERVER_REFLEXIVE_CANDIDATE_ALLOCATION_FAILED = 63  # this and the next: RFC 9028
    RVS_HMAC_PROHIBITED_WITH_RELAY = 64
    OVERLAY_TTL_EXCEEDED = 70  # RFC 6079
    UNKNOWN_NEXT_HOP = 90  # RFC 6028
    NO_VALID_HIP_TRANSPORT_MODE = 100  # RFC 6261
    I2_ACKNOWLEDGEMENT = 16384
    NAT_KEEPALIVE = 16385  # RFC 9028


class Registration(Registry):
    """Services that hosts register with (RFC 8003, section 4.2)."""

    RENDEZVOUS = 1  # RFC 8004
    RELAY_UDP_HIP = 2  # RFC 5770
    RELAY_UDP_ESP = 3  # RFC 9028


class NatMode(DashedRegistry):
    """NAT traversal modes (RFC 5770, section 5.4; RFC 9028)."""

    UDP_ENCAPSULATION = 1
    ICE_STUN_UDP = 2
    ICE_HIP_UDP = 3

"""IKEv1 registries: ISAKMP (RFC 2408), the IPsec DOI (RFC 2407), IKE's attributes (RFC 2409), and what vendors added to them."""

from ikeanalyze.wire.registries import DashedRegistry, Registry


class ExchangeType(Registry):
    """Exchange types (RFC 2408, section 3.1; RFC 2409, section 5)."""

    BASE = 1, "Base"
    MAIN_MODE = 2, "Main Mode"
    AUTHENTICATION_ONLY = 3, "Authentication Only"
    AGGRESSIVE_MODE = 4, "Aggressive Mode"
    INFORMATIONAL = 5, "Informational"
    TRANSACTION = 6, "Transaction"
    QUICK_MODE = 32, "Quick Mode"
    NEW_GROUP_MODE = 33, "New Group Mode"


class PayloadType(Registry):
    """Payload types by their notation (RFC 2408, section 3.1; RFC 6407; RFC 3947), and those that vendors took."""

    NONE = 0
    SA = 1
    PROPOSAL = 2, "P"
    TRANSFORM = 3, "T"
    KE = 4
    ID = 5
    CERT = 6
    CERTREQ = 7, "CR"
    HASH = 8
    SIGNATURE = 9, "SIG"
    NONCE = 10
    NOTIFY = 11, "N"
    DELETE = 12, "D"
    VENDOR_ID = 13, "VID"
    ATTRIBUTES = 14, "ATTR"
    SAK = 15
    SAT = 16
    KD = 17
    SEQ = 18
    POP = 19
    NAT_D = 20, "NAT-D"
    NAT_OA = 21, "NAT-OA"
    GAP = 22
    NAT_D_DRAFT = 130, "NAT-D"  # draft-ietf-ipsec-nat-t-ike-01 to 03
    NAT_OA_DRAFT = 131, "NAT-OA"
    FRAGMENT = 132, "FRAG"  # Cisco's and Microsoft's fragmentation


class Doi(Registry):
    """Domains of interpretation (RFC 2408, section 3.4)."""

    ISAKMP = 0
    IPSEC = 1
    GDOI = 2


class Situation(Registry):
    """Bits of the situation (RFC 2407, section 4.2)."""

    SIT_IDENTITY_ONLY = 1
    SIT_SECRECY = 2
    SIT_INTEGRITY = 4


class ProtocolId(Registry):
    """Protocols (RFC 2407, section 4.4.1)."""

    PROTO_ISAKMP = 1
    PROTO_IPSEC_AH = 2
    PROTO_IPSEC_ESP = 3
    PROTO_IPCOMP = 4
    PROTO_GIGABEAM_RADIO = 5


class NotifyType(DashedRegistry):
    """Notify message types (RFC 2408, section 3.14.1; RFC 2407, section 4.6.3; RFC 3706), and Cisco's."""

    INVALID_PAYLOAD_TYPE = 1
    DOI_NOT_SUPPORTED = 2
    SITUATION_NOT_SUPPORTED = 3
    INVALID_COOKIE = 4
    INVALID_MAJOR_VERSION = 5
    INVALID_MINOR_VERSION = 6
    INVALID_EXCHANGE_TYPE = 7
    INVALID_FLAGS = 8
    INVALID_MESSAGE_ID = 9
    INVALID_PROTOCOL_ID = 10
    INVALID_SPI = 11
    INVALID_TRANSFORM_ID = 12
    ATTRIBUTES_NOT_SUPPORTED = 13
    NO_PROPOSAL_CHOSEN = 14
    BAD_PROPOSAL_SYNTAX = 15
    PAYLOAD_MALFORMED = 16
    INVALID_KEY_INFORMATION = 17
    INVALID_ID_INFORMATION = 18
    INVALID_CERT_ENCODING = 19
    INVALID_CERTIFICATE = 20
    CERT_TYPE_UNSUPPORTED = 21
    INVALID_CERT_AUTHORITY = 22
    INVALID_HASH_INFORMATION = 23
    AUTHENTICATION_FAILED = 24
    INVALID_SIGNATURE = 25
    ADDRESS_NOTIFICATION = 26
    NOTIFY_SA_LIFETIME = 27
    CERTIFICATE_UNAVAILABLE = 28
    UNSUPPORTED_EXCHANGE_TYPE = 29
    UNEQUAL_PAYLOAD_LENGTHS = 30
    CONNECTED = 16384
    RESPONDER_LIFETIME = 24576
    REPLAY_STATUS = 24577
    INITIAL_CONTACT = 24578
    R_U_THERE = 36136
    R_U_THERE_ACK = 36137
    UNITY_LOAD_BALANCE = 40501
    UNITY_GROUP_HASH = 40503


class Phase1Attribute(DashedRegistry):
    """Attribute classes of phase 1 (RFC 2409, appendix A)."""

    ENCRYPTION_ALGORITHM = 1
    HASH_ALGORITHM = 2
    AUTHENTICATION_METHOD = 3
    GROUP_DESCRIPTION = 4
    GROUP_TYPE = 5
    GROUP_PRIME = 6
    GROUP_GENERATOR_ONE = 7
    GROUP_GENERATOR_TWO = 8
    GROUP_CURVE_A = 9
    GROUP_CURVE_B = 10
    LIFE_TYPE = 11
    LIFE_DURATION = 12
    PRF = 13
    KEY_LENGTH = 14
    FIELD_SIZE = 15
    GROUP_ORDER = 16


class Encryption(DashedRegistry):
    """Encryption algorithms of phase 1 (RFC 2409, appendix A; RFC 3602; RFC 4312)."""

    DES_CBC = 1
    IDEA_CBC = 2
    BLOWFISH_CBC = 3
    RC5_R16_B64_CBC = 4
    TRIPLE_DES_CBC = 5, "3DES-CBC"
    CAST_CBC = 6
    AES_CBC = 7
    CAMELLIA_CBC = 8


class Hash(DashedRegistry):
    """Hash algorithms of phase 1 (RFC 2409, appendix A; RFC 4868)."""

    MD5 = 1
    SHA1 = 2
    TIGER = 3
    SHA2_256 = 4
    SHA2_384 = 5
    SHA2_512 = 6


class AuthenticationMethod(DashedRegistry):
    """Authentication methods of phase 1 (RFC 2409, appendix A; RFC 4754), and those of the XAuth and hybrid drafts."""

    PSK = 1
    DSS_SIG = 2
    RSA_SIG = 3
    RSA_ENC = 4
    RSA_ENC_REVISED = 5
    ECDSA_256 = 9
    ECDSA_384 = 10
    ECDSA_521 = 11
    HYBRID_INIT_RSA = 64221, "HybridInitRSA"
    HYBRID_RESP_RSA = 64222, "HybridRespRSA"
    HYBRID_INIT_DSS = 64223, "HybridInitDSS"
    HYBRID_RESP_DSS = 64224, "HybridRespDSS"
    XAUTH_INIT_PSK = 65001, "XAuthInitPSK"
    XAUTH_RESP_PSK = 65002, "XAuthRespPSK"
    XAUTH_INIT_DSS = 65003, "XAuthInitDSS"
    XAUTH_RESP_DSS = 65004, "XAuthRespDSS"
    XAUTH_INIT_RSA = 65005, "XAuthInitRSA"
    XAUTH_RESP_RSA = 65006, "XAuthRespRSA"
    XAUTH_INIT_RSA_ENC = 65007, "XAuthInitRSAEnc"
    XAUTH_RESP_RSA_ENC = 65008, "XAuthRespRSAEnc"
    XAUTH_INIT_RSA_ENC_REVISED = 65009, "XAuthInitRSAEncRevised"
    XAUTH_RESP_RSA_ENC_REVISED = 65010, "XAuthRespRSAEncRevised"


class Group(DashedRegistry):
    """Group descriptions (RFC 2409, section 6, and others); those up to 30 are IANA's, 31 and 32 are in use as in IKEv2."""

    MODP_768 = 1
    MODP_1024 = 2
    EC2N_155 = 3
    EC2N_185 = 4
    MODP_1536 = 5
    EC2N_163_6 = 6  # two curves over each field: the number tells them apart
    EC2N_163_7 = 7
    EC2N_283_8 = 8
    EC2N_283_9 = 9
    EC2N_409_10 = 10
    EC2N_409_11 = 11
    EC2N_571_12 = 12
    EC2N_571_13 = 13
    MODP_2048 = 14
    MODP_3072 = 15
    MODP_4096 = 16
    MODP_6144 = 17
    MODP_8192 = 18
    ECP_256 = 19
    ECP_384 = 20
    ECP_521 = 21
    MODP_1024_160 = 22
    MODP_2048_224 = 23
    MODP_2048_256 = 24
    ECP_192 = 25
    ECP_224 = 26
    BRAINPOOL_P224R1 = 27
    BRAINPOOL_P256R1 = 28
    BRAINPOOL_P384R1 = 29
    BRAINPOOL_P512R1 = 30
    X25519 = 31
    X448 = 32


class GroupType(Registry):
    """Group types (RFC 2409, appendix A)."""

    MODP = 1
    ECP = 2
    EC2N = 3


class LifeType(Registry):
    """Life types (RFC 2409, appendix A)."""

    SECONDS = 1, "seconds"
    KILOBYTES = 2, "kilobytes"


class IdType(Registry):
    """Identification types (RFC 2407, section 4.6.2.1)."""

    ID_IPV4_ADDR = 1
    ID_FQDN = 2
    ID_USER_FQDN = 3
    ID_IPV4_ADDR_SUBNET = 4
    ID_IPV6_ADDR = 5
    ID_IPV6_ADDR_SUBNET = 6
    ID_IPV4_ADDR_RANGE = 7
    ID_IPV6_ADDR_RANGE = 8
    ID_DER_ASN1_DN = 9
    ID_DER_ASN1_GN = 10
    ID_KEY_ID = 11
    ID_LIST = 12  # RFC 3554

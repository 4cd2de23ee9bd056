"""IKEv1 registries: ISAKMP (RFC 2408), the IPsec DOI (RFC 2407), IKE (RFC 2409), and extensions of vendors."""

from ikeanalyze.wire.registries import Registry


class Ikev1ExchangeType(Registry):
    """Exchange types (RFC 2408, section 3.1; RFC 2409, section 5)."""

    BASE = 1, "Base"
    MAIN_MODE = 2, "Main Mode"
    AUTHENTICATION_ONLY = 3, "Authentication Only"
    AGGRESSIVE_MODE = 4, "Aggressive Mode"
    INFORMATIONAL = 5, "Informational"
    TRANSACTION = 6, "Transaction"
    QUICK_MODE = 32, "Quick Mode"
    NEW_GROUP_MODE = 33, "New Group Mode"


class Ikev1PayloadType(Registry):
    """Payload types by their notation (RFC 2408, section 3.1; RFC 6407; RFC 3947), and vendors'."""

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


class Ikev1ProtocolId(Registry):
    """Protocols (RFC 2407, section 4.4.1)."""

    PROTO_ISAKMP = 1
    PROTO_IPSEC_AH = 2
    PROTO_IPSEC_ESP = 3
    PROTO_IPCOMP = 4
    PROTO_GIGABEAM_RADIO = 5


class Ikev1IdType(Registry):
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

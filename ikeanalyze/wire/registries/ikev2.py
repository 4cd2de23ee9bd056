"""IKEv2 registries, except those of notifies and transforms (`ikev2_notifies`, `ikev2_transforms`)."""

from typing import Final

from ikeanalyze.wire.registries import Registry


class ExchangeType(Registry):
    """Exchange types (RFC 7296, section 3.1)."""

    IKE_SA_INIT = 34
    IKE_AUTH = 35
    CREATE_CHILD_SA = 36
    INFORMATIONAL = 37
    IKE_SESSION_RESUME = 38  # RFC 5723
    GSA_AUTH = 39  # RFC 9838
    GSA_REGISTRATION = 40  # RFC 9838
    GSA_REKEY = 41  # RFC 9838
    GSA_INBAND_REKEY = 42  # RFC 9838
    IKE_INTERMEDIATE = 43  # RFC 9242
    IKE_FOLLOWUP_KE = 44  # RFC 9370


#: Exchanges whose messages are not encrypted, the first of an IKE SA.
INIT_EXCHANGES: Final = (ExchangeType.IKE_SA_INIT, ExchangeType.IKE_SESSION_RESUME)
#: Exchanges that authenticate the peers of an IKE SA.
AUTH_EXCHANGES: Final = (ExchangeType.IKE_AUTH, ExchangeType.GSA_AUTH)
#: Exchanges of the initiator that set up an IKE SA.
SET_UP_EXCHANGES: Final = (
    ExchangeType.IKE_SA_INIT,
    ExchangeType.IKE_AUTH,
    ExchangeType.IKE_SESSION_RESUME,
    ExchangeType.GSA_AUTH,
    ExchangeType.IKE_INTERMEDIATE,
)


class PayloadType(Registry):
    """Payload types by their notation (RFC 7296, section 3.2)."""

    NONE = 0
    SA = 33
    KE = 34
    IDI = 35, "IDi"
    IDR = 36, "IDr"
    CERT = 37
    CERTREQ = 38
    AUTH = 39
    NONCE = 40, "No"
    NOTIFY = 41, "N"
    DELETE = 42, "D"
    VENDOR_ID = 43, "V"
    TSI = 44, "TSi"
    TSR = 45, "TSr"
    SK = 46
    CP = 47
    EAP = 48
    GSPM = 49  # RFC 6467
    IDG = 50, "IDg"  # this and the next two: RFC 9838
    GSA = 51
    KD = 52
    SKF = 53  # RFC 7383
    PS = 54  # RFC 8019


class ProtocolId(Registry):
    """Security protocol identifiers (RFC 7296, section 3.3.1)."""

    IKE = 1
    AH = 2
    ESP = 3
    FC_ESP_HEADER = 4  # RFC 4595
    FC_CT_AUTHENTICATION = 5  # RFC 4595
    GIKE_UPDATE = 6  # RFC 9838


class IdType(Registry):
    """Identification types (RFC 7296, section 3.5)."""

    ID_IPV4_ADDR = 1
    ID_FQDN = 2
    ID_RFC822_ADDR = 3
    ID_IPV6_ADDR = 5
    ID_DER_ASN1_DN = 9
    ID_DER_ASN1_GN = 10
    ID_KEY_ID = 11
    ID_FC_NAME = 12  # RFC 4595
    ID_NULL = 13  # RFC 7619


class CertEncoding(Registry):
    """Certificate encodings (RFC 7296, section 3.6)."""

    PKCS7 = 1, "PKCS #7 wrapped X.509 certificate"
    PGP = 2, "PGP Certificate"
    DNS = 3, "DNS Signed Key"
    X509_SIGNATURE = 4, "X.509 Certificate - Signature"
    KERBEROS = 6, "Kerberos Token"
    CRL = 7, "Certificate Revocation List (CRL)"
    ARL = 8, "Authority Revocation List (ARL)"
    SPKI = 9, "SPKI Certificate"
    X509_ATTRIBUTE = 10, "X.509 Certificate - Attribute"
    RAW_RSA_KEY = 11, "Raw RSA Key"
    HASH_AND_URL = 12, "Hash and URL of X.509 certificate"
    HASH_AND_URL_BUNDLE = 13, "Hash and URL of X.509 bundle"
    OCSP = 14, "OCSP Content"  # RFC 4806
    RAW_PUBLIC_KEY = 15, "Raw Public Key"  # RFC 7670


class AuthMethod(Registry):
    """Authentication methods (RFC 7296, section 3.8)."""

    RSA = 1, "RSA Digital Signature"
    SHARED_KEY = 2, "Shared Key Message Integrity Code"
    DSS = 3, "DSS Digital Signature"
    ECDSA_256 = 9, "ECDSA with SHA-256 on the P-256 curve"  # RFC 4754
    ECDSA_384 = 10, "ECDSA with SHA-384 on the P-384 curve"
    ECDSA_521 = 11, "ECDSA with SHA-512 on the P-521 curve"
    SECURE_PASSWORD = 12, "Generic Secure Password Authentication Method"  # RFC 6467
    NULL = 13, "NULL Authentication"  # RFC 7619
    DIGITAL_SIGNATURE = 14, "Digital Signature"  # RFC 7427


class HashAlgorithm(Registry):
    """Hash algorithms of SIGNATURE_HASH_ALGORITHMS (RFC 7427, section 7; RFC 8420; RFC 9385)."""

    SHA1 = 1
    SHA2_256 = 2, "SHA2-256"
    SHA2_384 = 3, "SHA2-384"
    SHA2_512 = 4, "SHA2-512"
    IDENTITY = 5, "Identity"
    STREEBOG_256 = 6
    STREEBOG_512 = 7


class TrafficSelectorType(Registry):
    """Traffic selector types (RFC 7296, section 3.13.1)."""

    TS_IPV4_ADDR_RANGE = 7
    TS_IPV6_ADDR_RANGE = 8
    TS_FC_ADDR_RANGE = 9  # RFC 4595
    TS_SECLABEL = 10  # RFC 9478


class ConfigurationType(Registry):
    """Types of the configuration payload (RFC 7296, section 3.15)."""

    CFG_REQUEST = 1
    CFG_REPLY = 2
    CFG_SET = 3
    CFG_ACK = 4


class ConfigurationAttribute(Registry):
    """Attributes of the configuration payload (RFC 7296, section 3.15.1)."""

    INTERNAL_IP4_ADDRESS = 1
    INTERNAL_IP4_NETMASK = 2
    INTERNAL_IP4_DNS = 3
    INTERNAL_IP4_NBNS = 4
    INTERNAL_IP4_DHCP = 6
    APPLICATION_VERSION = 7
    INTERNAL_IP6_ADDRESS = 8
    INTERNAL_IP6_DNS = 10
    INTERNAL_IP6_DHCP = 12
    INTERNAL_IP4_SUBNET = 13
    SUPPORTED_ATTRIBUTES = 14
    INTERNAL_IP6_SUBNET = 15
    MIP6_HOME_PREFIX = 16
    INTERNAL_IP6_LINK = 17
    INTERNAL_IP6_PREFIX = 18
    HOME_AGENT_ADDRESS = 19
    P_CSCF_IP4_ADDRESS = 20
    P_CSCF_IP6_ADDRESS = 21
    FTT_KAT = 22
    EXTERNAL_SOURCE_IP4_NAT_INFO = 23
    TIMEOUT_PERIOD_FOR_LIVENESS_CHECK = 24
    INTERNAL_DNS_DOMAIN = 25  # RFC 8598
    INTERNAL_DNSSEC_TA = 26  # RFC 8598
    ENCDNS_IP4 = 27  # RFC 9464
    ENCDNS_IP6 = 28
    ENCDNS_DIGEST_INFO = 29


class SecurePasswordMethod(Registry):
    """Secure password methods (RFC 6467, section 5)."""

    PACE = 1
    AUGPAKE = 2, "AugPAKE"
    SECURE_PSK = 3, "Secure PSK Authentication"


class PpkIdType(Registry):
    """Types of a post-quantum pre-shared key's identity (RFC 8784, section 5.1)."""

    PPK_ID_OPAQUE = 1
    PPK_ID_FIXED = 2

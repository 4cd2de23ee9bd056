"""Registries of IKEv1's phase 1: attributes and their values (RFC 2409, appendix A)."""

from ikeanalyze.wire.registries import DashedRegistry


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


class Phase1Encryption(DashedRegistry):
    """Encryption algorithms of phase 1 (RFC 2409, appendix A; RFC 3602; RFC 4312)."""

    DES_CBC = 1
    IDEA_CBC = 2
    BLOWFISH_CBC = 3
    RC5_R16_B64_CBC = 4
    TRIPLE_DES_CBC = 5, "3DES-CBC"
    CAST_CBC = 6
    AES_CBC = 7
    CAMELLIA_CBC = 8


class Phase1Hash(DashedRegistry):
    """Hash algorithms of phase 1 (RFC 2409, appendix A; RFC 4868)."""

    MD5 = 1
    SHA1 = 2
    TIGER = 3
    SHA2_256 = 4
    SHA2_384 = 5
    SHA2_512 = 6


class AuthenticationMethod(DashedRegistry):
    """Authentication methods (RFC 2409, appendix A; RFC 4754), and those of the XAuth and hybrid drafts."""

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


class Phase1Group(DashedRegistry):
    """Group descriptions (RFC 2409, section 6, and others); 31 and 32 are those of IKEv2, not assigned in IKEv1."""

    MODP_768 = 1
    MODP_1024 = 2
    EC2N_155 = 3
    EC2N_185 = 4
    MODP_1536 = 5
    EC2N_163_6 = 6  # two curves over each field
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

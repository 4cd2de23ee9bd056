"""HIP packet and parameter types (RFC 7401 and its companions)."""

from ikeanalyze.wire.registries import Registry


class HipPacketType(Registry):
    """Packet types (RFC 7401, section 5.3)."""

    I1 = 1
    R1 = 2
    I2 = 3
    R2 = 4
    UPDATE = 16
    NOTIFY = 17
    CLOSE = 18
    CLOSE_ACK = 19
    HDRR = 20  # RFC 6537
    HIP_DATA = 32  # RFC 6078


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
    DH_GROUP_LIST_DRAFT = 2151, "DH_GROUP_LIST"  # drafts of RFC 7401, and prototypes made after them
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
    HIP_MAC_3 = 61507  # CMAC of the first drafts of HIP DEX; later ones have it in HIP_MAC
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

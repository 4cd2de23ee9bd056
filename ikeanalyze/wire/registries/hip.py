"""HIP packet types (RFC 7401 and its companions). They share a column with the exchange types of IKE."""

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

"""Computes the size of packets in ESP, and the share of payload.

RFC 4303, section 2 (packet format), RFC 3948 (in UDP), RFC 9329, section 3 (in TCP). The `paper_` functions are formulas
9 to 12 of Xenakis and Merakos, "IPsec-based end-to-end VPN deployment over UMTS", as printed: transport mode, IPv4 and UDP,
and without an initialization vector, which RFC 2405 and RFC 2451 have in each packet. `compute_packet_size` counts it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ikeanalyze.model.esp.algorithms import EspCipherSuite, EspError
from ikeanalyze.model.esp.operations import Counts

#: Bytes of the headers of IPv4 without options and of IPv6 without extension headers.
IP_HEADER: Final = {4: 20, 6: 40}
TCP_HEADER: Final = 20  # without options
UDP_HEADER: Final = 8
ESP_HEADER: Final = 8  # SPI and sequence number
ESP_TRAILER: Final = 2  # pad length and next header
_TCP_LENGTH: Final = 2  # RFC 9329, section 3: before each packet in the stream
_PAPER_ICV: Final = 12  # AuT_ESP of the paper's Table 2

#: The largest IP packet: a length field of 16 bits, in IPv6 without the header (RFC 791, 3.1; RFC 8200, 3).
LARGEST: Final = {4: 65535, 6: 65535 + IP_HEADER[6]}


class EspMode(StrEnum):
    """What ESP protects: what the IP packet carries, or the whole packet."""

    TRANSPORT = "transport"
    TUNNEL = "tunnel"


class EspEncapsulation(StrEnum):
    """What stands between the IP header and ESP."""

    NONE = "none"
    UDP = "udp"  # RFC 3948
    TCP = "tcp"  # RFC 9329; one ESP packet in a segment without options


#: Bytes of it.
_CARRIER: Final = {
    EspEncapsulation.NONE: 0,
    EspEncapsulation.UDP: UDP_HEADER,
    EspEncapsulation.TCP: TCP_HEADER + _TCP_LENGTH,
}


@dataclass(frozen=True, slots=True)
class EspConfig:
    """How the packets of an ESP SA are put together."""

    suite: EspCipherSuite
    mode: EspMode = EspMode.TUNNEL
    carrier: EspEncapsulation = EspEncapsulation.NONE
    inner: int = 4  # IP version of the packet to be protected
    outer: int = 4  # of the packet on the wire; in transport mode the same


@dataclass(frozen=True, slots=True)
class EspPacketSize:
    """One packet in ESP. Bytes, from the IP header on; all parts add up to `size`."""

    clear: int  # size of the IP packet without ESP
    size: int  # with it, on the wire
    ip: int  # outer IP header; in transport mode the packet's own
    carrier: int  # UDP or TCP header, and the length field of RFC 9329
    esp: int  # SPI and sequence number
    iv: int
    payload: int  # what is protected: the packet, in transport mode without its IP header
    padding: int
    trailer: int  # pad length and next header
    icv: int
    user: int  # of the payload what a TCP segment without options carries; 0: the packet has no room for it

    @property
    def added(self) -> int:
        """What ESP costs."""
        return self.size - self.clear

    @property
    def ratio(self) -> float:
        """R(S) of formula 12: user data divided by bytes on the wire."""
        return self.user / self.size


def validate_config(form: EspConfig) -> EspConfig:
    """`form`, if there can be such packets.

    Raises:
        EspError: there cannot.
    """
    if form.mode is EspMode.TRANSPORT and form.inner != form.outer:
        raise EspError("inner", "in transport mode the packet keeps its IP header: inner and outer are the same")
    return form


def compute_wire_bytes(form: EspConfig, clear: Counts) -> Counts:
    """Bytes on the wire of IP packets of `clear` bytes, without a look at what IP allows.

    IP header, UDP or TCP, ESP header, IV, ICV, and payload, padding and trailer, which fill whole blocks.
    """
    suite = form.suite
    around = IP_HEADER[form.outer] + _CARRIER[form.carrier] + ESP_HEADER + suite.iv + suite.icv
    sealed = clear - _left_out(form) + ESP_TRAILER
    return -(-sealed // suite.alignment) * suite.alignment + around


def compute_packet_size(form: EspConfig, clear: int) -> EspPacketSize:
    """A packet of `clear` bytes, IP header included, as it stands on the wire.

    Raises:
        EspError: no IP packet has this size, or it would become too large for one.
    """
    check_size(clear, form.inner)
    size = compute_wire_bytes(form, clear)
    if size > (most := LARGEST[form.outer]):
        raise EspError(
            "size",
            f"{clear:,} bytes become {size:,}, more than an IPv{form.outer} packet can have ({most:,})",
        )
    suite = form.suite
    payload = clear - _left_out(form)
    return EspPacketSize(
        clear=clear,
        size=size,
        ip=IP_HEADER[form.outer],
        carrier=_CARRIER[form.carrier],
        esp=ESP_HEADER,
        iv=suite.iv,
        payload=payload,
        padding=-(payload + ESP_TRAILER) % suite.alignment,
        trailer=ESP_TRAILER,
        icv=suite.icv,
        user=max(clear - IP_HEADER[form.inner] - TCP_HEADER, 0),
    )


def _left_out(form: EspConfig) -> int:
    """Bytes of the packet that ESP does not protect: in transport mode its IP header."""
    return 0 if form.mode is EspMode.TUNNEL else IP_HEADER[form.inner]


def find_largest_payload(form: EspConfig, mtu: int) -> int | None:
    """The largest packet that is no larger than `mtu` bytes in ESP; None: none is so small."""
    least = IP_HEADER[form.inner]
    block = form.suite.alignment
    smallest = compute_wire_bytes(form, least)
    if smallest > mtu:
        return None
    # the smallest one filled up to its block, and as many blocks more as there is room for
    filled = least + -(least - _left_out(form) + ESP_TRAILER) % block
    return filled + (min(mtu, LARGEST[form.outer]) - smallest) // block * block


def compute_payload_bounds(suite: EspCipherSuite, packets: int, esp_bytes: int) -> tuple[int, int]:
    """The least and the most bytes that so many ESP packets of together `esp_bytes` (SPI to ICV) carry.

    What is not known without keys is the padding: none, or all that fills a block up. A sender may add more (RFC 4303,
    section 2.7), so the least is what it is for a sender that does not hide sizes.
    """
    most = esp_bytes - packets * (ESP_HEADER + suite.iv + ESP_TRAILER + suite.icv)
    return most - packets * (suite.alignment - 1), most


def check_size(clear: int, version: int) -> None:
    """Raise `EspError` if no IP packet has this size."""
    least = IP_HEADER[version]
    if not least <= clear <= LARGEST[version]:
        raise EspError(
            "size",
            f"{clear} is no size of an IPv{version} packet; allowed is {least} to {LARGEST[version]} bytes",
        )


#: The paper's scenarios: name, multiple of bytes that padding fills up to, whether there is an ICV.
PAPER_SUITES: Final = {
    "null-md5": (4, True),
    "des": (8, False),
    "3des": (8, False),
    "des-md5": (8, True),
    "3des-md5": (8, True),
}


def compute_paper_size(suite: str, clear: Counts) -> Counts:
    """S(S_d): bytes of the packet on the wire, for IP packets of `clear` bytes (the paper's formulas 9, 10 and 11).

    `suite` is one of `PAPER_SUITES`: formula 10 is of null-md5, 9 of des and 3des, 11 of both with MD5.
    """
    block, authenticated = PAPER_SUITES[suite]
    header = IP_HEADER[4]
    blocks = -(-(clear - header + ESP_TRAILER) // block)
    return blocks * block + ESP_HEADER + UDP_HEADER + header + (_PAPER_ICV if authenticated else 0)


def compute_paper_ratio(suite: str | None, clear: int) -> float:
    """R(S_d): payload of TCP divided by bytes on the wire (the paper's formula 12); None: without protection."""
    size = clear if suite is None else compute_paper_size(suite, clear)
    return (clear - IP_HEADER[4] - TCP_HEADER) / size

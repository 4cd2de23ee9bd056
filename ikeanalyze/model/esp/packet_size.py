"""Computes the size of packets in ESP, and the share of payload.

RFC 4303, section 2 (packet format), RFC 3948 (in UDP), RFC 9329, section 3 (in TCP). The functions for the paper are
formulas 9 to 12 of Xenakis and Merakos, "IPsec-based end-to-end VPN deployment over UMTS", as printed: transport mode,
IPv4 and UDP, and without the initialization vector that RFC 2405 and RFC 2451 require, which `compute_packet_size`
counts.
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

#: The largest IP packet: the length field has 16 bits, in IPv6 without the header (RFC 791, 3.1; RFC 8200, 3).
_MAX_PACKET: Final = {4: 65535, 6: 65535 + IP_HEADER[6]}


class EspMode(StrEnum):
    """What ESP protects: the payload of the IP packet, or the whole packet."""

    TRANSPORT = "transport"
    TUNNEL = "tunnel"


class EspEncapsulation(StrEnum):
    """The protocol between the IP header and ESP."""

    NONE = "none"
    UDP = "udp"  # RFC 3948
    TCP = "tcp"  # RFC 9329; one ESP packet in a segment without options


#: Bytes of the encapsulation.
_CARRIER: Final = {
    EspEncapsulation.NONE: 0,
    EspEncapsulation.UDP: UDP_HEADER,
    EspEncapsulation.TCP: TCP_HEADER + _TCP_LENGTH,
}


@dataclass(frozen=True, slots=True)
class EspConfig:
    """The format of the packets of an ESP SA."""

    suite: EspCipherSuite
    mode: EspMode = EspMode.TUNNEL
    carrier: EspEncapsulation = EspEncapsulation.NONE
    inner: int = 4  # IP version of the packet to protect
    outer: int = 4  # IP version of the packet on the wire; in transport mode the same


@dataclass(frozen=True, slots=True)
class EspPacketSize:
    """The parts of a packet in ESP in bytes, from the IP header on; they add up to `size`."""

    clear: int  # size of the IP packet without ESP
    size: int  # with it, on the wire
    ip: int  # outer IP header; in transport mode the packet's own
    carrier: int  # UDP or TCP header, and the length field of RFC 9329
    esp: int  # SPI and sequence number
    iv: int
    payload: int  # the protected packet, in transport mode without its IP header
    padding: int
    trailer: int  # pad length and next header
    icv: int
    user: int  # data of a TCP segment without options in the payload; 0: no room

    @property
    def added(self) -> int:
        """Bytes that ESP adds."""
        return self.size - self.clear

    @property
    def ratio(self) -> float:
        """R(S) of formula 12: user data divided by bytes on the wire."""
        return self.user / self.size


def validate_config(config: EspConfig) -> EspConfig:
    """Return `config` if it is valid.

    Raises:
        EspError: the IP versions differ in transport mode.
    """
    if config.mode is EspMode.TRANSPORT and config.inner != config.outer:
        raise EspError("inner", "in transport mode the packet keeps its IP header: inner and outer are the same")
    return config


def compute_wire_bytes(config: EspConfig, clear: Counts) -> Counts:
    """Return the bytes on the wire of IP packets of `clear` bytes, without checking the maximum size of IP packets.

    They are IP header, UDP or TCP header, ESP header, IV, ICV, and payload, padding and trailer in whole blocks.
    """
    suite = config.suite
    overhead = IP_HEADER[config.outer] + _CARRIER[config.carrier] + ESP_HEADER + suite.iv + suite.icv
    encrypted = clear - _count_unprotected(config) + ESP_TRAILER
    return -(-encrypted // suite.alignment) * suite.alignment + overhead


def compute_packet_size(config: EspConfig, clear: int) -> EspPacketSize:
    """Return the parts of an ESP packet for a packet of `clear` bytes with IP header.

    Raises:
        EspError: the packet is too small or too large, without or with ESP.
    """
    check_size(clear, config.inner)
    size = compute_wire_bytes(config, clear)
    if size > (largest := _MAX_PACKET[config.outer]):
        limit = f"the {largest:,} bytes of an IPv{config.outer} packet"
        raise EspError("size", f"{clear:,} bytes become {size:,}, more than {limit}")
    suite = config.suite
    payload = clear - _count_unprotected(config)
    return EspPacketSize(
        clear=clear,
        size=size,
        ip=IP_HEADER[config.outer],
        carrier=_CARRIER[config.carrier],
        esp=ESP_HEADER,
        iv=suite.iv,
        payload=payload,
        padding=-(payload + ESP_TRAILER) % suite.alignment,
        trailer=ESP_TRAILER,
        icv=suite.icv,
        user=max(clear - IP_HEADER[config.inner] - TCP_HEADER, 0),
    )


def _count_unprotected(config: EspConfig) -> int:
    """Return the bytes of the packet that ESP does not protect: in transport mode its IP header."""
    return 0 if config.mode is EspMode.TUNNEL else IP_HEADER[config.inner]


def find_largest_payload(config: EspConfig, mtu: int) -> int | None:
    """Return the size of the largest packet that fits `mtu` bytes in ESP; None: none fits."""
    smallest_packet = IP_HEADER[config.inner]
    block = config.suite.alignment
    smallest = compute_wire_bytes(config, smallest_packet)
    if smallest > mtu:
        return None
    # the smallest packet, filled up to whole blocks, and as many more blocks as fit
    filled = smallest_packet + -(smallest_packet - _count_unprotected(config) + ESP_TRAILER) % block
    return filled + (min(mtu, _MAX_PACKET[config.outer]) - smallest) // block * block


def compute_payload_bounds(suite: EspCipherSuite, packets: int, esp_bytes: int) -> tuple[int, int]:
    """Return the minimum and maximum payload bytes of ESP packets with `esp_bytes` in total, from SPI to ICV.

    Without keys the padding is unknown: from 0 bytes to one byte less than a block. A sender may add more padding to
    hide sizes (RFC 4303, section 2.7), which the minimum does not consider.
    """
    most = esp_bytes - packets * (ESP_HEADER + suite.iv + ESP_TRAILER + suite.icv)
    return most - packets * (suite.alignment - 1), most


def check_size(clear: int, version: int) -> None:
    """Raise `EspError` unless an IP packet can have this size."""
    smallest, largest = IP_HEADER[version], _MAX_PACKET[version]
    if not smallest <= clear <= largest:
        raise EspError("size", f"{clear} is not the size of an IPv{version} packet, {smallest} to {largest} bytes")


#: The paper's scenarios: name, block size in bytes, and whether packets have an ICV.
PAPER_SUITES: Final = {
    "null-md5": (4, True),
    "des": (8, False),
    "3des": (8, False),
    "des-md5": (8, True),
    "3des-md5": (8, True),
}


def compute_paper_size(suite: str, clear: Counts) -> Counts:
    """Return S(S_d): bytes on the wire for IP packets of `clear` bytes (the paper's formulas 9, 10 and 11).

    `suite` is one of `PAPER_SUITES`: formula 10 is of null-md5, 9 of des and 3des, 11 of both with MD5.
    """
    block, authenticated = PAPER_SUITES[suite]
    header = IP_HEADER[4]
    blocks = -(-(clear - header + ESP_TRAILER) // block)
    return blocks * block + ESP_HEADER + UDP_HEADER + header + (_PAPER_ICV if authenticated else 0)


def compute_paper_ratio(suite: str | None, clear: int) -> float:
    """Return R(S_d): payload of TCP divided by bytes on the wire (the paper's formula 12); None: without protection."""
    size = clear if suite is None else compute_paper_size(suite, clear)
    return (clear - IP_HEADER[4] - TCP_HEADER) / size

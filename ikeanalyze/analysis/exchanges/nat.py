"""Who is behind a NAT, by the NAT detection hashes of IKE_SA_INIT (RFC 7296, 2.23) and of IKEv1's phase 1 (RFC 3947,
3.2).

Each side sends the SHA-1 of the SPIs with the address and port that it believes to send from and to send to. A hash
that differs from that of the captured addresses shows that an address was changed on the way (or that a side forces UDP
encapsulation by a false hash, which its peer cannot distinguish from a NAT either). IKEv1 uses the hash algorithm that
the responder chose, and puts the hash of the receiver first.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ikeanalyze.analysis.messages.association import SaAssociation
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt64Array, find_rows, sort_distinct
from ikeanalyze.capture.decode.ip import FIRST_IPV6, strip_capture_numbers
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.header import FLAG_ENCRYPTED
from ikeanalyze.wire.ikev2.message import parse_payloads
from ikeanalyze.wire.ikev2.payloads import parse_notify_fields
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER
from ikeanalyze.wire.registries.ikev2 import PayloadType

if TYPE_CHECKING:
    from ikeanalyze.wire.ikev1.proposals import Ikev1Transform

_SIZE: Final = 20
_IPV4_END: Final = 6
_IPV6_END: Final = 18
#: Messages that are hashed at once: as objects of Python, those of a whole capture would take tens of megabytes of
#: memory that was never used before.
_HASHED_AT_ONCE: Final = 4096


class EndpointArray(Struct, frozen=True):
    """An address and a port for each of many messages, as they are hashed."""

    data: UInt8Array  # address and port, padded with zeros for IPv4. (n, 18)
    size: Int64Array  # bytes of them. (n,)


def encode_endpoints(addresses: UInt64Array, ports: npt.NDArray[np.uint16], ipv6: Sequence[bytes]) -> EndpointArray:
    """Endpoints of these address codes and ports; `ipv6` are the addresses that the codes stand for."""
    count = len(addresses)
    addresses = strip_capture_numbers(addresses)
    data = np.zeros((count, _IPV6_END), np.uint8)
    size = np.where(addresses >= FIRST_IPV6, _IPV6_END, _IPV4_END)
    port = ports.astype(">u2").view(np.uint8).reshape(count, 2)
    ipv4_rows, ipv6_rows = np.flatnonzero(size == _IPV4_END), np.flatnonzero(size == _IPV6_END)
    data[ipv4_rows, :4] = addresses[ipv4_rows].astype(">u4").view(np.uint8).reshape(-1, 4)
    data[ipv4_rows, 4:6] = port[ipv4_rows]
    if len(ipv6_rows):
        book = np.frombuffer(b"".join(ipv6), np.uint8).reshape(-1, 16)
        data[ipv6_rows, :16] = book[addresses[ipv6_rows] - np.uint64(FIRST_IPV6)]
        data[ipv6_rows, 16:] = port[ipv6_rows]
    return EndpointArray(data, size)


def locate_nat_hashes(sample: bytes, notify_type: int) -> tuple[int, ...]:
    """Offsets of the hashes of one kind in messages of the sample's form."""
    places: list[int] = []
    for payload in parse_payloads(sample).payloads:
        if payload.type == PayloadType.NOTIFY:
            with suppress(WireError):
                notify, data = parse_notify_fields(payload.body)[:2]
                if notify == notify_type and len(data) == _SIZE:
                    places.append(payload.offset + PAYLOAD_HEADER.size + len(payload.body) - _SIZE)
    return tuple(places)


class NatClaims:
    """The hashes of one end (sender or receiver) of many messages."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._claims: list[tuple[Int64Array, UInt8Array]] = []

    def add(self, rows: Int64Array, messages: UInt8Array, places: tuple[int, ...]) -> None:
        """Add the hashes at these offsets of the messages of `rows`."""
        self._claims.extend((rows, messages[:, place : place + _SIZE].copy()) for place in places)

    def compare(self, spis: UInt8Array, seen: EndpointArray) -> npt.NDArray[np.int8]:
        """Whether the end of each message differs from its hashes: 1, 0, or -1 without a hash. (n,)

        `spis` has both SPIs of each message, `seen` is where the end was seen.
        """
        result = np.full(self._count, -1, np.int8)
        if not self._claims:
            return result
        for rows, _ in self._claims:
            result[rows] = 1
        claiming = np.flatnonzero(result == 1)
        # `take` copies whole rows, several times as fast as an index
        hashed = np.concatenate([spis.take(claiming, axis=0), seen.data.take(claiming, axis=0)], axis=1)
        expected = np.empty((self._count, _SIZE), np.uint8)
        expected[claiming] = _hash_rows(hashed, seen.size[claiming] + spis.shape[1])
        # a host with several addresses sends a hash for each
        for rows, claimed in self._claims:
            same = claimed.view(np.uint32) == expected.take(rows, axis=0).view(np.uint32)  # four bytes at a time
            result[rows[same.all(axis=1)]] = 0
        return result


def _hash_rows(messages: UInt8Array, size: Int64Array) -> UInt8Array:
    """SHA-1 of the first bytes of each row. (n, 20)"""
    import hashlib  # here, because it loads OpenSSL, and the compiled core hashes without it

    result = np.empty((len(messages), _SIZE), np.uint8)
    sha1 = hashlib.sha1  # prescribed by the protocol; not used for security here
    for used in sort_distinct(size).tolist():
        of_size = find_rows(size == used)
        for low in range(0, len(of_size), _HASHED_AT_ONCE):
            rows = of_size[low : low + _HASHED_AT_ONCE]
            # numpy cuts the rows into bytes objects three times as fast as slices would
            pieces = np.ascontiguousarray(messages[rows, :used]).view(f"V{used}").ravel().tolist()
            digests = b"".join([sha1(piece).digest() for piece in pieces])
            result[rows] = np.frombuffer(digests, np.uint8).reshape(-1, _SIZE)
    return result


def read_phase1_nat(
    datagrams: Datagrams,
    association: SaAssociation,
    get_message: Callable[[int], bytes | None],
    ipv6: Sequence[bytes],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Whether the endpoints of initiator and responder differ from the hashes of IKEv1: 1, 0, or -1 (unknown).

    `get_message` returns the clear message in a row of the datagrams.
    """
    differs = np.full((2, association.count), -1, np.int8)
    # encrypted messages have no hashes
    rows = np.flatnonzero(datagrams.is_ikev1 & (datagrams.flags & FLAG_ENCRYPTED == 0))
    if not len(rows):
        return differs[0], differs[1]
    import hashlib  # here, because few captures have IKEv1

    from ikeanalyze.wire.ikev1.message import parse_phase1_message

    sources = encode_endpoints(datagrams.source[rows], datagrams.source_port[rows], ipv6)
    destinations = encode_endpoints(datagrams.destination[rows], datagrams.destination_port[rows], ipv6)
    algorithm: dict[int, str] = {}
    for place, row in enumerate(rows.tolist()):
        handshake, sender = int(association.handshake[row]), int(not association.from_initiator[row])
        if not sender and handshake not in algorithm:
            continue  # the responder has not chosen yet
        view = parse_phase1_message(get_message(row) or b"")
        if sender and view.transforms:
            name = _get_hash_name(view.transforms[0])
            if name is not None:
                algorithm[handshake] = name
        if handshake not in algorithm or not view.nat_hashes:
            continue
        spis = b"".join(int(spi[row]).to_bytes(8, "big") for spi in (datagrams.spi_i, datagrams.spi_r))
        sent, received = (
            hashlib.new(
                algorithm[handshake], spis + ends.data[place, : ends.size[place]].tobytes(), usedforsecurity=False
            ).digest()
            for ends in (sources, destinations)
        )
        first, own = view.nat_hashes[:1], view.nat_hashes[1:]
        for side, seen, hashes in ((sender, sent, own), (1 - sender, received, first)):
            if any(len(claimed) == len(seen) for claimed in hashes):
                differs[side, handshake] = max(differs[side, handshake], seen not in hashes)
    return differs[0], differs[1]


def _get_hash_name(transform: "Ikev1Transform") -> str | None:
    """The hash algorithm of a phase 1 transform as hashlib names it; None: another or none."""
    from ikeanalyze.wire.registries.ikev1_phase1 import Phase1Attribute, Phase1Hash  # as above

    names: dict[int, str] = {
        Phase1Hash.MD5: "md5",
        Phase1Hash.SHA1: "sha1",
        Phase1Hash.SHA2_256: "sha256",
        Phase1Hash.SHA2_384: "sha384",
        Phase1Hash.SHA2_512: "sha512",
    }
    return names.get(transform.value(Phase1Attribute.HASH_ALGORITHM) or 0)


def classify_nat(
    initiator: npt.NDArray[np.int8], responder: npt.NDArray[np.int8], hidden: tuple[BoolArray, BoolArray]
) -> npt.NDArray[np.int8]:
    """Index into WORDS for each handshake.

    Args:
        initiator: behind a NAT (1), not (0), or unknown (-1), by the hashes that the capture has.
        responder: the same.
        hidden: whether the capture may lack hashes about the initiator, and about the responder, because it has only
            the beginning of a message. Then the side may be behind a NAT although no other hash shows it.
    """
    word = np.maximum(initiator, 0) + 2 * np.maximum(responder, 0)
    unknown = (initiator < 0) & (responder < 0)
    for side, may_lack in zip((initiator, responder), hidden, strict=True):
        unknown |= may_lack & (side < 1)
    return np.where(unknown, len(WORDS) - 1, word).astype(np.int8)


#: The words of the handshakes table.
WORDS: Final = ("none", "initiator", "responder", "both", None)

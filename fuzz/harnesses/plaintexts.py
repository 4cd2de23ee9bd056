"""The whole analysis of encrypted messages whose plaintext is hostile, but whose ICV is valid.

A peer with valid credentials can send such messages. The harness builds a capture from an IKE_SA_INIT exchange and
messages encrypted with fixed keys. An input consists of records: exchange type, flags, message ID, type of the first
payload, number of fragments (1 byte each), bytes of plaintext (2 bytes), plaintext.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from struct import Struct
from typing import Final
from zlib import adler32

from fuzz.harness import Harness
from fuzz.laws import check_analysis, check_formats
from fuzz.mutators.binary import mutate_bytes
from fuzz.workspace import get_path, write_file
from ikeanalyze.analysis.decryption.export import plan_decryption_edits
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.capture.write.rewrite import rewrite_capture
from ikeanalyze.crypto.sk_payload import MessageCipher, encrypt_message
from ikeanalyze.keys.detect import KeyFile
from ikeanalyze.keys.key_set import KeySet, Origin
from ikeanalyze.render import Format
from ikeanalyze.wire.header import FLAG_INITIATOR, Header
from ikeanalyze.wire.ikev2.encode import encode_key_exchange, encode_message, encode_sa
from ikeanalyze.wire.ikev2.proposals import Proposal, Transform, TransformAttributeValue
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType, ProtocolId
from ikeanalyze.wire.registries.ikev2_transforms import (
    Encryption,
    KeyExchangeMethod,
    Prf,
    TransformAttribute,
    TransformType,
)

RECORD: Final = Struct(">5BH")
_MAX_RECORDS: Final = 32
_MAX_FRAGMENTS: Final = 6
_MAX_PLAINTEXT: Final = 0xFFFF  # bytes
_SPI_I, _SPI_R = bytes.fromhex("0123456789abcdef"), bytes.fromhex("fedcba9876543210")
_IV_BYTES: Final = 8
_PCAP_HEADER: Final = Struct("<IHHiIII")
_PCAP_RECORD: Final = Struct("<4I")
_RAW_IP: Final = 101
_IPV4: Final = Struct(">BBHHHBBH4s4s")
_UDP: Final = Struct(">4H")
_FORMATS: Final = (Format.TERMINAL, Format.JSON, Format.MARKDOWN)
#: The decrypted copy is analysed for some inputs: it takes as long as the first analysis.
_SECOND_INTERVAL: Final = 4


def _make_proposal() -> Proposal:
    key_length = TransformAttributeValue(TransformAttribute.KEY_LENGTH, 256)
    return Proposal(
        1,
        ProtocolId.IKE,
        b"",
        (
            Transform(TransformType.ENCR, Encryption.AES_GCM_16, (key_length,)),
            Transform(TransformType.PRF, Prf.HMAC_SHA2_256, ()),
            Transform(TransformType.KE, KeyExchangeMethod.X25519, ()),
            Transform(TransformType.ADDKE1, KeyExchangeMethod.ML_KEM_768, ()),
        ),
    )


def _make_keys(epoch: int) -> KeySet:
    return KeySet(
        origin=Origin("fuzz", None),
        spi_i=_SPI_I,
        spi_r=_SPI_R,
        encryption=Encryption.AES_GCM_16,
        integrity=0,
        sk_ei=bytes([epoch, 1]) * 18,
        sk_er=bytes([epoch, 2]) * 18,
    )


_KEYS: Final = (_make_keys(0), _make_keys(1))
_KEY_FILE: Final = KeyFile("fuzz", ("fuzz",), list(_KEYS), [], [], [], None)


@dataclass(frozen=True, slots=True)
class PlaintextRecord:
    """One encrypted message."""

    exchange_type: int
    flags: int  # of the IKE header; the bit 0x80 selects the keys of epoch 1
    message_id: int
    first: int  # type of the first payload
    fragments: int
    plaintext: bytes

    def pack(self) -> bytes:
        """Return the bytes of the record in an input."""
        head = (self.exchange_type, self.flags, self.message_id, self.first, self.fragments)
        return RECORD.pack(*head, len(self.plaintext)) + self.plaintext


def parse_records(data: bytes) -> Iterator[PlaintextRecord]:
    """Split an input into records; the last one may be shorter than its length."""
    for _ in range(_MAX_RECORDS):
        if len(data) < RECORD.size:
            return
        exchange_type, flags, message_id, first, fragments, size = RECORD.unpack_from(data)
        plaintext = data[RECORD.size : RECORD.size + size]
        yield PlaintextRecord(exchange_type, flags, message_id, first, fragments, plaintext)
        data = data[RECORD.size + size :]


def _encrypt(record: PlaintextRecord) -> list[bytes]:
    header = Header(_SPI_I, _SPI_R, 0, 0x20, record.exchange_type, record.flags & 0x38, record.message_id, 0)
    decryptor = MessageCipher(_KEYS[record.flags >> 7])
    count = 1 + record.fragments % _MAX_FRAGMENTS
    if count == 1:
        return [encrypt_message(decryptor, header, record.first, record.plaintext, bytes(_IV_BYTES))]
    step = -(-len(record.plaintext) // count)
    return [
        encrypt_message(
            decryptor,
            header,
            record.first if number == 1 else 0,
            record.plaintext[step * (number - 1) : step * number],
            bytes([number] * _IV_BYTES),
            fragment=(number, count),
        )
        for number in range(1, count + 1)
    ]


def _make_init(response: bool) -> bytes:
    payloads = [
        encode_sa([_make_proposal()]),
        encode_key_exchange(KeyExchangeMethod.X25519, bytes(range(32))),
        (int(PayloadType.NONCE), bytes([response]) * 32),
    ]
    return encode_message(
        _SPI_I,
        _SPI_R if response else bytes(8),
        ExchangeType.IKE_SA_INIT,
        0,
        payloads,
        from_initiator=not response,
        response=response,
    )


def build_capture(records: Iterator[PlaintextRecord]) -> bytes:
    """Return a pcap file with the handshake of these messages, 1 ms apart."""
    messages = [(False, _make_init(response=False)), (True, _make_init(response=True))]
    for record in records:
        by_responder = not record.flags & FLAG_INITIATOR
        messages += [(by_responder, message) for message in _encrypt(record)]
    packets = [_PCAP_HEADER.pack(0xA1B2C3D4, 2, 4, 0, 0, 262144, _RAW_IP)]
    for number, (by_responder, message) in enumerate(messages):
        packet = _wrap(message, by_responder, number)
        packets.append(_PCAP_RECORD.pack(1_700_000_000, number * 1000, len(packet), len(packet)) + packet)
    return b"".join(packets)


def _wrap(message: bytes, by_responder: bool, ident: int) -> bytes:
    """Return an IPv4 packet, without checksums."""
    addresses = [bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))]
    source, destination = reversed(addresses) if by_responder else addresses
    udp = _UDP.pack(500, 500, _UDP.size + len(message), 0) + message
    return _IPV4.pack(0x45, 0, _IPV4.size + len(udp), ident, 0, 64, 17, 0, source, destination) + udp


def run(data: bytes) -> None:
    """Analyse the handshake with its keys, and write it decrypted."""
    path = write_file("plaintexts", build_capture(parse_records(data)))
    analysis = read_captures(path, ReadOptions(keys=[_KEY_FILE], cleartext=True))
    check_analysis(analysis)
    check_formats(analysis, [_FORMATS[adler32(data) % len(_FORMATS)]])
    edits = plan_decryption_edits(analysis.frames, analysis.cleartexts)
    copy = get_path("decrypted")
    rewrite_capture(path, copy, edits.edits)
    if adler32(data) % _SECOND_INTERVAL == 0:
        check_analysis(read_captures(copy, ReadOptions(payloads=True)))


def mutate(data: bytes, rng: Random) -> bytes:
    """Change a plaintext or the fields of a record, or drop, double or swap records."""
    records = list(parse_records(data))
    if not records:
        return mutate_bytes(data, rng)
    index, other = rng.randrange(len(records)), rng.randrange(len(records))
    match rng.randrange(10):
        case 0:
            del records[index]
        case 1:
            records.insert(other, records[index])
        case 2:
            records[index], records[other] = records[other], records[index]
        case 3 | 4:
            fields = bytearray(records[index].pack())
            fields[rng.randrange(5)] = rng.choice((rng.randrange(256), *range(33, 55)))
            (records[index],) = parse_records(bytes(fields))
        case _:
            plaintext = mutate_bytes(records[index].plaintext, rng)[:_MAX_PLAINTEXT]
            records[index] = replace(records[index], plaintext=plaintext)
    return b"".join(record.pack() for record in records)


HARNESS: Final = Harness(run, mutate, max_bytes=8192, share=0.01)

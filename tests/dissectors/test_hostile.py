"""Damaged and malicious captures: no error of Lua or of the plugin, in bounded time, in every tshark."""

import struct
import time
from random import Random

import pytest

from tests.craft import MS, Handshake, Trace, ike
from tests.dissectors.encryption import EncryptedSa
from tests.dissectors.key_files import keys_of
from tests.dissectors.run_plugin import run_plugin
from tests.paths import CAPTURES

RECORDED = (
    "pq-mlkem768-psk.pcap",
    "ikev1-fragments-loss15.pcap",
    "ip-fragments-loss10.pcap",
    "pq-loss15.pcap",
)


def show_everything(tshark, capture, **how):
    """All output of the plugin: details, filters, statistics. `run_plugin` asserts that there are no errors."""
    statistics = ("-z", "ikex,handshakes", "-z", "ikex,exchanges")
    return run_plugin(tshark, capture, "-2", "-Y", "isakmp || ikex", "-O", "ikex", *statistics, **how).stdout


def records(data):
    """Offset and size of the packets of a pcap file."""
    at, offsets = 24, []
    while at + 16 <= len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        offsets.append((at + 16, size))
        at += 16 + size
    return offsets


@pytest.mark.parametrize("name", RECORDED)
def test_flipped_bits_cause_no_error(tshark, name):
    rng = Random(name)
    data = bytearray((CAPTURES / name).read_bytes())
    for begin, size in records(data):
        for _ in range(rng.choice((0, 1, 3, 20))):
            data[begin + rng.randrange(min(34, size - 1), size)] = rng.choice(
                (0, 1, 46, 53, 128, 255, rng.randrange(256))
            )
    keys = keys_of(name) if name.startswith("pq-mlkem") else None
    show_everything(tshark, bytes(data), keys=keys)


@pytest.mark.parametrize("snaplen", [40, 46, 60, 71, 78, 100])
def test_truncated_packets_cause_no_error(tshark, snaplen):
    complete = (CAPTURES / "pq-mlkem768-psk.pcap").read_bytes()
    cut = bytearray(complete[:24])
    for begin, size in records(complete):
        head = bytearray(complete[begin - 16 : begin])
        struct.pack_into("<I", head, 8, min(size, snaplen))
        cut += head + complete[begin : begin + min(size, snaplen)]
    show_everything(tshark, bytes(cut), keys=keys_of("pq-mlkem768-psk"))


def malformed_messages():
    """Clear IKE_SA_INIT messages with many kinds of malformed payloads."""
    rng = Random(20)
    spi = rng.randbytes(8)

    def message(first, body, length=None):
        head = ike.ike_header(
            spi,
            bytes(8),
            first,
            ike.IKE_SA_INIT,
            ike.INITIATOR,
            0,
            28 + len(body) if length is None else length,
        )
        return head + body

    def payload(following, body, size=None):
        return struct.pack(">BBH", following, 0, 4 + len(body) if size is None else size) + body

    yield message(33, b"")  # a payload that does not exist
    yield message(33, payload(0, b"", 0))  # length 0: could cause an endless loop
    yield message(33, payload(33, b"", 4) * 5000)  # a long chain
    yield message(34, payload(0, b""))
    yield message(34, payload(0, b"\0"))
    yield message(41, payload(0, bytes([0, 255, 0, 1])))  # the SPI ends after the message
    yield message(33, payload(0, struct.pack(">BxHBBBB", 0, 8, 1, 1, 255, 255)))
    yield message(33, payload(0, struct.pack(">BxHBBBB", 2, 8, 1, 1, 0, 0) * 7000))  # thousands of proposals
    transforms = struct.pack(">BxHBxH", 3, 8, 6, 36) * 7000
    yield message(33, payload(0, struct.pack(">BxHBBBB", 0, 8 + len(transforms), 1, 1, 0, 255) + transforms))
    yield message(33, payload(0, struct.pack(">BxHBBBB", 0, 3, 1, 1, 0, 1)))  # shorter than its header
    yield message(200, payload(201, b"unknown"))
    yield message(0, b"trailing")
    yield message(33, b"\x22\x00\x00\x30", 20)  # a length below the header's
    yield message(33, b"\x22\x00\x00\x30", 4_000_000_000)


def test_malformed_payloads_are_reported_in_bounded_time(tshark):
    trace = Trace(mtu=65535)
    for number, data in enumerate(malformed_messages()):
        trace.send(number * MS, data)
    started = time.monotonic()
    assert "bytes after the last payload" in show_everything(tshark, trace.pcap())
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("tshark", ["forky"], indirect=True)
def test_malformed_decrypted_payloads_cause_no_error(tshark):
    """The same payloads inside encrypted messages."""
    sa = EncryptedSa(Random(21))
    trace = Trace(mtu=65535)
    trace.play(sa.handshake.init())
    sa.next_epoch()
    flags = ike.INITIATOR
    for number, data in enumerate(malformed_messages(), 1):
        inner = sa._message(ike.INFORMATIONAL, flags, number, data[16], data[28:60_000])
        trace.send(number * MS + 100 * MS, inner)
    show_everything(tshark, trace.pcap(), keys=sa.key_file())


def test_fragments_that_never_complete_a_message_take_bounded_time(tshark):
    """A few of 65,535 fragments; and thousands of fragments that never complete a message."""
    rng = Random(22)
    handshake = Handshake(rng, switch=False)
    trace = Trace()
    trace.play(handshake.init())
    for number in (1, 2, 65535, 0):
        part = ike.skf(handshake.spi_i, handshake.spi_r, ike.IKE_AUTH, ike.INITIATOR, 1, 35, [rng.randbytes(40)])[0]
        trace.send(number * MS + 50 * MS, part[:32] + struct.pack(">HH", number, 65535) + part[36:])
    total = 3000
    for at in range(total):
        number = rng.randrange(1, 60_000)
        part = ike.skf(handshake.spi_i, handshake.spi_r, ike.INFORMATIONAL, ike.INITIATOR, 2, 35, [rng.randbytes(40)])[
            0
        ]
        trace.send((1000 + at) * MS * 100, part[:32] + struct.pack(">HH", number, 60_000) + part[36:])
    started = time.monotonic()
    show_everything(tshark, trace.pcap())
    assert time.monotonic() - started < 30


def test_thousands_of_requests_with_one_spi_take_bounded_time(tshark):
    """Each with another nonce, as in a flood of forged IKE_SA_INIT requests."""
    rng = Random(23)
    spi = rng.randbytes(8)
    trace = Trace()
    for number in range(3000):
        payloads = [ike.sa([ike.CLASSIC]), ike.nonce(rng.randbytes(32))]
        data = ike.message(spi, bytes(8), ike.IKE_SA_INIT, ike.INITIATOR, 0, payloads)
        trace.send(number * MS, data, sport=1024 + number)
    started = time.monotonic()
    run_plugin(tshark, trace.pcap(), "-q", "-z", "ikex,handshakes")
    assert time.monotonic() - started < 20

"""A snapshot length (tcpdump -s) hides what is behind it: what a truncated capture shows agrees with the whole one."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import polars as pl
import pytest
from scapy.utils import RawPcapNgReader, RawPcapReader

from ikeanalyze import Analysis
from tests.analysis.analyse_captures import analyse, only
from tests.craft import MS, SECOND, Handshake, Packet, Trace, ike, pcap
from tests.paths import CAPTURES, LAB_CAPTURES

USE_PPK = 16435  # RFC 8784
#: Ethernet, IPv4, UDP and the IKE header. Below it and the 4 bytes of the non-ESP marker, nothing can be read.
HEADERS: Final = 14 + 20 + 8 + 28
#: The IKE header behind a marker, the number of an IKE fragment, tcpdump's old defaults, and lengths that end in the SA
#: payload, among the notifies, and behind most of IKE_SA_INIT.
LENGTHS: Final = (HEADERS + 4, 80, 96, 160, 256, 350, 450)
RECORDED: Final = (
    CAPTURES / "faults" / "half-open.pcapng",
    CAPTURES / "faults" / "ikev1-wrong-psk.pcapng",
    CAPTURES / "faults" / "mlkem-black-hole.pcapng",
    CAPTURES / "faults" / "mlkem-old-peer.pcapng",
    CAPTURES / "ikev1-fragments-loss15.pcap",
    LAB_CAPTURES / "libreswan-loss.pcapng",
    LAB_CAPTURES / "mixed.pcapng",
)
#: Codes that say what a message does not have.
ABOUT_ABSENCE: Final = frozenset(
    {"addke-not-offered", "intermediate-not-supported", "addke-left-out", "addke-not-chosen", "ppk-not-supported"}
)

#: What a diagnosis of a truncated capture says without having all that the diagnosis of the whole one has. It is no
#: contradiction if it is true of the whole capture, which names a likelier cause.
TRUE_OF_WHOLE: Final[Mapping[str, Callable[[dict[str, Any]], bool]]] = {
    "request-unanswered": lambda row: row["outcome"] == "unanswered",
    "addke-not-chosen": lambda row: bool(row["key_exchange"]) and not row["additional_key_exchanges"],
}


@cache
def read_packets(path) -> tuple[list[Packet], int]:
    """The packets of a recorded capture, and their link type."""
    packets: list[Packet] = []
    if path.suffix == ".pcap":
        with RawPcapReader(str(path)) as reader:
            unit = 1 if reader.nano else 1000
            packets = [Packet(at.sec * SECOND + at.usec * unit, data, length=at.wirelen) for data, at in reader]
            return packets, reader.linktype
    with RawPcapNgReader(str(path)) as reader:
        for data, at in reader:
            time_ns = ((at.tshigh << 32) + at.tslow) * SECOND // at.tsresol
            packets.append(Packet(time_ns, data, length=at.wirelen))
        return packets, at.linktype


@cache
def truncate(path, snapshot_length: int) -> Analysis:
    packets, linktype = read_packets(path)
    return analyse(pcap(packets, snaplen=snapshot_length, linktype=linktype))


def match_handshakes(truncated: Analysis, whole: Analysis) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The handshakes of both captures with the same SPIs."""
    by_spis = {(row["spi_i"], row["spi_r"]): row for row in whole.handshakes.iter_rows(named=True)}
    for row in truncated.handshakes.iter_rows(named=True):
        yield row, by_spis[row["spi_i"], row["spi_r"]]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_no_diagnosis_of_a_truncated_capture_contradicts_that_of_the_whole_one(path):
    whole = truncate(path, 1 << 16)
    for length in LENGTHS:
        for row, expected in match_handshakes(truncate(path, length), whole):
            codes = {entry["code"] for entry in expected["diagnosis"] or ()}
            for entry in row["diagnosis"] or ():
                if entry["confidence"] == "certain" or entry["code"] in ABOUT_ABSENCE:
                    is_true = TRUE_OF_WHOLE.get(entry["code"], lambda _: False)
                    assert entry["code"] in codes or is_true(expected), (length, entry["message"])


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_a_truncated_capture_says_nothing_else_about_the_negotiation(path):
    """A value is that of the whole capture or unknown, and a list that is not whole says so."""
    whole = truncate(path, 1 << 16)
    for length in LENGTHS:
        for row, expected in match_handshakes(truncate(path, length), whole):
            for name in ("encryption", "prf", "integrity", "key_exchange", "nat"):
                assert row[name] in (None, expected[name]), (length, name)
            for name in ("additional_key_exchanges", "offered"):
                assert row[name] in (None, expected[name]), (length, name)
            for side in ("initiator", "responder"):
                supports, in_whole = row[f"{side}_supports"], expected[f"{side}_supports"]
                if supports != in_whole:
                    assert row[f"{side}_init_truncated"] is True, (length, side)
                    assert supports is None or set(supports) < set(in_whole), (length, side)


def test_whole_messages_are_not_truncated():
    analysis = truncate(LAB_CAPTURES / "mixed.pcapng", 1 << 16)
    flags = analysis.handshakes.select("initiator_init_truncated", "responder_init_truncated")
    assert not any(flags.select(pl.all().any()).row(0))


def make_ppk_trace(*, stops: bool) -> Trace:
    """The initiator offers a PPK, and the responder announces it as its last payload."""
    sa = Handshake(1, notifies=[ike.notify(USE_PPK)])
    trace = Trace()
    trace.play(sa.init() if stops else sa.setup())
    trace.ip(9 * SECOND, b"")
    return trace


@pytest.mark.parametrize("stops", [False, True])
def test_a_ppk_is_not_called_unsupported_if_the_response_is_truncated(stops):
    """The request has more payloads before the notify, so a snapshot length alone hides both notifies or none."""
    trace = make_ppk_trace(stops=stops)
    packets = list(trace.packets)
    packets[1] = Packet(packets[1].time_ns, packets[1].data[:200], length=len(packets[1].data))
    row = only(analyse(pcap(packets)))
    assert "USE_PPK" in row["initiator_supports"]
    assert row["responder_init_truncated"] is True
    assert [entry["code"] for entry in row["diagnosis"] or ()] == (["initiator-silent"] if stops else [])


def test_a_side_whose_nat_detection_is_truncated_is_not_called_untranslated():
    """The hash of the destination follows that of the source: without it, a NAT of the responder's side is unknown."""
    trace = Trace()
    trace.play(Handshake(1, nat=True).init())
    whole = only(analyse(trace))
    request = trace.packets[0].data
    destination = request.index(bytes.fromhex("00004005"))  # NAT_DETECTION_DESTINATION_IP, without an SPI
    for position in (destination, destination + 20):
        row = only(analyse(pcap(trace.packets[:1], snaplen=position)))
        assert row["nat"] is None
    assert whole["nat"] == "initiator"


def test_a_flood_is_not_said_to_be_without_cookies_if_its_responses_are_truncated():
    from ikeanalyze.analysis.handshakes.diagnosis.captures import diagnose_captures

    trace = Trace()
    for number in range(30):
        trace.play(Handshake(number + 1).init(), at=number * 100 * MS)
    trace.ip(30 * SECOND, b"")
    (whole,) = diagnose_captures(analyse(trace).handshakes)
    (truncated,) = diagnose_captures(analyse(trace.pcap(snaplen=HEADERS)).handshakes)
    assert "it never asked for a cookie" in whole.message
    assert "cookie" not in truncated.message

"""An extract has the packets of its handshakes, and a report of it the same numbers for them."""

import pytest

from ikeanalyze.capture.write.filter import write_selected_pcapng
from ikeanalyze.sharing.extract import ExtractOptions, PacketChooser
from tests.paths import CAPTURES, LAB_CAPTURES
from tests.sharing.reports import RECORDED, analyse, document_of, find_differences, list_ike_sas

ALL = ExtractOptions(radius=True, esp=True, annotate=True)
#: What is estimated from all handshakes of a capture on the same path, and so from fewer in an extract.
ESTIMATED = {f"breakdown/{name}" for name in ("network_ms", "initiator_ms", "responder_ms", "path_rtt_ms", "uncertain")}
#: Diagnoses that follow from these estimates.
FROM_ESTIMATES = {"rtt-exceeds-timer"}
NAMES = [path.stem for path in RECORDED]


def extract(path, out, handshakes=None, options=ALL):
    """Extract handshakes, or all of a capture; the numbers of the packets."""
    analysis = analyse(path)
    chosen = PacketChooser(str(path), analysis, options).choose(
        analysis.handshakes["handshake"].to_list() if handshakes is None else handshakes
    )
    write_selected_pcapng(str(path), str(out), chosen.numbers, chosen.comments)
    return chosen


def drop_numbers(rows, diagnoses=()):
    """Rows of a report without packet numbers, and without diagnoses of these codes."""
    for row in rows:
        row["diagnosis"] = [
            {key: value for key, value in item.items() if key != "frames"}
            for item in row["diagnosis"]
            if item["code"] not in diagnoses
        ]
        for exchange in row["exchanges"]:
            for packet in exchange.get("radius") or ():
                packet.pop("frame")
    return rows


@pytest.mark.parametrize("path", RECORDED, ids=NAMES)
def test_all_handshakes_have_the_numbers_of_the_capture(path, tmp_path):
    extract(path, tmp_path / "out.pcapng")
    before, after = (drop_numbers(list_ike_sas(document_of(file))) for file in (path, tmp_path / "out.pcapng"))
    assert list(find_differences(before, after)) == []


@pytest.mark.parametrize("name", ["loss20-classic", "pq-loss15", "ip-fragments-loss10", "ikev1-fragments-loss15"])
def test_one_handshake_has_the_numbers_of_the_capture_but_for_estimates(name, tmp_path):
    path, out = CAPTURES / f"{name}.pcap", tmp_path / "out.pcapng"
    for handshake, before in enumerate(drop_numbers(list_ike_sas(document_of(path)), FROM_ESTIMATES)[:4], 1):
        extract(path, out, [handshake])
        (after,) = drop_numbers(list_ike_sas(document_of(out)), FROM_ESTIMATES)
        assert {place for place, _, _ in find_differences(before, after)} <= ESTIMATED


@pytest.mark.parametrize("path", [CAPTURES / "loss20-classic.pcap", LAB_CAPTURES / "eap-aaa-loss.pcapng"])
def test_tshark_reads_the_same_packets_at_the_same_times(path, tmp_path, tshark):
    out = tmp_path / "out.pcapng"
    chosen = extract(path, out, [2])
    fields = ("-n", "-Tfields", "-eframe.time_epoch", "-eframe.len", "-eframe.protocols", "-eip.id", "-eudp.checksum")
    every = tshark.run(*fields, capture=path).lines
    assert tshark.run(*fields, capture=out).lines == [every[number - 1] for number in chosen.numbers]


def test_tshark_shows_the_comments(tmp_path, tshark):
    out = tmp_path / "out.pcapng"
    chosen = extract(CAPTURES / "loss20-classic.pcap", out, [2])
    comments = tshark.run("-n", "-Tfields", "-eframe.comment", capture=out).lines
    # by hand: the third packet is the request of the first one, sent again
    assert chosen.numbers[:4] == [15, 16, 17, 18]
    assert comments[:4] == [
        "handshake 2, IKE_SA_INIT 0 request; packet 15 of the capture",
        "handshake 2, IKE_SA_INIT 0 response; packet 16 of the capture",
        "handshake 2, IKE_SA_INIT 0 request, retransmission 1 of packet 1; packet 17 of the capture",
        "handshake 2, IKE_SA_INIT 0 response, retransmission 1 of packet 2; packet 18 of the capture",
    ]


def test_comments_of_the_capture_are_kept(tmp_path, tshark):
    first, second = tmp_path / "first.pcapng", tmp_path / "second.pcapng"
    extract(CAPTURES / "psk-classic.pcap", first)
    extract(first, second)
    comments = tshark.run("-n", "-Tfields", "-eframe.comment", "-Eaggregator=|", capture=second).lines
    assert all(line.count("of the capture") == 2 for line in comments)
    assert len(comments) == 4


@pytest.mark.parametrize(
    ("path", "without", "with_esp"),
    [
        (LAB_CAPTURES / "followup.pcapng", 23, 25),  # ESP as an IP protocol
        (LAB_CAPTURES / "nat.pcapng", 6, 8),  # ESP in UDP
        (CAPTURES / "nat-any.pcap", 12, 16),  # four NAT keepalives
    ],
    ids=["ESP", "ESP in UDP", "keepalives"],
)
def test_esp_and_keepalives_on_request(path, without, with_esp, tmp_path):
    counts = [
        len(extract(path, tmp_path / "out.pcapng", options=ExtractOptions(esp=esp)).numbers) for esp in (False, True)
    ]
    assert counts == [without, with_esp]


def test_esp_belongs_to_the_handshake_before_its_first_packet(tmp_path):
    """The lab sends a ping after each of the two handshakes; the second one replaces the first."""
    path = LAB_CAPTURES / "reauthenticate.pcapng"
    first, second = (
        set(extract(path, tmp_path / "out.pcapng", [handshake], ExtractOptions(esp=True)).numbers)
        for handshake in (1, 2)
    )
    assert first & second == set()
    assert len(first | second) == 14


def test_tcp_connections_are_copied_from_their_first_segment(tmp_path, tshark):
    out = tmp_path / "out.pcapng"
    path = CAPTURES / "tcp-psk.pcap"
    extract(path, out, options=ExtractOptions())
    flags = tshark.run("-n", "-Tfields", "-etcp.flags.str", capture=out).lines
    # SYN, SYN and ACK, ACK: the three segments that open the connection
    assert [line.replace("·", "") for line in flags[:3]] == ["S", "AS", "A"]


def test_radius_is_left_out_and_counted(tmp_path):
    chosen = extract(CAPTURES / "eap-md5-radius.pcapng", tmp_path / "out.pcapng", options=ExtractOptions())
    before = document_of(CAPTURES / "eap-md5-radius.pcapng")["captures"][0]["accounting"]["radius"]
    after = document_of(tmp_path / "out.pcapng")["captures"][0]["accounting"]["radius"]
    assert (chosen.radius_left_out, after) == (before, 0)

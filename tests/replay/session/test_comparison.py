"""Two recordings of the same handshake, one with losses."""

import ikeanalyze
from ikeanalyze.replay.session.comparison import compare_handshakes, get_setup_exchanges
from tests.paths import CAPTURES


def test_side_by_side():
    recorded = ikeanalyze.read(CAPTURES / "pq-mlkem768-psk.pcap")
    live = ikeanalyze.read(CAPTURES / "lab" / "loss20.pcapng")
    row = live.handshakes.row(0, named=True)
    both = compare_handshakes(recorded, 1, live, bytes.fromhex(row["spi_i"]), 7)
    assert both.run == 7
    assert [(one.exchange, one.message_id, one.attempt) for one in both.rows] == [
        ("IKE_SA_INIT", 0, 1),
        ("IKE_INTERMEDIATE", 1, 1),
        ("IKE_AUTH", 2, 1),
    ]
    # by the sizes in the manifest of the recording: 312 + 320, 1,248 + 66 + 1,153, 267 + 228
    assert [(one.recorded.messages, one.recorded.bytes) for one in both.rows] == [
        (2, 632),
        (2, 2467),
        (2, 495),
    ]
    assert both.together[0].bytes == 3594
    assert both.together[1].messages == row["initiator_messages"] + row["responder_messages"]
    assert both.blowups == (1.0, row["blowup"])
    assert both.proposals[0] == both.proposals[1] == "AES-GCM-16-256/HMAC-SHA2-384/ECP-384/ML-KEM-768"


def test_another_body_is_another_row():
    analysis = ikeanalyze.read(CAPTURES / "invalid-ke.pcap")
    sides = get_setup_exchanges(analysis, 1)
    assert list(sides)[:2] == [("IKE_SA_INIT", 0, 1), ("IKE_SA_INIT", 0, 2)]
    assert sides["IKE_SA_INIT", 0, 1].bytes == 248 + 38
    none = compare_handshakes(analysis, 1, analysis, bytes(8), 1)
    assert none is None


def test_the_link_to_the_aaa_server_is_not_counted():
    analysis = ikeanalyze.read(CAPTURES / "lab" / "eap-mschapv2.pcapng")
    sides = get_setup_exchanges(analysis, 1)
    # by the initiator's log
    assert [(side.messages, side.bytes) for side in sides.values()] == [
        (2, 272 + 280), (2, 256 + 1236 + 132), (2, 96 + 112), (2, 144 + 128), (2, 80 + 80), (2, 112 + 208),
    ]  # fmt: skip


def test_ip_fragments_count_once():
    analysis = ikeanalyze.read(CAPTURES / "lab" / "ip-fragments.pcapng")
    sides = get_setup_exchanges(analysis, 1)
    # by the log: 764 and 765, 2,352 and 2,272
    assert [side.bytes for side in sides.values()] == [764 + 765, 2352 + 2272]

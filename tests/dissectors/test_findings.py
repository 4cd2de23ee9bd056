"""Expert infos, each on a capture that was made to trigger it, in every tshark."""

import struct
from dataclasses import replace
from random import Random

import pytest

from tests.craft import MS, SECOND, Handshake, Trace, ike, pcap, transport
from tests.dissectors.encryption import AUTH, AUTH_RESPONSE, EncryptedSa, captured, init
from tests.dissectors.run_plugin import RECORDED, fields, findings, recorded_frames, run_plugin, tree
from tests.paths import CAPTURES

PQ = ike.Proposal([*ike.CLASSIC.transforms, ike.Transform(ike.ADDKE1, ike.ML_KEM_768)])
NONE = ike.Proposal([*ike.CLASSIC.transforms, ike.Transform(ike.ADDKE1, 0)])


def play(messages, **how):
    trace = Trace(**how)
    trace.play(messages)
    return trace


def test_a_handshake_without_problems_has_no_findings(tshark):
    assert findings(tshark, CAPTURES / "psk-classic.pcap") == []


def test_retransmissions_link_to_the_first_transmission(tshark):
    trace = play(Handshake(Random(1)).setup())
    trace.repeat(trace.packets[2:3], 500 * MS)
    trace.repeat(trace.packets[2:3], 900 * MS)
    names = ("frame.number", "ikex.transmission", "ikex.retransmission", "ikex.retransmission_of")
    assert fields(tshark, trace.pcap(), *names, only="ikex.retransmission") == [
        ["5", "2", "1", "3"],
        ["6", "3", "2", "3"],
    ]
    assert findings(tshark, trace.pcap()) == [
        (5, "Retransmission of an earlier message"),
        (6, "Retransmission of an earlier message"),
    ]


def test_missing_fragments_are_listed_in_each_frame_of_the_message(tshark):
    messages = Handshake(Random(2)).init()
    auth = Handshake(Random(2))
    auth.init()
    parts = auth.exchange(ike.IKE_AUTH, (2500, 200), fragments=(4, 1))
    trace = play([*messages, *parts])
    complete = trace.packets
    capture = trace.pcap()
    trace.drop([complete[3], complete[5]])
    names = (
        "frame.number",
        "ikex.fragment",
        "ikex.fragments",
        "ikex.fragment.frame",
        "ikex.fragment.missing",
    )
    assert fields(tshark, trace.pcap(), *names, only="ikex.fragment") == [
        ["3", "1", "4", "3,4", "2,4"],
        ["4", "3", "4", "3,4", "2,4"],
    ]
    assert findings(tshark, trace.pcap()) == [(frame, "Fragments of the message are missing") for frame in (3, 4)]
    assert fields(tshark, capture, "ikex.fragment.missing", only="ikex.fragment.missing") == []


def test_missing_requests_and_responses_are_reported(tshark):
    messages = Handshake(Random(3)).setup()
    trace = play([messages[0], messages[1], messages[3]])
    assert findings(tshark, trace.pcap()) == [(3, "The request to this response is not in the capture")]
    trace = play(messages[:3])
    assert findings(tshark, trace.pcap()) == [(3, "The capture has no response to this request")]


def test_extra_round_trips_have_a_reason_and_number_the_attempts(tshark):
    trace = play(Handshake(Random(4)).init(before="both"))
    reasons = fields(tshark, trace.pcap(), "frame.number", "ikex.extra_round_trip", only="ikex.extra_round_trip")
    assert reasons == [["2", "COOKIE"], ["4", "INVALID_KE_PAYLOAD"]]
    attempts = fields(tshark, trace.pcap(), "ikex.attempt")
    assert attempts == [["1"], ["1"], ["2"], ["2"], ["3"], ["3"]]
    texts = [text for _, text in findings(tshark, trace.pcap())]
    prefix = "The responder asks for another request: "
    assert texts == [prefix + "COOKIE", prefix + "INVALID_KE_PAYLOAD"]


@pytest.mark.parametrize(("bytes_kept", "shown"), [(77, []), (78, ["COOKIE"]), (100, ["COOKIE"])])
def test_a_cookie_whose_data_are_cut_off_is_the_reason_of_an_extra_round_trip(tshark, bytes_kept, shown):
    """The notify type ends after 78 bytes: Ethernet 14, IP 20, UDP 8, IKE header 28, payload header 4, notify 4."""
    capture = play(Handshake(Random(4)).init(before="COOKIE")).pcap(snaplen=bytes_kept)
    reasons = fields(tshark, capture, "ikex.extra_round_trip", only="ikex.extra_round_trip")
    assert reasons == [[reason] for reason in shown]


def test_additional_key_exchanges_offered_but_not_chosen_are_reported(tshark):
    """ADDKE1 is offered, and the responder chooses a proposal without it, or with NONE."""
    text = "Additional key exchanges were offered, and none was chosen"
    for chosen in (ike.CLASSIC, NONE):
        handshake = Handshake(Random(5), proposals=(PQ, chosen), switch=False)
        request = handshake.init()[0]
        answer = [ike.sa([chosen]), ike.ke(ike.ECP_256, bytes(range(64))), ike.nonce(bytes(32))]
        response = handshake.clear(ike.IKE_SA_INIT, answer, from_initiator=False, response=True)
        assert findings(tshark, play([request, response]).pcap()) == [(2, text)]
    assert findings(tshark, play(Handshake(Random(5), proposals=(PQ,)).init()).pcap()) == []


def test_intermediate_without_its_notify_is_reported(tshark):
    handshake = Handshake(Random(6), switch=False)  # offers no additional key exchange, and so has no notify
    messages = [*handshake.init(), *handshake.exchange(ike.IKE_INTERMEDIATE, (300, 300))]
    text = "IKE_INTERMEDIATE, but the IKE_SA_INIT {} lacks INTERMEDIATE_EXCHANGE_SUPPORTED"
    expected = [(frame, text.format(side)) for frame in (3, 4) for side in ("request", "response")]
    assert findings(tshark, play(messages).pcap()) == expected
    handshake = Handshake(Random(6), switch=False, proposals=(PQ,))
    messages = [*handshake.init(), *handshake.exchange(ike.IKE_INTERMEDIATE, (300, 300))]
    assert findings(tshark, play(messages).pcap()) == []


def test_intermediate_is_not_said_to_lack_its_notify_if_it_may_be_truncated(tshark):
    """The snapshot length hides all that follows the first bytes of the KE payload."""
    handshake = Handshake(Random(6), switch=False)
    messages = [*handshake.init(), *handshake.exchange(ike.IKE_INTERMEDIATE, (300, 300))]
    shown = [text for _, text in findings(tshark, play(messages).pcap(snaplen=14 + 20 + 8 + 28 + 60))]
    assert not [text for text in shown if "lacks INTERMEDIATE_EXCHANGE_SUPPORTED" in text]


def test_ike_sa_init_in_ip_fragments_is_reported(tshark):
    big = [ike.notify(40000 + number, bytes(250)) for number in range(8)]
    messages = Handshake(Random(7), notifies=big).init()
    trace = play(messages, mtu=1000)
    assert findings(tshark, trace.pcap()) == [(frame, "IKE_SA_INIT in 3 IP fragments") for frame in (3, 6)]
    parts = fields(tshark, trace.pcap(), "frame.number", "ikex.part_of", "ikex.bytes.initiator")
    assert [line[:2] for line in parts] == [
        ["1", "3"],
        ["2", "3"],
        ["3", ""],
        ["4", "6"],
        ["5", "6"],
        ["6", ""],
    ]
    assert parts[2][2] == str(sum(len(packet.data) for packet in trace.packets[:3]))


def test_an_error_notify_is_the_reason_of_the_failed_handshake(tshark):
    handshake = Handshake(Random(8), switch=False)
    request = handshake.init()[0]
    refusal = handshake.clear(
        ike.IKE_SA_INIT,
        [ike.notify(ike.NO_PROPOSAL_CHOSEN)],
        from_initiator=False,
        response=True,
        spi_r=bytes(8),
    )
    capture = play([request, refusal]).pcap()
    assert findings(tshark, capture) == [
        (2, "Error notify NO_PROPOSAL_CHOSEN (14)"),
        (2, "Diagnosis: no-proposal-chosen"),
    ]
    lines = fields(tshark, capture, "ikex.outcome", "ikex.reason")
    assert lines == [["failed", "NO_PROPOSAL_CHOSEN"]] * 2


def test_an_encrypted_invalid_ke_payload_asks_for_another_request(tshark):
    """RFC 7296, section 1.3. The expert info is there whether or not a field of the exchange is asked for."""
    sa = EncryptedSa(Random(1300))
    datagrams = init(sa)
    sa.next_epoch()
    for response, payloads in enumerate((AUTH, AUTH_RESPONSE)):
        datagrams.append((sa.message(ike.IKE_AUTH, payloads, 1, response=bool(response)), not response))
    request = [ike.sa([ike.CLASSIC]), ike.nonce(bytes(32)), ike.ke(ike.ECP_256, bytes(64))]
    wanted = ike.notify(ike.INVALID_KE_PAYLOAD, struct.pack(">H", ike.CURVE25519))
    for response, payloads in enumerate((request, [wanted])):
        datagrams.append((sa.message(ike.CREATE_CHILD_SA, payloads, 2, response=bool(response)), not response))
    capture = captured(*datagrams)
    text = "The other side asks for another request: INVALID_KE_PAYLOAD"
    assert (6, text) in findings(tshark, capture, keys=sa.key_file())
    for names in (["_ws.expert.message"], ["_ws.expert.message", "ikex.extra_round_trip"]):
        shown = fields(tshark, capture, *names, only="frame.number == 6", separator="|", keys=sa.key_file())
        assert text in shown[0][0].split("|")


def test_names_that_some_wireshark_versions_lack_are_shown(tshark):
    kinds = {
        16438: "INTERMEDIATE_EXCHANGE_SUPPORTED",
        16440: "IP6_ALLOWED",
        16443: "SUPPORTED_AUTH_METHODS",
        46: "AUTHORIZATION_FAILED",
    }
    handshake = Handshake(Random(9), proposals=(PQ,), notifies=[ike.notify(kind) for kind in kinds])
    capture = play(handshake.init()[:1]).pcap()
    [(transforms, notifies)] = fields(tshark, capture, "ikex.transform", "ikex.notify", separator="|")
    assert "ADDKE1: ML-KEM-768 (36)" in transforms.split("|")
    assert {str(kind) for kind in kinds} <= set(notifies.split("|"))
    shown = {line.strip() for line in tree(tshark, capture).splitlines()}
    assert {f"Notify: {name} ({kind})" for kind, name in kinds.items()} <= shown


def test_a_capture_duplicate_links_to_the_first_frame(tshark):
    """A capture on a router contains each forwarded frame twice, the second with a lower TTL."""
    rows = recorded_frames(tshark, "router-any-slow.pcap")
    assert rows[0][17] == ""
    assert rows[1][17] == "2"


def test_a_retransmission_that_the_file_has_before_the_first_transmission_is_no_capture_duplicate(tshark):
    """A router or a mirror port needs less than a millisecond; these packets are three seconds apart."""
    trace = play(Handshake(Random(12)).init()[:1])
    first = trace.packets[0]
    again = replace(first, time_ns=first.time_ns + 3 * SECOND)
    rows = fields(tshark, pcap([again, first], nanoseconds=True), "ikex.transmission", "ikex.duplicate_of")
    assert sorted(transmission for transmission, _ in rows) == ["1", "2"]
    assert [frame for _, frame in rows] == ["", ""]


def test_a_message_quoted_by_an_icmp_error_is_ignored(tshark):
    trace = play(Handshake(Random(10)).init()[:1])
    quoted = trace.packets[0].data[14:]
    trace.ip(MS, transport.icmp_error(quoted, "192.0.2.2", "192.0.2.1"))
    assert [line[0] for line in fields(tshark, trace.pcap(), "frame.number")] == ["1"]


@pytest.mark.turns
@pytest.mark.parametrize("name", RECORDED)
def test_findings_do_not_depend_on_the_other_fields_that_are_used(tshark, name):
    """A filter on one field needs little of most messages; with a field of each message, all are examined."""
    column = "_ws.col.info" if tshark.has_field("_ws.col.info") else "_ws.col.Info"
    seen = ("frame.number", "ikex.retransmission", "ikex.retransmission_of", "_ws.expert.message", column)
    for passes in (["-2"], []):
        few, all_of_them = (
            run_plugin(tshark, CAPTURES / name, *passes, "-Y", "ikex", "-Tfields", *words_of(seen), *words_of(others))
            for others in ([], ["ikex.handshake", "ikex.transmission"])
        )
        assert few.lines
        assert few.lines == ["\t".join(line.split("\t")[: len(seen)]) for line in all_of_them.lines]


def words_of(names):
    return [word for name in names for word in ("-e", name)]

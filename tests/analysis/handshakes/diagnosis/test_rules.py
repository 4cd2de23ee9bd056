"""The rules of the diagnosis, on the test vectors and on the recorded captures."""

import re
import struct
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from scapy.layers.inet import UDP
from scapy.utils import rdpcap, wrpcap

from ikeanalyze.analysis.handshakes.diagnosis.rules import RULES
from ikeanalyze.analysis.handshakes.diagnosis.suspect import get_prf_bytes
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.wire.registries.ikev2_transforms import Prf
from tests.analysis.analyse_captures import analyse, only, unsorted
from tests.analysis.handshakes.test_handshakes import Old
from tests.craft import MS, SECOND, Handshake, Trace, ike, ikev1
from tests.paths import CAPTURES, LAB_CAPTURES
from tests.rules.diagnosis import make_diagnosis_trace, read_diagnosis_cases

CASES = read_diagnosis_cases()
#: Notify of RFC 8784.
USE_PPK = 16435


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_vectors_have_their_diagnosis(case):
    row = only(analyse(make_diagnosis_trace(case)))
    assert [entry["code"] for entry in row["diagnosis"] or ()] == case.codes
    if not case.codes:
        assert row["diagnosis"] is None
        return
    first = row["diagnosis"][0]
    message = f"{first['exchange']} {first['message_id']} {first['kind']} {first['sender']}"
    assert (message, first["confidence"]) == (case.message, case.confidence)
    assert case.frames in (None, first["frames"])
    assert case.says in first["message"]
    for entry in row["diagnosis"]:
        assert "None" not in entry["message"] + entry["remedy"]


def test_an_eap_failure_is_recognised_without_keys_and_without_the_aaa_link(tmp_path):
    """The log of the responder: "received RADIUS Access-Reject from server 'aaa'", and then EAP/FAIL in response 3."""
    path = tmp_path / "without-radius.pcap"
    packets = rdpcap(str(CAPTURES / "faults" / "aaa-rejects.pcapng"))
    wrpcap(str(path), [packet for packet in packets if UDP not in packet or 1812 not in (packet.sport, packet.dport)])
    [entry] = only(read_captures(path))["diagnosis"]
    assert (entry["code"], entry["confidence"]) == ("aaa-rejected", "consistent with")
    assert (entry["exchange"], entry["message_id"], entry["kind"]) == ("IKE_AUTH", 3, "response")


def test_what_the_responder_accepted_in_another_handshake_is_named():
    """Of whichever initiator: one that was refused may try again with other proposals."""
    trace = Trace()
    trace.play(Handshake(1, proposals=[ike.HYBRID]).setup(intermediate=[(2, 1)]))
    trace.play(Handshake(2).refused(), at=SECOND)
    trace.play(Handshake(3, responder="192.0.2.8").refused(), at=2 * SECOND)
    (_, same, other) = analyse(trace).handshakes["diagnosis"].to_list()
    accepted = "In another handshake, it accepted AES-GCM-16-256/HMAC-SHA2-256/X25519/ADDKE1:ML-KEM-768."
    assert same[0]["message"].endswith(f"HMAC-SHA2-256/ECP-256. {accepted}")
    assert "accepted" not in other[0]["message"]


def refuse_main_mode():
    """The responder sends the error notify in an exchange of its own, as IKEv1 does (RFC 2408, section 4.8)."""
    sa = Old()
    no_proposal_chosen = struct.pack(">IBBH", 1, 1, 0, 14)  # DOI of IPsec, ISAKMP, without SPI
    payloads = [(ikev1.NOTIFY, no_proposal_chosen)]
    refusal = ikev1.message(sa.cookies[:8], sa.cookies[8:], ikev1.INFORMATIONAL, payloads, message_id=7)
    trace = Trace()
    trace.send(0, sa.phase1[0][0])
    trace.send(20 * MS, refusal, from_initiator=False)
    return trace


def test_the_evidence_of_a_refusal_in_ikev1_is_the_informational_message():
    (entry,) = only(analyse(refuse_main_mode()))["diagnosis"]
    message = f"{entry['exchange']} {entry['message_id']} {entry['kind']} {entry['sender']}"
    assert (entry["code"], message, entry["frames"]) == ("no-proposal-chosen", "Informational 7 request responder", [2])


def test_a_first_message_of_ikev1_is_refused_before_there_were_credentials():
    """strongSwan 5.9 logs "none allows pre-shared key authentication using Aggressive Mode"."""
    sa = Old(aggressive=True)
    authentication_failed = struct.pack(">IBBH", 1, 1, 0, 24)
    payloads = [(ikev1.NOTIFY, authentication_failed)]
    trace = Trace()
    trace.send(0, sa.phase1[0][0])
    refusal = ikev1.message(sa.cookies[:8], sa.cookies[8:], ikev1.INFORMATIONAL, payloads, message_id=7)
    trace.send(20 * MS, refusal, from_initiator=False)
    (entry,) = only(analyse(trace))["diagnosis"]
    assert (entry["code"], entry["confidence"], entry["frames"]) == ("auth-failed", "consistent with", [2])
    assert "before the initiator proved its identity" in entry["message"]


def repeat_informational():
    """Phase 1 and quick mode of IKEv1, and an Informational message that is sent three times."""
    sa = Old()
    trace = Trace()
    for number, (data, by_initiator) in enumerate([*sa.phase1, *sa.quick()]):
        trace.send(number * 20 * MS, data, from_initiator=by_initiator)
    data, by_initiator = sa.informational()
    for time in (60, 64, 71):
        trace.send(time * SECOND, data, from_initiator=by_initiator)
    return trace


def test_an_informational_message_of_ikev1_has_no_response():
    """RFC 2408, 4.8: it is sent alone. The answer to that of a dead peer detection is another one (RFC 3706, 5.2)."""
    row = only(analyse(repeat_informational()))
    assert (row["outcome"], row["diagnosis"]) == ("completed", None)


def refuse_quick_mode(notify):
    """The responder answers quick mode with an error notify, here in the clear."""
    sa = Old()
    payloads = [(ikev1.NOTIFY, struct.pack(">IBBH", 1, 1, 0, notify))]
    trace = Trace()
    for number, (data, by_initiator) in enumerate([*sa.phase1, sa.quick()[0]]):
        trace.send(number * 20 * MS, data, from_initiator=by_initiator)
    refusal = ikev1.message(sa.cookies[:8], sa.cookies[8:], ikev1.INFORMATIONAL, payloads, message_id=7)
    trace.send(SECOND, refusal, from_initiator=False)
    return trace


def refuse_hash():
    """The initiator checks HASH_R; libreswan 5.2 then sends this notify in the clear."""
    sa = Old(aggressive=True)
    payloads = [(ikev1.NOTIFY, struct.pack(">IBBH", 1, 1, 0, 23))]
    trace = Trace()
    for number, (data, by_initiator) in enumerate(sa.phase1[:2]):
        trace.send(number * 20 * MS, data, from_initiator=by_initiator)
    trace.send(50 * MS, ikev1.message(sa.cookies[:8], sa.cookies[8:], ikev1.INFORMATIONAL, payloads, message_id=7))
    return trace


def test_a_wrong_hash_in_aggressive_mode_is_about_pre_shared_keys():
    (entry,) = only(analyse(refuse_hash()))["diagnosis"]
    message = f"{entry['exchange']} {entry['message_id']} {entry['kind']} {entry['sender']}"
    assert (entry["code"], message, entry["frames"]) == ("auth-failed", "Informational 7 request initiator", [3])
    assert "consistent with different pre-shared keys" in entry["message"]


@pytest.mark.parametrize(
    ("name", "keys", "code", "confidence", "message", "frames", "words"),
    [
        ("wrong-psk", "responder.log.gz", "auth-failed", "consistent with", "Informational request responder", [6],
         "refused with PAYLOAD-MALFORMED: consistent with different pre-shared keys"),
        ("wrong-psk", None, "auth-failed", "consistent with", "Main Mode request initiator", [5, 7, 9, 11],
         "sent 4 times in 3.0 s: consistent with different pre-shared keys"),
        ("aggressive-wrong-psk", "initiator.log.gz", "auth-failed", "certain", "Aggressive Mode response responder", [2],
         "The initiator refused the responder's authentication with AUTHENTICATION-FAILED."),
        ("other-esp-proposal", "keys.json", "no-proposal-chosen", "certain", "Informational request responder", [8],
         "no proposal for the IPsec SA was accepted."),
        ("wrong-network", "keys.json", "ts-unacceptable", "certain", "Informational request responder", [8],
         "quick mode ended with INVALID-ID-INFORMATION"),
    ],
)  # fmt: skip
def test_refusals_of_ikev1_between_strongswans(name, keys, code, confidence, message, frames, words):
    """What the daemons log about these faults is in captures/faults/faults.toml."""
    stem = CAPTURES / "faults" / f"ikev1-{name}"
    options = ReadOptions(keys=[f"{stem}.{keys}"] if keys else [])
    [entry] = only(read_captures(f"{stem}.pcapng", options))["diagnosis"]
    assert (entry["code"], entry["confidence"], entry["frames"]) == (code, confidence, frames)
    assert f"{entry['exchange']} {entry['kind']} {entry['sender']}" == message
    assert words in entry["message"]


@pytest.mark.parametrize(
    ("answered", "code", "words"),
    [
        (0, "responder-silent", "the Main Mode request was sent 3 times in 10.0 s"),
        (1, "request-unanswered", "after one answered exchange."),
        (2, "auth-failed", "consistent with different pre-shared keys"),
    ],
)
def test_main_mode_of_ikev1(answered, code, words):
    """With a wrong pre-shared key, the responder cannot decrypt the fifth message (RFC 2409, section 5.4)."""
    messages = Old().phase1
    trace = Trace()
    for number, (data, from_initiator) in enumerate(messages[: 2 * answered]):
        trace.send(number * 20 * MS, data, from_initiator=from_initiator)
    for time in (1, 4, 11):
        trace.send(time * SECOND, messages[2 * answered][0])
    (entry,) = only(analyse(trace))["diagnosis"]
    assert entry["code"] == code
    assert words in entry["message"]


def answer_by_informational(requests, *, by_responder, times=3):
    """Phase 1 of IKEv1 and these messages. The last one is repeated, and followed by an encrypted Informational."""
    sa, trace = Old(), Trace()
    *before, (last, by_initiator) = [*sa.phase1, *requests(sa)]
    for number, (data, sender) in enumerate(before):
        trace.send(number * 20 * MS, data, from_initiator=sender)
    for number in range(times):
        trace.send((number + 1) * SECOND, last, from_initiator=by_initiator)
        trace.send((number + 1) * SECOND + MS, sa.informational()[0], from_initiator=not by_responder)
    trace.send(60 * SECOND, b"the capture goes on", sport=53, dport=53)
    return trace


def test_an_informational_message_after_a_quick_mode_without_response_looks_like_a_refusal():
    """libreswan 5.2 ignores the notify, and repeats the quick mode for a minute."""
    trace = answer_by_informational(lambda sa: sa.quick()[:1], by_responder=True)
    row = only(analyse(trace))
    (entry,) = row["diagnosis"]
    assert (row["outcome"], entry["code"], entry["confidence"]) == (
        "unanswered",
        "quick-mode-refused",
        "consistent with",
    )
    assert entry["frames"] == [7, 9, 11]
    assert (
        "sent 3 times in 2.0 s and got no response, but 3 Informational messages of the responder" in entry["message"]
    )


def test_an_informational_message_of_the_initiator_itself_does_not_refuse_its_quick_mode():
    """It deletes the IKE SA: it gave up."""
    (entry,) = only(analyse(answer_by_informational(lambda sa: sa.quick()[:1], by_responder=False)))["diagnosis"]
    assert (entry["code"], entry["confidence"]) == ("request-unanswered", "certain")


def test_an_initiator_that_ends_xauth_by_an_informational_message_was_probably_refused():
    """libreswan 5.2 gets the result FAIL, sends no acknowledgement, and deletes the IKE SA."""
    trace = answer_by_informational(lambda sa: sa.xauth()[:3], by_responder=False, times=1)
    (entry,) = only(analyse(trace))["diagnosis"]
    assert (entry["code"], entry["confidence"], entry["sender"]) == ("auth-failed", "consistent with", "responder")
    assert "an Informational message of the initiator followed" in entry["message"]


def test_the_side_that_stops_answering_may_be_the_initiator_of_ikev1():
    """It does not answer the request for name and password."""
    sa, trace = Old(), Trace()
    *before, (request, _) = [*sa.phase1, *sa.xauth()[:1]]
    for number, (data, by_initiator) in enumerate(before):
        trace.send(number * 20 * MS, data, from_initiator=by_initiator)
    for time in (1, 4, 11):
        trace.send(time * SECOND, request, from_initiator=False)
    (entry,) = only(analyse(trace))["diagnosis"]
    assert entry["message"].startswith("The initiator stopped answering: the Transaction request was sent 3 times")
    assert entry["remedy"].startswith("Look for this time in the initiator's log")


@pytest.mark.parametrize(
    ("prf", "size"),
    [(Prf.HMAC_MD5, 16), (Prf.HMAC_SHA1, 20), (Prf.HMAC_TIGER, 24), (Prf.AES128_XCBC, 16), (Prf.AES128_CMAC, 16),
     (Prf.HMAC_SHA2_256, 32), (Prf.HMAC_SHA2_384, 48), (Prf.HMAC_SHA2_512, 64), (Prf.HMAC_STREEBOG_512, 64)],
)  # fmt: skip
def test_the_output_of_a_prf_has_a_size(prf, size):
    assert get_prf_bytes(prf.label) == size


def test_an_unknown_prf_counts_as_the_shortest():
    assert get_prf_bytes(None) == get_prf_bytes("1024") == 16


def test_a_time_is_rounded_as_if_the_handshake_were_alone():
    """1.45 s is between two rounded values."""
    trace, texts = Trace(), []
    for number in (1, 2):
        trace.play(2 * Handshake(number).init()[:1], at=number * SECOND, think=1450 * MS)
        trace.send(20 * SECOND, b"something else", sport=53, dport=53)
        texts.append([entry["message"] for (entry,) in analyse(trace).handshakes["diagnosis"]])
    assert "the IKE_SA_INIT request was sent 2 times in 1.4 s." in texts[0][0]
    assert texts[1] == 2 * texts[0]


def test_an_initiator_may_begin_again_with_another_spi_after_invalid_ke_payload():
    """OpenIKED 7.4 does so after 2 s. Nothing is claimed about it but that this IKE SA was not continued."""
    trace = Trace()
    trace.play(Handshake(1).init(before="INVALID_KE_PAYLOAD")[:2])
    trace.play(Handshake(2).setup(), at=2 * SECOND)
    trace.send(60 * SECOND, b"the capture goes on", sport=53, dport=53)
    (first, second) = analyse(trace).handshakes["diagnosis"].to_list()
    assert second is None
    assert [entry["code"] for entry in first] == ["invalid-ke-abandoned"]
    assert "did not send this request again" in first[0]["message"]
    assert first[0]["remedy"].startswith("Look at the next handshake of the initiator")


def redirect_in_auth(*, named="192.0.2.2"):
    """The response to IKE_AUTH has only identity, AUTH and REDIRECT (RFC 5685, section 6), and is followed.

    `named`: the gateway that its next request says to have redirected it.
    """
    trace, first = Trace(), Handshake(1)
    trace.play(first.init() + first.exchange(ike.IKE_AUTH, (240, 70)))
    redirected = ike.notify(ike.REDIRECTED_FROM, bytes([1, 4, *map(int, named.split("."))]))
    trace.play(Handshake(2, responder="192.0.2.9", notifies=[redirected]).setup(), at=SECOND)
    return trace


def test_a_redirect_in_ike_auth_shows_in_the_next_request():
    entries, following = analyse(redirect_in_auth()).handshakes["diagnosis"].to_list()
    assert [(entry["code"], entry["frames"]) for entry in entries] == [("redirected", [4])]
    assert "to which 192.0.2.2 had redirected it" in entries[0]["message"]
    assert following is None


def test_a_redirect_of_another_gateway_does_not_explain_a_short_response():
    entries, _ = analyse(redirect_in_auth(named="192.0.2.7")).handshakes["diagnosis"].to_list()
    assert [entry["code"] for entry in entries] == ["childless"]


def pass_port_4500():
    """An initiator behind a NAT goes silent, and another one continues on port 4500."""
    trace = Trace()
    trace.play(Handshake(1, nat=True).init())
    trace.play(Handshake(2, initiator="192.0.2.9").setup(), at=SECOND)
    trace.send(60 * SECOND, b"something else", sport=53, dport=53)
    return trace


def stop_after_init(responder=(), *, nat=False, offered=USE_PPK):
    """An initiator offers a PPK, the responder announces these notifies, and the capture goes on."""
    trace = Trace()
    request = Handshake(1, nat=nat, notifies=[ike.notify(offered)]).init()[0]
    response = Handshake(1, nat=nat, notifies=[ike.notify(kind) for kind in responder]).init()[1]
    trace.play([request, response])
    trace.send(60 * SECOND, b"something else", sport=53, dport=53)
    return trace


@pytest.mark.parametrize(
    ("announced", "code"),
    [
        ((), "ppk-not-supported"),  # strongSwan 6.1 logs "PPK required but peer does not support PPK"
        ((USE_PPK,), "initiator-silent"),
        ((16445,), "initiator-silent"),  # USE_PPK_INT (RFC 9867)
        ((50209,), "initiator-silent"),  # the same of libreswan 5.2, which then sends no USE_PPK
    ],
)
def test_an_initiator_that_requires_a_ppk_ends_the_set_up(announced, code):
    [entry] = only(analyse(stop_after_init(announced)))["diagnosis"]
    assert (entry["code"], entry["frames"]) == (code, [2])


def continue_without_ppk(responder=(), *, offered=USE_PPK):
    """An initiator offers a PPK, the responder announces these notifies, and the set-up continues."""
    request, _, *rest = Handshake(1, notifies=[ike.notify(offered)]).setup()
    response = Handshake(1, notifies=[ike.notify(kind) for kind in responder]).init()[1]
    trace = Trace()
    trace.play([request, response, *rest])
    return trace


def test_a_set_up_that_continues_without_the_offered_ppk_is_weaker():
    """RFC 8784, 3: without USE_PPK in the response, the initiator continues without a PPK, unless it requires one."""
    row = only(analyse(continue_without_ppk()))
    [entry] = row["diagnosis"]
    assert (entry["code"], entry["effect"], entry["confidence"]) == ("ppk-not-supported", "weakened", "certain")
    assert (row["outcome"], entry["frames"]) == ("completed", [2])
    for announced in (USE_PPK, 16445, 50209):
        assert only(analyse(continue_without_ppk([announced])))["diagnosis"] is None


@pytest.mark.parametrize("offered", [16445, 50209])
def test_a_ppk_may_be_offered_for_ike_intermediate_alone(offered):
    """USE_PPK_INT (RFC 9867), and libreswan's number from before the RFC, without USE_PPK."""
    for trace, effect in (
        (stop_after_init(offered=offered), "stopped"),
        (continue_without_ppk(offered=offered), "weakened"),
    ):
        [entry] = only(analyse(trace))["diagnosis"]
        assert (entry["code"], entry["effect"]) == ("ppk-not-supported", effect)
    assert only(analyse(continue_without_ppk([offered], offered=offered)))["diagnosis"] is None


def test_a_required_ppk_is_a_second_explanation_where_port_4500_is_missing():
    codes = [entry["code"] for entry in only(analyse(stop_after_init(nat=True)))["diagnosis"]]
    assert codes == ["port-4500-missing", "ppk-not-supported"]


def test_a_capture_that_has_port_4500_shows_that_the_initiator_is_silent():
    silent, succeeded = analyse(pass_port_4500()).handshakes["diagnosis"].to_list()
    assert [entry["code"] for entry in silent] == ["initiator-silent"]
    assert succeeded is None


def test_a_clock_that_is_set_back_makes_all_else_unreliable():
    packets = make_diagnosis_trace(CASES[0]).packets
    back = [*packets[:2], *(replace(packet, time_ns=packet.time_ns - 10 * SECOND) for packet in packets[2:])]
    handshakes = analyse(unsorted(back)).handshakes
    (entry,) = handshakes["diagnosis"][0]
    assert (entry["code"], entry["effect"]) == ("clock-jump", "unreliable")
    assert "go back by 10.0 s" in entry["message"]


def test_time_stamps_of_several_interfaces_may_be_a_little_out_of_order():
    packets = make_diagnosis_trace(CASES[0]).packets
    assert analyse(unsorted([packets[1], packets[0], *packets[2:]])).handshakes["diagnosis"][0] is None


#: The recordings in which something went wrong (captures/README.md and the manifests), and their diagnosis.
WRONG = {
    "fragments-dropped_fragment-size-0": ["path-drops-fragments", "udp-4500-blocked"],
    "ip-fragments-loss10": ["peer-lost"],  # the deletion of the last IKE SA is never answered
    # libreswan on a kernel without ESP
    "libreswan-responder": ["childless"],
    "libreswan_responder-stack-libreswan": ["childless"],
    # libreswan proposes a CHILD_SA with a key exchange, and strongSwan is configured for one without
    "libreswan_responder-stack-strongswan": ["create-child-refused"],
    "mixed": ["intermediate-not-supported"],  # strongSwan 6 with ML-KEM, and 5.9 without
    "mixed-refused": ["no-proposal-chosen", "intermediate-not-supported"],
    "no-proposal": ["no-proposal-chosen"],
    "tcp-psk": ["childless"],  # the stand-in for the kernel installs none
    "wrong-psk": ["auth-failed"],
}
RECORDINGS = sorted(path for folder in (CAPTURES, LAB_CAPTURES) for path in folder.glob("*.pcap*"))


def test_the_recordings_in_which_nothing_went_wrong_have_no_diagnosis():
    """Not even those on a path that loses packets: a retransmission is what RFC 7296, 2.1, provides for that."""
    handshakes = read_captures(RECORDINGS).handshakes
    diagnosed = handshakes.filter(pl.col("diagnosis").is_not_null()).select("capture", "diagnosis").rows()
    assert {
        Path(capture).name.split(".")[0]: [entry["code"] for entry in entries] for capture, entries in diagnosed
    } == WRONG


def test_codes_are_names_for_scripts():
    for rule in RULES:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.code)

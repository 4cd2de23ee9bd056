"""The plugin diagnoses handshakes as `ikeanalyze report` does: by the same table of rules, and in recorded captures."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from scapy.layers.inet import UDP
from scapy.packet import Raw
from scapy.utils import rdpcap, wrpcap

import ikeanalyze
from ikeanalyze.analysis.handshakes.diagnosis.captures import diagnose_captures
from ikeanalyze.analysis.handshakes.diagnosis.rules import RULES
from tests.analysis.encrypted_handshakes import IDENTITIES, PSK, Sa, table
from tests.analysis.handshakes.diagnosis.test_captures import make_flood
from tests.analysis.handshakes.diagnosis.test_rules import (
    continue_without_ppk,
    pass_port_4500,
    redirect_in_auth,
    refuse_hash,
    refuse_main_mode,
    refuse_quick_mode,
    repeat_informational,
    stop_after_init,
)
from tests.analysis.handshakes.diagnosis.test_rules_with_keys import (
    refuse_additional_key_exchange,
    refuse_after_ppk_in_intermediate,
    refuse_ppk_in_intermediate,
    stop_after_ppk_in_intermediate,
)
from tests.analysis.handshakes.test_handshakes import Old
from tests.craft import SECOND, Handshake, Trace, ike, pcap
from tests.dissectors.differential import IKE, RECORDED
from tests.dissectors.run_plugin import PLUGIN, fields, findings, run_plugin, tree
from tests.paths import CAPTURES
from tests.rules.diagnosis import make_diagnosis_trace, read_diagnosis_cases

FAULTS = sorted((CAPTURES / "faults").glob("*.pcapng"))
FAULTS_WITH_KEYS = [path for path in FAULTS if path.with_suffix(".keys.json").exists()]
NAMES = ("code", "effect", "confidence", "message", "concerns", "remedy", "rfc", "frame")
#: Codes from ICMP errors, which the plugin does not read.
FROM_ICMP = ("packet-too-big", "reassembly-timeout", "port-unreachable", "admin-prohibited", "host-unreachable")
#: Words of remedies about options, and those of the plugin.
OPTIONS = {
    "--keys with a log of the daemon": "preference ikex.keys: a log of the daemon",
    "Give --vantage and --rtt for exact times": "`ikeanalyze report` has exact times, if you give it --vantage and --rtt",
}
CASES = {case.name: case for case in read_diagnosis_cases()}
newest = pytest.mark.parametrize("tshark", ["forky"], indirect=True)


def test_the_table_of_rules_is_that_of_the_command(tshark):
    script = Path(__file__).with_name("diagnosis_rules.lua")
    done = tshark.run("-q", lua=[script], files={"ikex": PLUGIN / "ikex"}, capture=Trace().pcap())
    assert done.stderr == ""
    omitted = {tuple(line.split("\t")[1:]) for line in done.lines if line.startswith("omitted\t")}
    assert omitted == {("rtt-exceeds-timer", "certain"), *((code, "consistent with") for code in FROM_ICMP)}
    assert [line.split("\t") for line in done.lines if not line.startswith("omitted\t")] == [
        [
            rule.code,
            str(rule.effect),
            str(rule.confidence),
            rule.rfc,
            rule.subject.name,
            str(rule.also).lower(),
            rule.sentence,
            rule.remedy,
        ]
        for rule in RULES
        if (rule.code, str(rule.confidence)) not in omitted
    ]


def list_reported(path, keys):
    """The values of all diagnoses of each handshake of the report, as the plugin shows them."""
    rows = []
    for handshake in ikeanalyze.read(path, keys=keys).handshakes.filter(IKE).iter_rows(named=True):
        entries = handshake["diagnosis"] or []
        values = {
            name: [entry[name] for entry in entries] for name in ("code", "effect", "confidence", "message", "rfc")
        }
        values["concerns"] = [
            f"{entry['exchange']} {entry['message_id']} {entry['kind']} of the {entry['sender']}" for entry in entries
        ]
        values["remedy"] = [entry["remedy"] for entry in entries]
        for option, words in OPTIONS.items():
            values["remedy"] = [text.replace(option, words) for text in values["remedy"]]
        values["frame"] = [str(number) for entry in entries for number in entry["frames"]]
        rows.append(tuple("|".join(values[name]) for name in NAMES))
    return rows


def list_shown(tshark, path, keys):
    """The same of the plugin, which shows it in each packet of a handshake."""
    names = ("ikex.handshake", *(f"ikex.diagnosis.{name}" for name in NAMES))
    rows = fields(tshark, path, *names, only="ikex.handshake", separator="|", keys=keys)
    shown = dict.fromkeys((int(number), tuple(values)) for number, *values in rows)
    assert len({number for number, _ in shown}) == len(shown)
    return [values for _, values in sorted(shown)]


@newest
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_captures_have_the_diagnoses_of_the_report(tshark, tmp_path, path):
    """Of a copy without the manifest of the lab, which the plugin does not read."""
    copy = Path(shutil.copy(path, tmp_path))
    assert list_shown(tshark, copy, None) == list_reported(copy, [])


@pytest.mark.turns
@pytest.mark.parametrize("path", FAULTS_WITH_KEYS, ids=lambda path: path.stem)
def test_faults_have_the_diagnoses_of_the_report_with_keys(tshark, tmp_path, path):
    keys = path.with_suffix(".keys.json")
    copy = Path(shutil.copy(path, tmp_path))
    assert list_shown(tshark, copy, keys.read_text()) == list_reported(copy, [keys])


@pytest.mark.turns
@pytest.mark.parametrize("name", ["ikev1_mode-main", "ikev1_mode-aggressive", "ikev1-xauth"])
def test_a_decrypted_quick_mode_proves_the_outcome(tshark, name):
    path = CAPTURES / "lab" / f"{name}.pcapng"
    keys = path.with_suffix(".keys.json")
    reported = ikeanalyze.read(path, keys=[keys]).handshakes.filter(IKE)["outcome"].to_list()
    assert reported[0] == "established"
    shown = fields(tshark, path, "ikex.handshake", "ikex.outcome", only="ikex.handshake", keys=keys.read_text())
    assert dict(shown) == {str(number): outcome for number, outcome in enumerate(reported, 1)}


def test_the_expert_info_is_in_the_first_packet_of_the_evidence(tshark):
    trace = make_diagnosis_trace(CASES["the same on the first message to port 4500, which may be blocked as well"])
    shown = [text for text in findings(tshark, trace.pcap()) if "Diagnosis" in text[1]]
    assert shown == [(3, "Diagnosis: large-packets-lost"), (3, "Diagnosis: udp-4500-blocked")]


def test_the_details_have_the_whole_sentence_and_remedy(tshark):
    """Wireshark cuts the text of an item after 240 bytes."""
    trace = make_diagnosis_trace(CASES["a black hole for large packets: IKE fragments never get through"])
    details = " ".join(tree(tshark, trace.pcap()).replace("]\n", " ").replace("[", "").split())
    [entry] = ikeanalyze.read(trace.pcap()).handshakes["diagnosis"][0]
    assert f"Diagnosis in words: {entry['message']} IKE message" in details
    assert f"Try: {entry['remedy']} Specified in: {entry['rfc']}" in details


def test_the_statistics_name_the_diagnosis(tshark):
    trace = make_diagnosis_trace(CASES["a responder that answers nothing"])
    lists = run_plugin(tshark, trace.pcap(), "-q", "-z", "ikex,handshakes", "-z", "ikex,list", "-z", "ikex,ladders")
    assert [line.split()[-1] for line in lists.lines if line.split()[:1] == ["1"]] == ["responder-silent"] * 2
    text = " ".join(" ".join(lists.lines).split())
    assert (
        "diagnosis No IKE response of 192.0.2.2 is in the capture: the IKE_SA_INIT request was sent 3 times in 11.2 s"
        in text
    )
    assert "evidence IKE_SA_INIT 0 request of the initiator, packets 1, 2, 3: consistent with this, not proved" in text
    done = run_plugin(tshark, trace.pcap(), "-q", "-z", "ikex,diagnosis")
    assert done.lines[1].split() == ["1", "responder-silent"]


def test_a_row_with_the_longest_code_is_as_narrow_as_a_window(tshark):
    """A window opens with 70 characters, of which two mark the selected row."""
    longest = max((code for case in CASES.values() for code in case.codes), key=len)
    case = next(case for case in CASES.values() if case.codes[:1] == [longest])
    output = run_plugin(tshark, make_diagnosis_trace(case).pcap(), "-q", "-z", "ikex,list").lines
    [row] = [line for line in output if line.endswith(f" {longest}")]
    assert len(row) <= 70 - 2


def test_a_flood_is_described_as_in_the_report(tshark):
    """Below the list of handshakes, and with the diagnosis of each, of which only some are listed."""
    path = CAPTURES / "faults" / "half-open.pcapng"
    [flood] = diagnose_captures(ikeanalyze.read(path).handshakes)
    for statistic in ("list", "handshakes", "diagnosis"):
        text = " ".join(" ".join(run_plugin(tshark, path, "-q", "-z", f"ikex,{statistic}").lines).split())
        assert f"capture {flood.message} ({flood.code}) try {flood.remedy}" in text
    assert text.count("diagnosis The initiator did not continue the set-up") == 20
    assert "34 initiator-silent" in text


@pytest.mark.parametrize(("name", "handshakes"), [("psk-classic.pcap", 1), ("pq-mlkem768-psk.pcap", 1)])
def test_clean_handshakes_are_not_examined(tshark, name, handshakes):
    """A glance at their messages is enough, which a filter on another field has to wait for."""
    script = Path(__file__).with_name("diagnosis_clean.lua")
    done = tshark.run("-q", lua=[script], files={"ikex": PLUGIN / "ikex"}, capture=CAPTURES / name)
    assert (done.stderr, done.lines) == ("", [f"{handshakes} 0"])


def test_a_running_capture_has_no_diagnosis_until_it_pauses(tshark):
    script = Path(__file__).with_name("diagnosis_live.lua")
    trace = make_diagnosis_trace(CASES["a responder that answers nothing"])
    done = tshark.run("-q", lua=[script], files={"ikex": PLUGIN / "ikex"}, capture=trace.pcap())
    assert done.stderr == ""
    assert done.lines == [
        *(f"packet {number}\tnothing" for number in (1, 2, 3)),
        "later\tnothing",
        "later\tresponder-silent",
    ]


@pytest.mark.parametrize("completed", [0, 1])
def test_a_flood_without_port_4500_is_described_as_in_the_report(tshark, tmp_path, completed):
    path = tmp_path / "capture.pcap"
    path.write_bytes(make_flood(20, gap=SECOND, nat=True, completed=completed).pcap())
    [flood] = diagnose_captures(ikeanalyze.read(path).handshakes)
    text = " ".join(" ".join(run_plugin(tshark, path, "-q", "-z", "ikex,list").lines).split())
    assert f"capture {flood.message} ({flood.code}) try {flood.remedy}" in text


def set_back_clock():
    packets = make_diagnosis_trace(CASES["a set-up without problems"]).packets
    return [*packets[:2], *(replace(packet, time_ns=packet.time_ns - 10 * SECOND) for packet in packets[2:])]


def refuse_after_accepting():
    """A responder accepts the proposal of an initiator, and refuses that of another one."""
    trace = Trace()
    trace.play(Handshake(1, proposals=[ike.HYBRID]).setup(intermediate=[(2, 1)]))
    trace.play(Handshake(2, initiator="192.0.2.9").refused(), at=SECOND)
    return trace.packets


def stop_main_mode(answered):
    """The first messages of IKEv1's main mode, of which the last one is sent three times."""
    messages = Old().phase1
    trace = Trace()
    for number, (data, from_initiator) in enumerate(messages[: 2 * answered]):
        trace.send(number * SECOND, data, from_initiator=from_initiator)
    data, from_initiator = messages[2 * answered]
    for number in range(3):
        trace.send((10 + 5 * number) * SECOND, data, from_initiator=from_initiator)
    return trace.packets


TRACES = {
    "clock set back": set_back_clock,
    "accepted from another initiator": refuse_after_accepting,
    "silent although the capture has port 4500": lambda: pass_port_4500().packets,
    "redirected in IKE_AUTH": lambda: redirect_in_auth().packets,
    "redirected by another gateway": lambda: redirect_in_auth(named="192.0.2.7").packets,
    "refused in IKEv1": lambda: refuse_main_mode().packets,
    "proposals of quick mode refused in IKEv1": lambda: refuse_quick_mode(14).packets,
    "networks of quick mode refused in IKEv1": lambda: refuse_quick_mode(18).packets,
    "hash refused in IKEv1": lambda: refuse_hash().packets,
    "a required PPK": lambda: stop_after_init().packets,
    "a required PPK behind a NAT": lambda: stop_after_init(nat=True).packets,
    "set up without the offered PPK": lambda: continue_without_ppk().packets,
    "a required PPK in IKE_INTERMEDIATE": lambda: stop_after_init(offered=16445).packets,
    "set up without the PPK that was offered for IKE_INTERMEDIATE": lambda: continue_without_ppk(offered=50209).packets,
    "an accepted PPK": lambda: stop_after_init([50209]).packets,
    "stopped after the PPKs of IKE_INTERMEDIATE": lambda: stop_after_ppk_in_intermediate().packets,
    "silent in IKEv1": partial(stop_main_mode, 0),
    "stopped in IKEv1": partial(stop_main_mode, 1),
    "other pre-shared keys in IKEv1": partial(stop_main_mode, 2),
}


def test_an_informational_message_of_ikev1_that_is_repeated_has_no_diagnosis(tshark):
    assert list_shown(tshark, repeat_informational().pcap(), None) == [("",) * len(NAMES)]


@pytest.mark.parametrize("name", TRACES)
def test_crafted_captures_have_the_diagnoses_of_the_report(tshark, tmp_path, name):
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap(TRACES[name]()))
    reported = list_reported(path, [])
    assert any(codes for codes, *_ in reported)
    assert list_shown(tshark, path, None) == reported


@pytest.mark.parametrize(
    "data", [b"\1\4\xcb\0\x71\1", b"\2\x10" + bytes(15) + b"\1", b"\3\3gw2", b"\1\3gw2", b"\1\4\xcb"]
)
def test_a_decrypted_redirect_has_the_diagnosis_of_the_report(tshark, tmp_path, data):
    """In IKE_AUTH, in place of the CHILD_SA (RFC 5685, section 6)."""
    sa = Sa(1, proposals=[ike.CLASSIC])
    trace = Trace()
    trace.play([*sa.init(), *sa.authenticated(response=[IDENTITIES[False], PSK, ike.notify(16407, data)])])
    path, keys = tmp_path / "capture.pcap", tmp_path / "keys"
    path.write_bytes(trace.pcap())
    keys.write_text(table(*sa.key_sets))
    reported = list_reported(path, [keys])
    assert [codes for codes, *_ in reported] == ["redirected"]
    assert list_shown(tshark, path, keys.read_text()) == reported


def test_an_error_that_deletes_the_ike_sa_beside_auth_has_the_diagnosis_of_the_report(tshark, tmp_path):
    """strongSwan 6.1 ends a childless set-up, to which it is not configured, by IDr, AUTH and N(INVALID_SYNTAX)."""
    sa = Sa(1, proposals=[ike.CLASSIC])
    trace = Trace()
    trace.play([*sa.init(), *sa.authenticated(response=[IDENTITIES[False], PSK, ike.notify(ike.INVALID_SYNTAX)])])
    path, keys = tmp_path / "capture.pcap", tmp_path / "keys"
    path.write_bytes(trace.pcap())
    keys.write_text(table(*sa.key_sets))
    reported = list_reported(path, [keys])
    assert [codes for codes, *_ in reported] == ["error-notify"]
    assert list_shown(tshark, path, keys.read_text()) == reported


@pytest.mark.parametrize(
    ("refuse", "code"),
    [
        (partial(refuse_ppk_in_intermediate, 16445), "auth-failed"),
        (partial(refuse_after_ppk_in_intermediate, 16445), "auth-failed"),
        (refuse_additional_key_exchange, "error-notify"),
    ],
    ids=["a PPK", "after a PPK", "an additional key exchange"],
)
def test_refusals_in_and_after_ike_intermediate_have_the_diagnosis_of_the_report(tshark, tmp_path, refuse, code):
    sa, messages = refuse()
    trace = Trace()
    trace.play(messages)
    path, keys = tmp_path / "capture.pcap", tmp_path / "keys"
    path.write_bytes(trace.pcap())
    keys.write_text(table(*sa.key_sets))
    reported = list_reported(path, [keys])
    assert [codes for codes, *_ in reported] == [code]
    assert list_shown(tshark, path, keys.read_text()) == reported


def refuse_xauth_password(path):
    """The recording of XAuth up to the acknowledged result, which packet 9 sets, in CBC: HASH in bytes 0 to 35 of the
    plaintext, and the attribute XAUTH_STATUS with the value 1 in bytes 44 to 47. A bit of the ciphertext of a block
    changes that bit of the plaintext of the next one, and all of its own, which is the hash."""
    packets = rdpcap(str(CAPTURES / "lab" / "ikev1-xauth.pcapng"))[:10]
    data = bytearray(bytes(packets[8][UDP].payload))
    data[4 + 28 + 47 - 16] ^= 1  # after the non-ESP marker and the header
    packets[8][UDP].payload = Raw(bytes(data))
    del packets[8][UDP].chksum
    wrpcap(str(path), packets)


def test_a_refused_password_of_xauth_has_the_diagnosis_of_the_report(tshark, tmp_path):
    path, keys = tmp_path / "capture.pcap", CAPTURES / "lab" / "ikev1-xauth.keys.json"
    refuse_xauth_password(path)
    reported = list_reported(path, [keys])
    [(codes, effects, confidence, message, *_)] = reported
    assert (codes, effects, confidence) == ("aaa-rejected", "stopped", "certain")
    assert message == "The authentication of the initiator's user was rejected (XAUTH_STATUS failure)."
    assert list_shown(tshark, path, keys.read_text()) == reported
    names = ("ikex.handshake", "ikex.outcome", "ikex.reason")
    shown = fields(tshark, path, *names, only="ikex.handshake", keys=keys.read_text())
    assert shown == [["1", "failed", "XAUTH_STATUS failure"]] * 10

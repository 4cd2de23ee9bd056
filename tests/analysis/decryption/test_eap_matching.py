"""EAP messages inside IKE and inside RADIUS, byte by byte."""

from random import Random

import polars as pl
import pytest

from ikeanalyze.analysis.decryption.export import plan_decryption_edits
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.capture.write.rewrite import rewrite_capture
from tests.analysis.decrypt_captures import look
from tests.analysis.encrypted_handshakes import CHILD, IDENTITIES, PSK, Sa, table
from tests.analysis.recorded_captures import log_of
from tests.craft import MS, Trace, ike
from tests.craft import eap as eap_
from tests.craft import radius as radius_
from tests.paths import CAPTURES

NAS, AAA = "198.51.100.1", "198.51.100.2"


class Login:
    """A handshake with EAP-MD5: the AAA server is asked during the second and the third IKE_AUTH exchange."""

    def __init__(self, seed, *, identifier=1):
        rng = Random(seed)
        self.sa = Sa(seed, proposals=(ike.CLASSIC,))
        identity = eap_.eap(eap_.RESPONSE, 0, eap_.IDENTITY, b"carol")  # the same in all of her handshakes
        challenge = eap_.eap(eap_.REQUEST, 1, eap_.MD5, b"\x10" + rng.randbytes(16))
        answer = eap_.eap(eap_.RESPONSE, 1, eap_.MD5, b"\x10" + rng.randbytes(16))
        success = eap_.eap(eap_.SUCCESS, 1)
        self.eap = [identity, challenge, answer, success]
        requested = eap_.eap(eap_.REQUEST, 0, eap_.IDENTITY)
        inside = [
            [IDENTITIES[True], *CHILD], [IDENTITIES[False], PSK, (ike.EAP, requested)],
            [(ike.EAP, identity)], [(ike.EAP, challenge)],
            [(ike.EAP, answer)], [(ike.EAP, success)],
            [PSK], [PSK, *CHILD],
        ]  # fmt: skip
        self.messages = self.sa.init()
        for at in range(0, len(inside), 2):
            self.messages += self.sa.swap(ike.IKE_AUTH, *inside[at : at + 2])
        state = rng.randbytes(16)
        first = radius_.access_request(identifier, identity, rng)
        second = radius_.access_request(identifier + 1, answer, rng, state=state)
        self.radius = [
            first,
            radius_.challenge(first, challenge, state),
            second,
            radius_.accept(second, success),
        ]

    def play(self, trace, at, *, asked=(3, 3)):
        """Exchanges 30 ms apart; `asked`: how long after the second and third request the server is."""
        for place, message in enumerate(self.messages):
            trace.message((at + place // 2 * 30 + place % 2 * 10) * MS, message)
        for place, late in enumerate(asked):
            time = at + (2 + place) * 30 + late
            trace.send(time * MS, self.radius[2 * place], sport=40000, dport=1812, source=NAS, destination=AAA)
            trace.send(
                (time + 2) * MS,
                self.radius[2 * place + 1],
                sport=1812,
                dport=40000,
                source=AAA,
                destination=NAS,
            )


def pairs_of(found):
    """The types of the messages that have the same EAP message, with those of the RADIUS packets."""
    messages = found.analysis.messages
    joined = messages.join(messages, left_on="same_eap", right_on="message", suffix="_other")
    return joined.filter(pl.col("protocol") == "IKEv2").sort("message").select(
        "handshake", "message_id", "kind", "type_other", "handshake_other"
    ).rows()  # fmt: skip


EXPECTED = [
    (2, "request", "Access-Request"),
    (2, "response", "Access-Challenge"),
    (3, "request", "Access-Request"),
    (3, "response", "Access-Accept"),
]


def test_the_recorded_conversation_is_matched():
    result = look(CAPTURES / "eap-md5-radius.pcapng", log_of("eap-md5-radius"))
    assert pairs_of(result) == [(1, *item, 1) for item in EXPECTED]
    assert result.analysis.messages["matched_by"].drop_nulls().to_list() == ["EAP"] * 4
    without = read_captures(CAPTURES / "eap-md5-radius.pcapng")
    assert without.messages["matched_by"].drop_nulls().to_list() == ["time"] * 4
    # both ways
    same = result.analysis.messages.select("message", "same_eap").drop_nulls().rows()
    assert {(b, a) for a, b in same} == set(same)


@pytest.mark.tshark
def test_tshark_reads_the_same_eap_in_both(tshark, tmp_path):
    """With the messages in clear, tshark's own EAP dissector finds each EAP message in its two places."""

    path = CAPTURES / "eap-md5-radius.pcapng"
    captures = read_captures(path, ReadOptions(keys=CAPTURES / "eap-md5-radius.charon.log.gz", cleartext=True))
    rewrite_capture(str(path), str(tmp_path / "x"), plan_decryption_edits(captures.frames, captures.cleartexts).edits)
    fields = ("isakmp", "radius", "eap.code", "eap.id", "eap.type", "eap.md5.value")
    done = tshark.run("-n", "-Tfields", *(f"-e{item}" for item in ("frame.number", *fields)), "-Yeap",
                      "-Eoccurrence=l", capture=tmp_path / "x")  # fmt: skip
    assert done.status == 0, done.stderr
    rows = [line.split("\t") for line in done.lines]
    by_frame = {int(row[0]): tuple(row[3:]) for row in rows}
    messages = captures.messages
    first = dict(messages.select("message", "first_frame").rows())
    same = [(first[a], first[b]) for a, b in messages.select("message", "same_eap").drop_nulls().rows()]
    assert len(same) == 8
    for a, b in same:
        assert by_frame[a] == by_frame[b]


@pytest.mark.parametrize("gap", [1, 5, 40])
def test_two_logins_of_one_user_at_once(gap):
    """In time, each of the server's answers could be either handshake's; the bytes tell."""
    logins = [Login(1, identifier=1), Login(2, identifier=11)]
    trace = Trace()
    logins[0].play(trace, 0)
    logins[1].play(trace, gap)
    result = look(trace, table(*logins[0].sa.key_sets, *logins[1].sa.key_sets))
    assert sorted(pairs_of(result)) == sorted((number, *item, number) for number in (1, 2) for item in EXPECTED)
    assert result.outcomes == [("established", None)] * 2
    requests = result.analysis.messages.filter(pl.col("type") == "Access-Request").sort("message_id")
    assert requests["handshake"].to_list() == [1, 1, 2, 2]


def test_an_identity_is_no_proof():
    """The same user logs in twice, and there are keys of the first handshake alone: the other's RADIUS is not its."""
    logins = [Login(1, identifier=1), Login(2, identifier=11)]
    trace = Trace()
    logins[0].play(trace, 0)
    logins[1].play(trace, 400)
    result = look(trace, table(*logins[0].sa.key_sets))
    assert pairs_of(result) == [(1, *item, 1) for item in EXPECTED]
    requests = result.analysis.messages.filter(pl.col("type") == "Access-Request").sort("message_id")
    assert requests["handshake"].to_list() == [1, 1, 2, 2]
    assert requests["matched_by"].to_list() == ["EAP", "EAP", "time", "time"]


def test_a_server_that_was_asked_at_an_odd_time():
    """The capture has RADIUS late, as another interface's clock may: time would not give it to the handshake."""
    login = Login(1)
    trace = Trace()
    login.play(trace, 0, asked=(25, 25))
    result = look(trace, table(*login.sa.key_sets))
    assert pairs_of(result) == [(1, *item, 1) for item in EXPECTED]


def test_a_message_that_is_sent_again():
    login = Login(1)
    trace = Trace()
    login.play(trace, 0)
    trace.message(75 * MS, login.messages[4])
    result = look(trace, table(*login.sa.key_sets))
    # the first transmission is the one that is named
    assert pairs_of(result) == [(1, *item, 1) for item in EXPECTED]

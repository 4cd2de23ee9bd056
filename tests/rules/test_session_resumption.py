"""Python, the compiled core and the plugin read resumed sessions (RFC 5723): the exchange (section 4.3), and the
algorithms of the resumed IKE SA, which are those of the IKE SA that was given the ticket (section 5)."""

import json

import polars as pl
import pytest

import ikeanalyze
from tests.analysis.decrypt_captures import look
from tests.analysis.encrypted_handshakes import CHILD, ENCR_AES_CTR, IDENTITIES, PSK, Sa, nameless
from tests.craft import SECOND, Handshake, Trace, ike
from tests.dissectors.run_plugin import fields, run_plugin

TICKET_LT_OPAQUE, TICKET_NACK, TICKET_OPAQUE = 16409, 16412, 16413
TICKET = bytes(range(100))
AES_CTR = ike.Proposal([ike.Transform(ike.ENCR, ENCR_AES_CTR, 128), *ike.CLASSIC.transforms[1:]])
AES_GCM = ike.Proposal([ike.Transform(ike.ENCR, ike.ENCR_AES_GCM_16, 256), *ike.CLASSIC.transforms[2:]])


def resume(handshake):
    """IKE_SESSION_RESUME with a ticket, and its nonce."""
    payloads = [ike.nonce(bytes(range(32))), ike.notify(TICKET_OPAQUE, TICKET)]
    return handshake.clear(ike.IKE_SESSION_RESUME, payloads, spi_r=bytes(8))


def respond(handshake, payload, spi_r=None):
    return handshake.clear(ike.IKE_SESSION_RESUME, [payload], from_initiator=False, response=True, spi_r=spi_r)


def accept():
    """The responder answers with its nonce, and IKE_AUTH follows."""
    handshake = Handshake(1)
    messages = [resume(handshake), respond(handshake, ike.nonce(bytes(32)))]
    handshake.message_id[True] = 1
    return messages + handshake.auth()


def refuse():
    """The initiator then sets up an IKE SA without the ticket."""
    handshake = Handshake(1)
    return [resume(handshake), respond(handshake, ike.notify(TICKET_NACK), bytes(8)), *Handshake(2).setup()]


CASES = [
    (accept, [("completed", None)]),
    (refuse, [("failed", "TICKET_NACK"), ("completed", None)]),
]
each_case = pytest.mark.parametrize(("messages", "expected"), CASES, ids=["accept", "refuse"])


def make_capture(messages):
    """The capture goes on for a minute."""
    trace = Trace()
    trace.play(messages())
    trace.send(60 * SECOND, b"other traffic", sport=53, dport=53)
    return trace.pcap()


@pytest.mark.usefixtures("implementation")
@each_case
def test_reports_have_the_outcome(messages, expected):
    handshakes = ikeanalyze.read(make_capture(messages)).handshakes
    assert handshakes.select("outcome", "reason").rows() == expected


def test_a_refused_ticket_has_a_diagnosis_of_its_own(tshark):
    """TICKET_NACK is a status notify: the initiator is expected to go on without the ticket."""
    capture = make_capture(refuse)
    [entry] = ikeanalyze.read(capture).handshakes["diagnosis"][0]
    assert (entry["code"], entry["frames"]) == ("ticket-refused", [2])
    names = [f"ikex.diagnosis.{name}" for name in ("code", "message")]
    rows = fields(tshark, capture, *names, only="ikex.handshake == 1")
    assert {tuple(row) for row in rows} == {(entry["code"], entry["message"])}


@each_case
def test_the_plugin_has_the_outcome(messages, expected, tshark):
    lines = run_plugin(tshark, make_capture(messages), "-q", "-z", "ikex,handshakes").lines
    rows = [line.split()[13:] for line in lines if line.split()[:1] and line.split()[0].isdigit()]
    assert [(row[0], None if row[-1] == "-" else row[-1]) for row in rows] == expected


GIVEN = ike.notify(TICKET_LT_OPAQUE, bytes(4) + TICKET)  # after the lifetime of the ticket


def give_in_auth(sa):
    return sa.authenticated(response=[IDENTITIES[False], PSK, *CHILD, GIVEN])


def give_later(sa):
    """The client asks for a ticket when the IKE SA exists (section 4.1)."""
    return [*sa.authenticated(), *sa.swap(ike.INFORMATIONAL, [ike.notify(16410)], [GIVEN])]


def give_after_rekeying(sa):
    """To the IKE SA that replaced the first one, which negotiated its algorithms in CREATE_CHILD_SA."""
    replacing = Sa(3, proposals=sa.proposals)
    replacing.moved, transforms = True, sa.proposals[0].transforms
    offer = [
        [ike.sa([ike.Proposal(transforms, spi=spi)]), ike.nonce(bytes([spi[0]]) * 32), ike.ke(19, bytes(64))]
        for spi in (replacing.spi_i, replacing.spi_r)
    ]
    rekeying = sa.swap(ike.CREATE_CHILD_SA, *offer)
    sa.key_sets += replacing.key_sets
    return [*sa.authenticated(), *rekeying, *replacing.swap(ike.INFORMATIONAL, [ike.notify(16410)], [GIVEN])]


def make_resumed_capture(give, proposal):
    """A session, and its resumption from another address, as by a client that moves; and the keys of all IKE SAs."""
    other = Sa(9, proposals=(AES_GCM if proposal is ike.CLASSIC else ike.CLASSIC,))
    old, new = Sa(1, proposals=(proposal,)), Sa(2, proposals=(proposal,), initiator="192.0.2.77")
    trace = Trace()
    trace.play(other.whole())
    trace.play([*old.init(), *give(old)], at=10 * SECOND)
    exchange = [resume(new), respond(new, ike.nonce(bytes(32)))]
    new.message_id[True] = 1
    trace.play([*exchange, *new.authenticated(fragments=(2, 1))], at=60 * SECOND)
    return trace, [*other.key_sets, *old.key_sets, *new.key_sets], new.spi_i.hex()


def get_auth_messages(analysis, spi_i):
    """The IKE_AUTH messages of the resumed session."""
    handshake = analysis.handshakes.row(by_predicate=pl.col("spi_i") == spi_i, named=True)["handshake"]
    return analysis.messages.filter(pl.col("handshake") == handshake, pl.col("type") == "IKE_AUTH")


def with_spis(*key_sets):
    """As `nameless`, with the SPIs."""
    entries = json.loads(nameless(*key_sets))
    for entry, keys in zip(entries, key_sets, strict=True):
        entry |= {"spi_i": keys.spi_i.hex(), "spi_r": keys.spi_r.hex()}
    return json.dumps(entries)


each_way = pytest.mark.parametrize(
    ("give", "proposal", "form"),
    [
        (give_in_auth, ike.CLASSIC, nameless),
        (give_in_auth, AES_CTR, nameless),
        (give_in_auth, AES_GCM, nameless),
        (give_in_auth, ike.CLASSIC, with_spis),
        (give_later, AES_CTR, nameless),
        (give_after_rekeying, ike.CLASSIC, nameless),
    ],
)


@pytest.mark.usefixtures("implementation")
@each_way
def test_keys_without_algorithms_decrypt_a_resumed_session(give, proposal, form):
    trace, key_sets, spi_i = make_resumed_capture(give, proposal)
    analysis = look(trace, form(*key_sets)).analysis
    assert analysis.messages["decrypted"].drop_nulls().all()
    assert get_auth_messages(analysis, spi_i).select("epoch", "payloads").rows() == [
        (0, ["IDi(ini)", "AUTH(PSK)", "SA", "TSi(10.1.0.0/24)", "TSr(10.2.0.0/24)"]),
        (0, ["IDr(res)", "AUTH(PSK)", "SA", "TSi(10.1.0.0/24)", "TSr(10.2.0.0/24)"]),
    ]


@each_way
def test_keys_without_algorithms_decrypt_a_resumed_session_in_the_plugin(give, proposal, form, tshark):
    trace, key_sets, spi_i = make_resumed_capture(give, proposal)
    names = ("ikex.exchange", "ikex.epoch", "ikex.verified")
    only = f"isakmp.ispi == {spi_i} && ikex.exchange == 35"
    assert fields(tshark, trace.pcap(), *names, only=only, keys=form(*key_sets)) == [
        ["IKE_AUTH", "0", "True"],
        ["IKE_AUTH", "0", "True"],
        ["IKE_AUTH", "0", "True"],
    ]


def test_keys_without_algorithms_need_the_ticket_of_the_resumed_session():
    """No ticket of the capture is that of the new session, so nothing shows its algorithms."""
    trace, key_sets, spi_i = make_resumed_capture(Sa.authenticated, ike.CLASSIC)
    analysis = look(trace, with_spis(*key_sets)).analysis
    assert get_auth_messages(analysis, spi_i)["decrypted"].to_list() == [False, False]

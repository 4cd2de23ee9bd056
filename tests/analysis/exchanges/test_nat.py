"""Who is behind a NAT, by the hashes of IKE_SA_INIT and of IKEv1's phase 1."""

import hashlib
from contextlib import nullcontext
from ipaddress import ip_address

import numpy as np
import pytest

import ikeanalyze
from fuzz.equality import in_blocks
from ikeanalyze.analysis.exchanges.nat import WORDS, classify_nat
from tests.analysis.analyse_captures import Handshake, analyse, only
from tests.craft import MS, SECOND, Trace, ike, ikev1
from tests.paths import CAPTURES

OWN = ("10.0.0.1", 500)


def init_with(request_hashes, response_hashes, *, addresses=("192.0.2.1", "192.0.2.2"), port=500):
    """The NAT of an IKE_SA_INIT whose notifies hash these (source, destination) endpoints; None: no notifies."""
    trace = Trace()
    handshake = Handshake(1, initiator=addresses[0], responder=addresses[1])
    send_init(trace, handshake, request_hashes, response_hashes, port=port)
    return only(analyse(trace))["nat"]


def send_init(trace, handshake, request_hashes, response_hashes, *, port=500, at=0):
    def message(ends, from_initiator):
        spi_r = bytes(8) if from_initiator else handshake.spi_r
        kinds = (ike.NAT_DETECTION_SOURCE_IP, ike.NAT_DETECTION_DESTINATION_IP)
        hashes = [
            ike.notify(kind, ike.nat_hash(handshake.spi_i, spi_r, *end))
            for kind, several in zip(kinds, ends or (), strict=False)
            for end in (several if isinstance(several, list) else [several])
        ]
        payloads = [ike.sa([ike.CLASSIC]), ike.ke(19, bytes(64)), ike.nonce(b"n" * 32), *hashes]
        return handshake.clear(34, payloads, from_initiator=from_initiator, response=not from_initiator, spi_r=spi_r)

    for time, (ends, from_initiator) in enumerate(((request_hashes, True), (response_hashes, False))):
        one = message(ends, from_initiator)
        ports = (port, 500) if from_initiator else (500, port)
        trace.send(
            at + time * MS,
            one.datagrams[0],
            sport=ports[0],
            dport=ports[1],
            source=one.source,
            destination=one.destination,
        )


HERE, THERE = ("192.0.2.1", 500), ("192.0.2.2", 500)


@pytest.mark.parametrize(
    ("request_hashes", "response_hashes", "nat"),
    [
        ((HERE, THERE), (THERE, HERE), "none"),
        ((OWN, THERE), (THERE, HERE), "initiator"),
        ((HERE, OWN), (OWN, HERE), "responder"),
        ((OWN, ("10.9.9.9", 500)), (("10.9.9.9", 500), HERE), "both"),
        (None, None, None),
        # one of the messages is enough
        ((OWN, THERE), None, "initiator"),
        (None, (OWN, HERE), "responder"),
        # a host with several addresses hashes each
        (([OWN, HERE], THERE), (THERE, HERE), "none"),
        (([OWN, ("10.0.0.2", 500)], THERE), (THERE, HERE), "initiator"),
    ],
)
def test_nat_detection_hashes_show_who_is_behind_a_nat(request_hashes, response_hashes, nat):
    assert init_with(request_hashes, response_hashes) == nat


@pytest.mark.parametrize("read_by_core", [False, True])
def test_equal_hashes_in_one_message_do_not_move_those_of_others(read_by_core):
    # the messages differ in nothing else, so the first one is the sample of all
    trace = Trace()
    send_init(trace, Handshake(1), (OWN, OWN), (OWN, OWN))
    send_init(trace, Handshake(2), (HERE, THERE), (THERE, HERE), at=SECOND)
    with in_blocks(1 << 20) if read_by_core else nullcontext():
        assert analyse(trace).handshakes["nat"].to_list() == ["both", "none"]


def test_a_port_alone_may_have_been_changed():
    assert init_with((HERE, THERE), (THERE, ("192.0.2.1", 61000)), port=61000) == "initiator"


def test_nat_detection_hashes_of_ipv6_are_compared():
    ends = ("2001:db8::1", 500), ("2001:db8::2", 500)
    addresses = ends[0][0], ends[1][0]
    assert init_with(ends, ends[::-1], addresses=addresses) == "none"
    assert init_with((("fd00::1", 500), ends[1]), ends[::-1], addresses=addresses) == "initiator"


@pytest.mark.parametrize("ipv6", [False, True])
def test_a_handshake_behind_a_nat(ipv6):
    addresses = {"initiator": "2001:db8::1", "responder": "2001:db8::2"} if ipv6 else {}
    trace = Trace()
    trace.play(Handshake(1, nat=True, **addresses).setup(before="both"))
    assert only(analyse(trace))["nat"] == "initiator"


def test_both_sides_make_one_word():
    unknown, no, yes = -1, 0, 1
    sides = [(unknown, unknown), (no, unknown), (yes, no), (unknown, yes), (yes, yes), (no, no)]
    first, second = (np.array(side, np.int8) for side in zip(*sides, strict=True))
    nothing = np.zeros(len(sides), np.bool_)
    assert [WORDS[index] for index in classify_nat(first, second, (nothing, nothing))] == [
        None,
        "none",
        "initiator",
        "responder",
        "both",
        "none",
    ]


def test_a_side_with_hidden_hashes_is_known_only_if_another_hash_shows_a_nat():
    no, yes = 0, 1
    sides = [(no, no), (yes, no), (no, yes), (yes, yes)]
    first, second = (np.array(side, np.int8) for side in zip(*sides, strict=True))
    hidden, nothing = np.ones(len(sides), np.bool_), np.zeros(len(sides), np.bool_)
    words = [WORDS[index] for index in classify_nat(first, second, (hidden, nothing))]
    assert words == [None, "initiator", None, "both"]


SHA2_256, SHA1 = 4, 2


def phase1_with(request_hashes, response_hashes, *, chosen=SHA2_256, hashed="sha256", mode=ikev1.MAIN_MODE, size=None):
    """IKEv1's main (or aggressive) mode, whose NAT-D payloads hash these (destination, source) endpoints.

    `size`: the messages after the first are sent in fragments with that many of their bytes.
    """
    cookies = b"initiatr", b"responde"
    offer = ikev1.sa(((1, 7), (14, 128), (2, chosen), (4, 14), (3, 1)))
    keys = [(ikev1.KE, bytes(256)), (ikev1.NONCE, bytes(32))]

    def hashes(ends):
        both = b"".join(cookies)
        return [
            (
                ikev1.NAT_D,
                hashlib.new(hashed, both + ip_address(host).packed + port.to_bytes(2, "big")).digest(),
            )
            for host, port in ends
        ]

    if mode == ikev1.MAIN_MODE:
        sent = [[offer], [offer], [*keys, *hashes(request_hashes)], [*keys, *hashes(response_hashes)]]
    else:
        sent = [[offer, *keys], [offer, *keys, *hashes(response_hashes)], hashes(request_hashes)]
    trace = Trace()
    for number, payloads in enumerate(sent):
        spis = cookies[0], cookies[1] if number else bytes(8)
        whole = ikev1.message(*spis, mode, payloads)
        for part in ikev1.fragments(whole, size) if size and number else [whole]:
            trace.send(number * MS, part, from_initiator=number % 2 == 0)
    return only(analyse(trace))["nat"]


@pytest.mark.parametrize("mode", [ikev1.MAIN_MODE, ikev1.AGGRESSIVE_MODE])
@pytest.mark.parametrize(
    ("request_hashes", "response_hashes", "nat"),
    [
        ((THERE, HERE), (HERE, THERE), "none"),
        ((THERE, OWN), (HERE, THERE), "initiator"),
        ((THERE, OWN, HERE), (HERE, THERE), "none"),  # a host with several addresses
        ((OWN, HERE), (HERE, OWN), "responder"),
        ((OWN, OWN), (OWN, OWN), "both"),
    ],
)
def test_ikev1_hashes_the_receiver_first(request_hashes, response_hashes, nat, mode):
    assert phase1_with(request_hashes, response_hashes, mode=mode) == nat


@pytest.mark.parametrize("mode", [ikev1.MAIN_MODE, ikev1.AGGRESSIVE_MODE])
@pytest.mark.parametrize(
    ("request_hashes", "response_hashes", "nat"),
    [
        ((THERE, HERE), (HERE, THERE), "none"),
        ((THERE, OWN), (HERE, THERE), "initiator"),
        ((OWN, HERE), (HERE, OWN), "responder"),
        ((OWN, OWN), (OWN, OWN), "both"),
        ((), (), None),
    ],
)
def test_ikev1_hashes_in_fragments_are_compared(request_hashes, response_hashes, nat, mode):
    # a NAT-D payload of 36 bytes does not fit into a fragment
    assert phase1_with(request_hashes, response_hashes, mode=mode, size=32) == nat


def test_ikev1_uses_the_hash_that_was_chosen():
    plain = (THERE, HERE), (HERE, THERE)
    assert phase1_with(*plain, chosen=SHA1, hashed="sha1") == "none"
    # what does not have its size is no hash of that kind, and says nothing
    assert phase1_with(*plain, chosen=SHA1) is None
    assert phase1_with(*plain, chosen=3) is None
    assert phase1_with((), ()) is None


def test_recorded_ikev1_daemons_claim_a_nat():
    """The recorded daemons force UDP encapsulation by a false hash of their own endpoints: the lab has no NAT."""
    analysis = ikeanalyze.read(CAPTURES / "ikev1-xauth.pcap")
    assert analysis.handshakes["nat"].unique().to_list() == ["both"]

"""EAP-AKA as paper 001 counts it: 11 packets between user equipment and gateway, 5 between gateway and core.

The paper has the two numbers and no list of messages. Here the gateway's certificate splits its first IKE_AUTH response
into two IP fragments, and its first Access-Request is sent twice, as the server waits for the HSS. This is the flow
of IKEv2 with EAP-AKA (RFC 4187, section 3; RFC 7296, section 2.16) with one packet more on each side than necessary.
"""

from random import Random

import pytest

from tests.analysis.analyse_captures import MS, Trace, analyse, only
from tests.analysis.decrypt_captures import look
from tests.analysis.encrypted_handshakes import CHILD, IDENTITIES, PSK, Sa, table
from tests.craft import eap as eap_
from tests.craft import ike
from tests.craft import radius as radius_

GATEWAY, AAA = "198.51.100.1", "198.51.100.2"
USER = b"0232010000000000@nai.epc.mnc001.mcc232.3gppnetwork.org"


class Attachment:
    """The messages of one attachment; `kind`: EAP-AKA, or EAP-AKA' of RFC 9048."""

    def __init__(self, kind=eap_.AKA):
        rng = Random(1)
        self.sa = Sa(1, proposals=(ike.CLASSIC,))
        mac = (eap_.AT_MAC, bytes(2) + rng.randbytes(16))
        challenge = (
            (eap_.AT_RAND, bytes(2) + rng.randbytes(16)),
            (eap_.AT_AUTN, bytes(2) + rng.randbytes(16)),
            mac,
        )
        requested = eap_.eap(eap_.REQUEST, 0, eap_.IDENTITY)
        identity = eap_.eap(eap_.RESPONSE, 0, eap_.IDENTITY, USER)
        request = eap_.aka(eap_.REQUEST, 1, eap_.AKA_CHALLENGE, *challenge, kind=kind)
        answer = eap_.aka(
            eap_.RESPONSE, 1, eap_.AKA_CHALLENGE, (eap_.AT_RES, b"\0\x40" + rng.randbytes(8)), mac, kind=kind
        )
        success = eap_.eap(eap_.SUCCESS, 1)
        certificate = (ike.CERT, b"\4" + rng.randbytes(1500))
        inside = [
            [IDENTITIES[True], *CHILD], [IDENTITIES[False], certificate, PSK, (ike.EAP, requested)],
            [(ike.EAP, identity)], [(ike.EAP, request)],
            [(ike.EAP, answer)], [(ike.EAP, success)],
            [PSK], [PSK, *CHILD],
        ]  # fmt: skip
        self.messages = self.sa.init()
        for at in range(0, len(inside), 2):
            self.messages += self.sa.swap(ike.IKE_AUTH, *inside[at : at + 2])
        state = rng.randbytes(16)
        first = radius_.access_request(1, identity, rng)
        second = radius_.access_request(2, answer, rng, state=state)
        self.radius = [
            first,
            first,
            radius_.challenge(first, request, state),
            second,
            radius_.accept(second, success),
        ]

    def trace(self, *, radius=True):
        """Exchanges 30 ms apart, their responses 20 ms late; the AAA server is asked 3 ms after a request."""
        trace = Trace()
        for place, message in enumerate(self.messages):
            trace.message((place // 2 * 30 + place % 2 * 20) * MS, message)
        times = (63, 68, 73, 93, 98)
        for time, packet in zip(times, self.radius if radius else (), strict=bool(radius)):
            ends = {"source": GATEWAY, "destination": AAA, "sport": 40000, "dport": 1812}
            if packet[0] != radius_.ACCESS_REQUEST:
                ends = {"source": AAA, "destination": GATEWAY, "sport": 1812, "dport": 40000}
            trace.send(time * MS, packet, **ends)
        return trace


def counts(row):
    access = row["initiator_frames"] + row["responder_frames"]
    return access, (row["aaa_request_frames"] or 0) + (row["aaa_response_frames"] or 0)


def method(row):
    return row["auth_initiator"], row["auth_eap"], row["auth_guessed"]


@pytest.mark.parametrize(("kind", "name"), [(eap_.AKA, "EAP-AKA"), (eap_.AKA_PRIME, "EAP-AKA'")])
def test_radius_shows_eap_aka(kind, name):
    row = only(analyse(Attachment(kind).trace()))
    assert counts(row) == (11, 5)
    assert method(row) == ("eap", name, False)
    assert (row["outcome"], row["nas_address"], row["aaa_address"]) == ("completed", GATEWAY, AAA)
    # the first request was sent again after 5 ms and answered 5 ms later, as the second one was
    assert (row["aaa_ns"], row["retransmission_wait_ns"]) == (10 * MS, 5 * MS)


def test_decrypted_messages_show_eap_aka():
    attachment = Attachment()
    without = only(analyse(attachment.trace(radius=False)))
    assert counts(without) == (11, 0)
    assert method(without) == ("eap", None, True)
    result = look(attachment.trace(radius=False), table(*attachment.sa.key_sets))
    assert method(only(result.analysis)) == ("eap", "EAP-AKA", False)
    reported = [name for names in result.analysis.messages["payloads"] for name in names if name.startswith("EAP")]
    assert reported == [
        "EAP(Request Identity)",
        f"EAP(Response Identity {USER.decode()})",
        "EAP(Request AKA Challenge (AT_RAND, AT_AUTN, AT_MAC))",
        "EAP(Response AKA Challenge (AT_RES, AT_MAC))",
        "EAP(Success)",
    ]


def test_the_same_eap_on_both_sides():
    attachment = Attachment()
    result = look(attachment.trace(), table(*attachment.sa.key_sets))
    row = only(result.analysis)
    assert counts(row) == (11, 5)
    assert (row["outcome"], *method(row)) == ("established", "eap", "EAP-AKA", False)
    assert set(result.analysis.messages["matched_by"].drop_nulls()) == {"EAP"}


@pytest.mark.tshark
def test_tshark_reads_the_same_attributes(tshark):
    trace = Attachment().trace()
    done = tshark.run("-n", "-Yradius && eap.code < 3", "-Tfields", "-eeap.type", "-eeap.aka.subtype",
                      capture=trace.pcap())  # fmt: skip
    assert done.status == 0, done.stderr
    assert done.lines == ["1\t", "1\t", "23\t1", "23\t1"]

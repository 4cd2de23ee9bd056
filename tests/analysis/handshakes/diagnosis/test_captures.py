"""Diagnoses of captures as a whole."""

from ikeanalyze.analysis.handshakes.diagnosis.captures import diagnose_captures
from tests.analysis.analyse_captures import Handshake, analyse
from tests.craft import SECOND, Trace


def make_flood(count, *, gap, completed=0, nat=False):
    """So many handshakes that stop after IKE_SA_INIT, from as many addresses, and some that do not stop."""
    trace = Trace()
    for number in range(count):
        trace.play(Handshake(number, initiator=f"198.51.100.{number}", nat=nat).init(), at=number * gap)
    for number in range(count, count + completed):
        trace.play(Handshake(number).setup(), at=number * gap)
    return trace


def flood(count, **options):
    return analyse(make_flood(count, **options)).handshakes


def test_a_flood_of_half_open_ike_sas():
    (entry,) = diagnose_captures(flood(20, gap=SECOND))
    assert (entry.code, entry.confidence) == ("half-open-flood", "consistent with")
    assert entry.message == (
        "20 of 20 handshakes with 192.0.2.2 stop after IKE_SA_INIT, from 20 addresses; it never asked for a cookie: "
        "consistent with a flood of half-open IKE SAs."
    )
    assert entry.handshakes == tuple(range(1, 13))


def test_a_capture_without_port_4500_looks_like_a_flood():
    """Initiators behind a NAT continue on port 4500 (RFC 7296, section 2.23)."""
    (entry,) = diagnose_captures(flood(20, gap=SECOND, nat=True))
    assert entry.message.endswith(
        "consistent with a capture filter that leaves out UDP port 4500, on which set-ups continue behind a NAT and which "
        "no IKE message of the capture has, or with a flood of half-open IKE SAs."
    )
    (entry,) = diagnose_captures(flood(20, gap=SECOND, nat=True, completed=1))
    assert entry.message.endswith("consistent with a flood of half-open IKE SAs.")


def test_fewer_are_no_flood():
    assert diagnose_captures(flood(19, gap=SECOND)) == []


def test_a_scanner_now_and_then_is_no_flood():
    assert diagnose_captures(flood(25, gap=4 * SECOND)) == []


def test_a_gateway_where_most_succeed_has_no_flood():
    assert len(diagnose_captures(flood(20, gap=SECOND, completed=19))) == 1
    assert diagnose_captures(flood(20, gap=SECOND, completed=20)) == []


def test_a_capture_without_handshakes():
    assert diagnose_captures(analyse(Trace()).handshakes) == []

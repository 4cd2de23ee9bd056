"""Python, the compiled core and the plugin decide about a response that lacks IP fragments (docs/rules.md)."""

import pytest

import ikeanalyze
from tests.craft import MS, SECOND, Handshake, Trace
from tests.dissectors.run_plugin import fields

#: Times of the IKE_AUTH request in ms; each is answered after 20 ms by a response in three IP fragments.
TWICE, ONCE = (100, 600), (100,)


def make_capture(times, lost):
    """A set-up whose IKE_AUTH response loses the IP fragments `lost[n]` of transmission n. It goes on for a minute."""
    handshake, trace = Handshake(1), Trace()
    trace.play(handshake.init())
    request, response = handshake.auth(sizes=(200, 3000))
    for time, indexes in zip(times, lost, strict=True):
        trace.message(time * MS, request)
        packets = trace.message((time + 20) * MS, response)
        assert len(packets) == 3
        trace.drop([packets[index] for index in indexes])
    trace.send(60 * SECOND, b"other traffic", sport=53, dport=53)
    return trace.pcap()


CASES = {
    "each transmission lacks one": (TWICE, [[1], [2]], "unanswered"),
    "the second transmission is complete": (TWICE, [[1], []], "completed"),
    "the first transmission is complete": (TWICE, [[], [1]], "completed"),
    # the initiator does not repeat its request, so it has received what the capture lost
    "the only transmission lacks one": (ONCE, [[1]], "completed"),
    # as a capture filter on UDP ports leaves them
    "only the first ones are there": (TWICE, [[1, 2], [1, 2]], "completed"),
}
each_case = pytest.mark.parametrize(("times", "lost", "expected"), CASES.values(), ids=CASES)


@pytest.mark.usefixtures("implementation")
@each_case
def test_reports_have_the_outcome(times, lost, expected):
    assert ikeanalyze.read(make_capture(times, lost)).handshakes["outcome"].to_list() == [expected]


@pytest.mark.turns
@each_case
def test_the_plugin_has_the_outcome(times, lost, expected, tshark):
    assert fields(tshark, make_capture(times, lost), "ikex.outcome", only="frame.number == 1") == [[expected]]


def test_report_and_plugin_diagnose_the_path(tshark):
    path = make_capture(*CASES["each transmission lacks one"][:2])
    [diagnoses] = ikeanalyze.read(path).handshakes["diagnosis"].to_list()
    assert [diagnosis["code"] for diagnosis in diagnoses] == ["path-drops-fragments"]
    assert fields(tshark, path, "ikex.diagnosis.code", only="frame.number == 1") == [["path-drops-fragments"]]


def interleave_requests():
    """Requests of hosts 1, 3, and 5 in this order. The first one lacks its last IP fragment and comes again at the end;
    the last IP fragment of the second one comes after the third request.
    """
    trace = Trace(mtu=200)
    lacking, late, between = (Handshake(host, initiator=f"192.0.2.{host}").setup()[0] for host in (1, 3, 5))
    trace.drop(trace.message(0, lacking)[1:])
    last = trace.message(SECOND, late)[-1:]
    trace.drop(last)
    trace.repeat(last, 20 * MS)
    trace.mtu = 1500
    trace.message(SECOND + 10 * MS, between)
    trace.message(2 * SECOND, lacking)
    return trace.pcap()


@pytest.mark.usefixtures("implementation")
def test_reports_number_handshakes_by_their_first_fragments():
    addresses = ikeanalyze.read(interleave_requests()).handshakes["initiator_address"].to_list()
    assert addresses == ["192.0.2.1", "192.0.2.3", "192.0.2.5"]


@pytest.mark.turns
def test_the_plugin_numbers_handshakes_by_their_first_fragments(tshark):
    shown = fields(tshark, interleave_requests(), "ikex.handshake", "ip.src", only="ikex.handshake")
    assert sorted(shown) == [["1", "192.0.2.1"], ["1", "192.0.2.1"], ["2", "192.0.2.3"], ["3", "192.0.2.5"]]

"""Python, the compiled core and the plugin put IP fragments together, and decide about a response that lacks some
(docs/rules.md)."""

import pytest

import ikeanalyze
from tests.craft import MS, SECOND, Handshake, Trace, link, tunnel
from tests.dissectors.run_plugin import fields, run_plugin

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


def play(change=None, frame=link.ethernet, snaplen=262144):
    """A set-up whose IKE_AUTH response comes in three IP fragments at 120 ms; `change` changes these in the trace."""
    handshake, trace = Handshake(1), Trace(frame=frame)
    trace.play(handshake.init())
    request, response = handshake.auth(sizes=(200, 3000))
    trace.message(100 * MS, request)
    packets = trace.message(120 * MS, response)
    assert len(packets) == 3
    if change is not None:
        change(trace, packets)
    trace.send(60 * SECOND, b"other traffic", sport=53, dport=53)
    return trace.pcap(snaplen=snaplen)


def copy_in_the_capture(trace, packets):
    """A router shows the second fragment twice: it is one frame on the wire."""
    trace.repeat(packets[1:2], 500_000)


def double_in_the_network(trace, packets):
    """The second fragment comes again too soon for a retransmission: one frame more, which the receiver ignores."""
    trace.repeat(packets[1:2], 50 * MS)


def double_before_the_last(trace, packets):
    trace.drop(packets[2:])
    trace.repeat(packets[1:2], 50 * MS)
    trace.repeat(packets[2:], 60 * MS)


def reverse(trace, packets):
    trace.drop(packets[::2])
    trace.repeat(packets[2:], 0)
    trace.repeat(packets[:1], 5 * MS)


def use_the_identification_again(trace, packets):
    """A fragment of an earlier datagram with the same identification, which the receiver gives up after 30 s."""
    trace.repeat(packets[1:2], -31 * SECOND)


#: For each change: frames of the IKE_AUTH response, and time of its last new fragment in ms, by hand.
CHANGES = [
    (None, 3, 120.002),
    (copy_in_the_capture, 3, 120.002),
    (double_in_the_network, 4, 120.002),
    (double_before_the_last, 4, 180.002),
    (reverse, 3, 125.0),
    (use_the_identification_again, 3, 120.002),
]
each_change = pytest.mark.parametrize(
    ("change", "frames", "last"), CHANGES, ids=lambda value: getattr(value, "__name__", "")
)
#: In Ethernet, with two tags, and in tunnels, the last with the ports of UDP.
FRAMES = {
    "Ethernet": link.ethernet,
    "QinQ": lambda packet: link.ethernet(packet, vlans=[(link.QINQ, 7), (link.VLAN, 5)]),
    **{
        name: lambda packet, name=name: tunnel.ALL[name].wrap(link.ethernet(packet))
        for name in ("gre", "vxlan", "l2tp, all fields", "ip in ipv4")
    },
}
each_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


@pytest.mark.usefixtures("implementation")
@each_change
def test_reports_count_fragments_that_come_again(change, frames, last):
    (row,) = ikeanalyze.read(play(change)).handshakes.iter_rows(named=True)
    assert (row["responder_frames"], row["setup_ns"] / 1e6) == (1 + frames, last)


@pytest.mark.turns
@each_change
def test_the_plugin_counts_fragments_that_come_again(change, frames, last, tshark):
    assert list_handshakes(tshark, play(change)) == [(str(1 + frames), last)]


@pytest.mark.turns
@each_frame
def test_the_plugin_finds_fragments_in_tunnels(frame, tshark):
    assert list_handshakes(tshark, play(frame=frame)) == [("4", 120.002)]


@pytest.mark.turns
def test_the_plugin_counts_truncated_fragments(tshark):
    """Wireshark does not put them together: it dissects the first one, and the others have no ports."""
    assert list_handshakes(tshark, play(snaplen=128)) == [("4", 120.002)]


@pytest.mark.turns
def test_fragments_count_alike_while_the_capture_is_read(tshark):
    """The fields of each packet are needed before the next one is read."""
    listing = "-Y", "ikex", "-Tfields", "-e", "ikex.exchange"
    assert list_handshakes(tshark, play(double_before_the_last), *listing) == [("5", 180.002)]


def list_handshakes(tshark, capture, *listing):
    """Frames of the responder and set-up time in ms; `listing`: what tshark prints before, nothing by default."""
    lines = run_plugin(tshark, capture, *(listing or ["-q"]), "-z", "ikex,handshakes").lines
    return [(line.split()[9], float(line.split()[12])) for line in lines if line.startswith("  1 ")]

"""Python, the compiled core and the plugin follow the redirects of several initiators (RFC 5685, section 3)."""

import pytest

import ikeanalyze
from ikeanalyze import core
from tests.craft import MS, SECOND, Handshake, Trace, ike
from tests.dissectors.run_plugin import run_plugin

REDIRECTED_FROM = 16408
FIRST_GATEWAY, SECOND_GATEWAY = "192.0.2.2", "192.0.2.3"


def identify(address):
    """The identity of a gateway: type 1 is IPv4."""
    return bytes([1, 4, *map(int, address.split("."))])


def redirect_initiator(number, ports, *, same_spi=False):
    """The messages of an initiator that one gateway redirects to another; `ports`: those that a NAT gave it, if any."""
    nat = {"nat": ports is not None, "nat_ports": ports or (0, 0)}
    first = Handshake(number, responder=FIRST_GATEWAY, notifies=[ike.notify(ike.REDIRECT_SUPPORTED)], **nat)
    request = first.init()[0]
    first.moved = False
    refusal = first.clear(
        ike.IKE_SA_INIT,
        [ike.notify(ike.REDIRECT, identify(SECOND_GATEWAY))],
        from_initiator=False,
        response=True,
        spi_r=bytes(8),
    )
    come_from = ike.notify(REDIRECTED_FROM, identify(FIRST_GATEWAY))
    second = Handshake(100 + number, responder=SECOND_GATEWAY, notifies=[come_from], **nat)
    if same_spi:
        second.spi_i = first.spi_i
    return [request, refusal, *second.setup()]


def make_capture(initiators):
    """Each initiator sends its messages 1 ms after the one before it; the capture goes on for a minute."""
    trace = Trace()
    for number, messages in enumerate(initiators):
        trace.play(messages, at=number * MS)
    trace.send(60 * SECOND, b"other traffic", sport=53, dport=53)
    return trace.pcap()


CASES = {
    "behind a NAT": [redirect_initiator(1, (40001, 41001)), redirect_initiator(2, (40002, 41002))],
    "with equal ports": [redirect_initiator(1, None), redirect_initiator(2, None)],
    "with one SPI": [redirect_initiator(1, (40001, 41001), same_spi=True), redirect_initiator(2, (40002, 41002))],
}
each_case = pytest.mark.parametrize("initiators", CASES.values(), ids=CASES)
#: Of each handshake: requests and responses of the set-up, set-up time in ms (three exchanges of 21 ms, with 1 ms
#: between them), and outcome.
EXPECTED = (3, 3, 65.0, "completed")


@pytest.mark.parametrize("compiled", [False, True], ids=["Python", "core"])
@each_case
def test_reports_follow_each_initiator(initiators, compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(core, "compiled", None)
    elif core.compiled is None:
        pytest.skip(f"the compiled core is {core.problem}; make core builds it")
    handshakes = ikeanalyze.read(make_capture(initiators)).handshakes
    columns = ("initiator_messages", "responder_messages", "setup_ns", "outcome")
    rows = [(sent, received, time / 1e6, text) for sent, received, time, text in handshakes.select(columns).rows()]
    assert rows == [EXPECTED] * len(initiators)
    assert handshakes["extra_round_trips"].to_list() == [["REDIRECT"]] * len(initiators)


@each_case
def test_the_plugin_follows_each_initiator(initiators, tshark):
    lines = run_plugin(tshark, make_capture(initiators), "-q", "-z", "ikex,handshakes").lines
    rows = [line.split() for line in lines if line.split()[:1] and line.split()[0].isdigit()]
    found = [(int(row[-10]), int(row[-7]), float(row[-4]), row[-3]) for row in rows]
    assert (found, [row[-1] for row in rows]) == ([EXPECTED] * len(initiators), ["+REDIRECT"] * len(initiators))

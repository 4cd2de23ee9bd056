import importlib.util

from ikeanalyze.io.suggestions import advise_install
from ikeanalyze.replay.transport import open as opening
from ikeanalyze.replay.transport.target import Target
from ikeanalyze.replay.transport.udp import UdpTransport


def test_without_scapy_udp_sockets_are_used_and_the_pip_of_this_python_is_named(monkeypatch):
    monkeypatch.setattr(opening, "find_spec", lambda name: None if name == "scapy" else importlib.util.find_spec(name))
    transport, why = opening.open_transport(Target("127.0.0.1", 9), lambda *_: None)
    try:
        assert isinstance(transport, UdpTransport)
        assert why == f"scapy is not installed: {advise_install('scapy')}"
    finally:
        transport.close()

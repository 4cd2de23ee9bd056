import socket
import subprocess
import sys

import pytest

from ikeanalyze.lab.network import emulation, topology
from ikeanalyze.lab.network.namespaces import NetnsSandbox, run_command
from ikeanalyze.lab.scenario.expansion import expand_cases
from ikeanalyze.lab.scenario.links import LinkConditions
from tests.lab import traffic

pytestmark = pytest.mark.lab

_ASK = """
import socket, sys
opened = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
opened.bind((sys.argv[1], 500))
opened.settimeout(5)
print("ready", flush=True)
print(*opened.recvfrom(100)[1][:2])
"""


@pytest.fixture
def built(lab):
    """Builds the hosts of a case, over perfect links."""
    with NetnsSandbox() as sandbox:

        def build(**data):
            network = topology.build_network(sandbox, expand_cases(data, "x", "x")[0])
            for path in (network.path, network.aaa_path):
                if path is not None:
                    conditions = LinkConditions()
                    emulation.start_emulator(sandbox, path, conditions, netem=False, drops_at_receiver=True)
            return network

        yield build


def seen_from(network, family=socket.AF_INET) -> tuple[str, int]:
    """Address and port that a datagram from the initiator's port 500 has at the responder."""
    receive = [sys.executable, "-c", _ASK, network.responder_address]
    with subprocess.Popen(network.responder.command(*receive), stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout.readline() == "ready\n"
        code = f"import socket; s = socket.socket({int(family)}, socket.SOCK_DGRAM);"
        code += f"s.bind(({network.initiator_address!r}, 500)); s.sendto(b'x', ({network.responder_address!r}, 500))"
        run_command(network.initiator.command(sys.executable, "-c", code))
        address, port = receiver.stdout.readline().split()
    return address, int(port)


def test_initiator_and_responder_reach_each_other(built):
    network = built()
    assert seen_from(network) == ("192.0.2.1", 500)
    assert (network.aaa, network.aaa_path) == (None, None)
    assert {f"{topology.LINK}@"} <= {
        line.split()[1][: len(topology.LINK) + 1]
        for line in run_command(network.responder.command("ip", "-o", "link")).splitlines()
    }


def test_the_initiator_has_an_ipv6_address_and_port_500(built):
    network = built(ip_version=6)
    assert seen_from(network, socket.AF_INET6) == ("2001:db8::1", 500)


def test_a_nat_changes_address_and_port(built):
    network = built(link={"nat": True})
    address, port = seen_from(network)
    assert network.initiator_address == "198.51.100.2"
    assert address == "192.0.2.1"
    assert 20000 <= port <= 60000


@pytest.mark.parametrize(
    ("data", "address"),
    [({}, "192.0.2.2"), ({"ip_version": 6}, "2001:db8::2"), ({"link": {"nat": True}}, "192.0.2.2")],
)
def test_nobody_asks_for_a_mac_address_over_a_path(lab, data, address):
    with NetnsSandbox() as sandbox:
        network = topology.build_network(sandbox, expand_cases(data | {"initiator": {"auth": "eap-md5"}}, "x", "x")[0])
        for path in (network.path, network.aaa_path):
            emulation.start_emulator(
                sandbox, path, LinkConditions(rtt_ms=600), netem=False, drops_at_receiver=False, seed=1
            )
        for source, target in ((network.initiator, address), (network.responder, network.aaa_address)):
            family, kind = ("AF_INET6" if ":" in target else "AF_INET"), "SOCK_DGRAM"
            ask = f"import socket, time; s = socket.socket(socket.{family}, socket.{kind}); s.settimeout(5);"
            # nobody listens there: the ICMP error is back after one round trip, or after two if somebody asks first
            ask += f"s.connect(({target!r}, 9)); began = time.monotonic(); s.send(b'x')\n"
            ask += "try: s.recv(1)\nexcept ConnectionRefusedError: print(time.monotonic() - began)"
            took = float(run_command(source.command(sys.executable, "-c", ask)))
            assert 0.6 <= took < 1.2


def test_an_aaa_server_is_behind_the_responder_alone(built):
    network = built(initiator={"auth": "eap-md5"})
    assert len(traffic.send(network.responder, network.aaa, network.aaa_address, 5)) == 5
    with pytest.raises(subprocess.CalledProcessError):
        traffic.send(network.initiator, network.aaa, network.aaa_address, 1, patience=0.5)


def test_an_mtu_is_that_of_the_link(built):
    network = built(link={"mtu": 800})
    reported = run_command(network.responder.command("ip", "-o", "link", "show", topology.LINK))
    assert " mtu 800 " in reported
    assert len(traffic.there(network, 5, size=1400)) == 5  # in IP fragments

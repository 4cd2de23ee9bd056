import signal
import subprocess
import sys

import pytest

from ikeanalyze.lab import LabError, recording
from ikeanalyze.lab.network import emulation, topology
from ikeanalyze.lab.network.namespaces import NetnsSandbox, run_command
from ikeanalyze.lab.scenario import LinkConditions, expand_cases
from tests.lab import traffic

pytestmark = pytest.mark.lab


def tshark(path, *arguments) -> list[str]:
    done = subprocess.run(["tshark", "-n", "-r", str(path), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_all_that_is_sent_is_in_it_with_the_links_name(lab, tmp_path):
    with NetnsSandbox() as space:
        net = topology.build_network(space, expand_cases({"initiator": {"auth": "eap-md5"}}, "x", "x")[0])
        for path in (net.path, net.aaa_path):
            emulation.start_emulator(space, path, LinkConditions(), netem=False, drops_elsewhere=True)
        taken = recording.start_recording(space, net.responder, [topology.LINK, topology.AAA_LINK])
        traffic.there(net, 20)
        traffic.there(net, 3, size=3000)
        traffic.send(net.responder, net.aaa, net.aaa_address, 10)
        assert taken.dropped is None  # not yet
        kept = taken.stop().rename(tmp_path / "kept.pcapng")
        assert taken.dropped == 0
    found = tshark(kept, "-Y", "udp", "-T", "fields", "-e", "frame.interface_name")
    assert found == ["ini-res"] * 23 + ["res-aaa"] * 10
    # of 3,000 bytes each: three fragments, the last of which tshark puts together
    assert len(tshark(kept, "-Y", "ip.flags.mf == 1 or ip.frag_offset > 0")) == 9
    assert tshark(kept, "-Y", "arp or icmpv6") == []


def test_errors_over_ipv6_are_in_it(lab):
    with NetnsSandbox() as space:
        net = topology.build_network(space, expand_cases({"ip_version": 6}, "x", "x")[0])
        emulation.start_emulator(space, net.path, LinkConditions(), netem=False, drops_elsewhere=True)
        taken = recording.start_recording(space, net.responder, [topology.LINK])
        # nobody listens there
        code = f"import socket; socket.socket(10, 2).sendto(b'x', ({net.responder_address!r}, 4000))"
        run_command(net.initiator.command(sys.executable, "-c", code))
        found = tshark(taken.stop(), "-T", "fields", "-e", "icmpv6.type", "-e", "icmpv6.code")
    assert [line.split() for line in found] == [[], ["1", "4"]]  # destination unreachable, port unreachable


def test_what_is_still_on_its_way_is_in_it(lab):
    with NetnsSandbox() as space:
        net = topology.build_network(space, expand_cases({}, "x", "x")[0])
        conditions = LinkConditions(rtt_ms=2000)
        emulation.start_emulator(space, net.path, conditions, netem=False, drops_elsewhere=False)
        taken = recording.start_recording(space, net.responder, [topology.LINK])
        code = f"import socket; socket.socket(2, 2).sendto(b'x', ({net.responder_address!r}, 4000))"
        run_command(net.initiator.command(sys.executable, "-c", code))
        assert len(tshark(taken.stop(conditions.way_seconds), "-Y", "udp and not icmp")) == 1


def test_when_dumpcap_ends_by_itself_it_is_said(lab):
    with NetnsSandbox() as space:
        net = topology.build_network(space, expand_cases({}, "x", "x")[0])
        taken = recording.start_recording(space, net.responder, [topology.LINK])
        assert taken.alive
        taken.process.send_signal(signal.SIGINT)
        taken.process.wait(10)
        assert not taken.alive
        with pytest.raises(LabError, match="dumpcap ended by itself: "):
            taken.stop()


def test_frames_that_did_not_get_into_it_are_counted(tmp_path):
    # as dumpcap 4.0 says it
    line = "Packets received/dropped on interface '{}': 20/{} (pcap:{}/dumpcap:0/flushed:0/ps_ifdrop:0) (80.0%)\n"
    (tmp_path / "said").write_text(line.format("ini-res", 4, 4) + line.format("res-aaa", 3, 3))
    assert recording.DumpcapRecording(None, None, tmp_path / "x", tmp_path / "said").dropped == 7


def test_an_interface_that_is_not_there(lab):
    with NetnsSandbox() as space:
        host = space.create_netns("one")
        with pytest.raises(LabError, match=r"dumpcap did not start: .*nothere"):
            recording.start_recording(space, host, ["nothere"])

import signal
import subprocess
import sys

import pytest

from ikeanalyze.lab import LabError, recording
from ikeanalyze.lab.network import emulation, topology
from ikeanalyze.lab.network.namespaces import NetnsSandbox, run_command
from ikeanalyze.lab.scenario.expansion import expand_cases
from ikeanalyze.lab.scenario.links import LinkConditions
from tests.lab import traffic

pytestmark = pytest.mark.lab


def tshark(path, *arguments) -> list[str]:
    done = subprocess.run(["tshark", "-n", "-r", str(path), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_all_that_is_sent_is_in_it_with_the_links_name(lab, tmp_path):
    with NetnsSandbox() as sandbox:
        network = topology.build_network(sandbox, expand_cases({"initiator": {"auth": "eap-md5"}}, "x", "x")[0])
        for path in (network.path, network.aaa_path):
            emulation.start_emulator(sandbox, path, LinkConditions(), netem=False, drops_at_receiver=True)
        actions_done = recording.start_recording(sandbox, network.responder, [topology.LINK, topology.AAA_LINK])
        traffic.there(network, 20)
        traffic.there(network, 3, size=3000)
        traffic.send(network.responder, network.aaa, network.aaa_address, 10)
        assert actions_done.dropped is None  # not yet
        kept = recording.LabRecordings([actions_done]).stop()["responder"].rename(tmp_path / "kept.pcapng")
        assert actions_done.dropped == 0
    result = tshark(kept, "-Y", "udp", "-T", "fields", "-e", "frame.interface_name")
    assert result == ["ini-res"] * 23 + ["res-aaa"] * 10
    # of 3,000 bytes each: three fragments, the last of which tshark puts together
    assert len(tshark(kept, "-Y", "ip.flags.mf == 1 or ip.frag_offset > 0")) == 9
    assert tshark(kept, "-Y", "arp or icmpv6") == []


def test_errors_over_ipv6_are_in_it(lab):
    with NetnsSandbox() as sandbox:
        network = topology.build_network(sandbox, expand_cases({"ip_version": 6}, "x", "x")[0])
        emulation.start_emulator(sandbox, network.path, LinkConditions(), netem=False, drops_at_receiver=True)
        actions_done = recording.start_recording(sandbox, network.responder, [topology.LINK])
        # nobody listens there
        code = f"import socket; socket.socket(10, 2).sendto(b'x', ({network.responder_address!r}, 4000))"
        run_command(network.initiator.command(sys.executable, "-c", code))
        result = tshark(
            recording.LabRecordings([actions_done]).stop()["responder"],
            "-T",
            "fields",
            "-e",
            "icmpv6.type",
            "-e",
            "icmpv6.code",
        )
    assert [line.split() for line in result] == [[], ["1", "4"]]  # destination unreachable, port unreachable


def test_what_is_still_on_its_way_is_in_it(lab):
    with NetnsSandbox() as sandbox:
        network = topology.build_network(sandbox, expand_cases({}, "x", "x")[0])
        conditions = LinkConditions(rtt_ms=2000)
        emulation.start_emulator(sandbox, network.path, conditions, netem=False, drops_at_receiver=False)
        actions_done = recording.start_recording(sandbox, network.responder, [topology.LINK])
        code = f"import socket; socket.socket(2, 2).sendto(b'x', ({network.responder_address!r}, 4000))"
        run_command(network.initiator.command(sys.executable, "-c", code))
        captures = recording.LabRecordings([actions_done]).stop(conditions.max_delay_s)
        assert len(tshark(captures["responder"], "-Y", "udp and not icmp")) == 1


def test_when_dumpcap_ends_by_itself_it_is_said(lab):
    with NetnsSandbox() as sandbox:
        network = topology.build_network(sandbox, expand_cases({}, "x", "x")[0])
        actions_done = recording.start_recording(sandbox, network.responder, [topology.LINK])
        assert actions_done.alive
        actions_done.process.send_signal(signal.SIGINT)
        actions_done.process.wait(10)
        assert not actions_done.alive
        with pytest.raises(LabError, match="dumpcap ended by itself: "):
            actions_done.stop()


def test_frames_that_did_not_get_into_it_are_counted(tmp_path):
    # as dumpcap 4.0 says it
    line = "Packets received/dropped on interface '{}': 20/{} (pcap:{}/dumpcap:0/flushed:0/ps_ifdrop:0) (80.0%)\n"
    (tmp_path / "said").write_text(line.format("ini-res", 4, 4) + line.format("res-aaa", 3, 3))
    assert recording.DumpcapRecording("responder", None, None, tmp_path / "x", tmp_path / "said").dropped == 7


def test_an_interface_that_is_not_there(lab):
    with NetnsSandbox() as sandbox:
        host = sandbox.create_netns("one")
        with pytest.raises(LabError, match=r"dumpcap did not start: .*nothere"):
            recording.start_recording(sandbox, host, ["nothere"])

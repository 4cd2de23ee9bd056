import subprocess

import pytest

from ikeanalyze.lab import LabError, emulation, network, recording
from ikeanalyze.lab.scenario import cases
from ikeanalyze.lab.space import Space
from lab import traffic

pytestmark = pytest.mark.lab


def tshark(path, *arguments) -> list[str]:
    done = subprocess.run(
        ["tshark", "-n", "-r", str(path), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_all_that_is_sent_is_in_it_with_the_links_name(lab, tmp_path):
    with Space() as space:
        net = network.build(space, cases({"initiator": {"auth": "eap-md5"}}, "x", "x")[0])
        for path in (net.path, net.aaa_path):
            emulation.start(space, path, emulation.Conditions(), netem=False, drops_elsewhere=True)
        taken = recording.start(space, net.responder, [network.LINK, network.AAA_LINK])
        traffic.there(net, 20)
        traffic.there(net, 3, size=3000)
        traffic.send(net.responder, net.aaa, net.aaa_address, 10)
        kept = taken.stop().rename(tmp_path / "kept.pcapng")
    found = tshark(kept, "-Y", "udp", "-T", "fields", "-e", "frame.interface_name")
    assert found == ["ini-res"] * 23 + ["res-aaa"] * 10
    # of 3,000 bytes each: three fragments, the last of which tshark puts together
    assert len(tshark(kept, "-Y", "ip.flags.mf == 1 or ip.frag_offset > 0")) == 9
    assert tshark(kept, "-Y", "arp or icmpv6") == []


def test_an_interface_that_is_not_there(lab):
    with Space() as space:
        host = space.host("one")
        with pytest.raises(LabError, match=r"dumpcap did not start: .*nothere"):
            recording.start(space, host, ["nothere"])

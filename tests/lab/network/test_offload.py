"""Checksums of what an interface sends, summed up by hand at the other end."""

import struct
import subprocess
import sys

import pytest

from ikeanalyze.lab.network.namespaces import NetnsSandbox, run_command
from ikeanalyze.lab.network.ping import internet_checksum

pytestmark = pytest.mark.lab

_CATCH = """
import socket
opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
opened.bind(("veth1", 0))
opened.settimeout(5)
print("ready", flush=True)
while (frame := opened.recv(2000))[36:38] != (4000).to_bytes(2, "big"):
    pass
print(frame.hex())
"""
_SEND = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'odd', ('10.9.0.2', 4000))"


@pytest.mark.parametrize("off", [False, True])
def test_a_checksum_is_right_without_offload_and_left_undone_with_it(lab, off):
    with NetnsSandbox() as sandbox:
        host = sandbox.create_netns("one")
        run_command(host.command("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1"))
        for command in (
            *("address add 10.9.0.1/24 dev veth0", "link set veth0 up", "link set veth1 up"),
            "neigh add 10.9.0.2 lladdr 02:00:00:00:00:01 dev veth0",
        ):
            run_command(host.command("ip", *command.split()))
        if off:
            run_command(host.command(sys.executable, "-m", "ikeanalyze.lab.network.offload", "veth0"))
        catch = [sys.executable, "-c", _CATCH]
        with subprocess.Popen(host.command(*catch), stdout=subprocess.PIPE, text=True) as catcher:
            assert catcher.stdout.readline() == "ready\n"
            run_command(host.command(sys.executable, "-c", _SEND))
            frame = bytes.fromhex(catcher.stdout.readline())
    ip, udp = frame[14:34], frame[34:]
    pseudo = ip[12:20] + struct.pack("!HH", 17, len(udp))
    assert (internet_checksum(pseudo + udp + bytes(len(udp) % 2)) == 0) == off

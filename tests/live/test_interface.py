"""`ikeanalyze live -i` with the real dumpcap, on a pair of virtual interfaces in a network namespace."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from benchmarks.live.measure import connect
from ikeanalyze.lab.network.namespaces import NetnsSandbox
from tests.craft import Handshake, Trace
from tests.paths import ROOT

pytestmark = [pytest.mark.lab, pytest.mark.alone]

OURS = [sys.executable, "-m", "ikeanalyze", "live"]


@pytest.fixture
def host():
    if os.geteuid() or shutil.which("dumpcap") is None:
        pytest.skip("needs root and dumpcap")
    with NetnsSandbox() as sandbox:
        yield connect(sandbox)


def start(host, *arguments: str) -> subprocess.Popen:
    command = host.command(*OURS, *arguments)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)


def find_dumpcap(live):
    """The dumpcap that the command has started; None: not yet."""
    children = psutil.Process(live.pid).children(recursive=True)
    return next((child for child in children if child.name() == "dumpcap"), None)


def wait_for_dumpcap(live):
    """Wait until dumpcap receives packets: it has mapped the buffer of its socket into memory."""
    while True:
        assert live.poll() is None
        dumpcap = find_dumpcap(live)
        if dumpcap and "socket:[" in Path(f"/proc/{dumpcap.pid}/maps").read_text():
            return
        time.sleep(0.05)


def test_handshakes_on_an_interface_are_reported_at_once(host, tmp_path):
    trace = Trace()
    for number in range(5):
        trace.play(Handshake(number).setup())
    trace.play(Handshake(9).setup()[:3])
    path = trace.write(tmp_path / "sent.pcap")
    live = start(host, "-i", "in", "--format", "jsonl", "--settle", "1", "--verbose")
    assert live.stdout
    assert live.stderr
    wait_for_dumpcap(live)
    sender = host.command(sys.executable, "-m", "benchmarks.live.send", str(path), "out")
    sent = subprocess.run(sender, check=True, cwd=ROOT, stdout=subprocess.PIPE).stdout.split()
    assert sent[:2] == [b"sending", b"23"]
    records = [json.loads(live.stdout.readline()) for _ in range(5)]  # they come although no packet follows
    assert [record["outcome"] for record in records] == ["completed"] * 5
    assert {record["capture"] for record in records} == {"in"}
    live.send_signal(signal.SIGINT)
    rest, messages = live.communicate(timeout=60)
    assert live.returncode == 0
    assert [json.loads(line)["outcome"] for line in rest.splitlines()] in (["cut"], ["unanswered"])
    assert messages.decode().splitlines()[-1] == "ikeanalyze: 6 handshakes in 23 packets"


def test_an_interface_that_does_not_exist(host):
    live = start(host, "-i", "nosuch0")
    out, messages = live.communicate(timeout=60)
    assert (live.returncode, out) == (1, b"")
    assert b"nosuch0" in messages
    assert b"No such device" in messages
    assert messages.count(b"\n") == 1


def remove_interface(host, _live):
    subprocess.run(host.command("ip", "link", "del", "in"), check=True)


def kill_dumpcap(_host, live):
    find_dumpcap(live).kill()


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (remove_interface, 'dumpcap: The network adapter "in" is no longer attached'),  # as dumpcap itself says
        (kill_dumpcap, "dumpcap was ended by signal 9; the capture has stopped"),
    ],
)
def test_a_capture_that_ends_by_itself_is_a_failure(host, tmp_path, end, said):
    """A service that watches an interface must not look as if it had ended as asked. What was captured is reported."""
    trace = Trace()
    trace.play(Handshake(1).setup())
    path = trace.write(tmp_path / "sent.pcap")
    live = start(host, "-i", "in", "--format", "jsonl", "--settle", "1", "--verbose")
    assert live.stdout
    wait_for_dumpcap(live)
    subprocess.run(host.command(sys.executable, "-m", "benchmarks.live.send", str(path), "out"), check=True, cwd=ROOT)
    assert json.loads(live.stdout.readline())["outcome"] == "completed"
    end(host, live)
    _, messages = live.communicate(timeout=60)
    assert live.returncode == 1
    *_, count, reason = messages.decode().splitlines()
    assert count == "ikeanalyze: 1 handshake in 4 packets"
    assert reason.startswith(f"ikeanalyze: {said}")


def test_a_service_manager_ends_dumpcap_as_well(host):
    live = start(host, "-i", "in", "--verbose")
    wait_for_dumpcap(live)
    find_dumpcap(live).terminate()
    live.terminate()
    live.communicate(timeout=60)
    assert live.returncode == 0

"""UDP datagrams from one host of the lab to another, with what became of each."""

import subprocess
import sys
from dataclasses import dataclass

from ikeanalyze.lab.network.namespaces import Netns
from ikeanalyze.lab.network.topology import LabNetwork

PORT = 4000
_RECEIVE = """
import socket, sys, time
opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
opened.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE: none is lost while we do not get a processor
opened.bind((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
quiet = float(sys.argv[3])
opened.settimeout(float(sys.argv[4]))
for _ in range(int(sys.argv[5])):
    try:
        data = opened.recv(2000)
    except TimeoutError:
        break
    now = time.monotonic_ns()
    opened.settimeout(quiet)
    print(int.from_bytes(data[:4], "big"), now, now - int.from_bytes(data[4:12], "big"))
"""
_SEND = """
import socket, sys, time
opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
target = (sys.argv[1], int(sys.argv[2]))
for number in range(int(sys.argv[3])):
    stamp = time.monotonic_ns().to_bytes(8, "big")
    opened.sendto((number.to_bytes(4, "big") + stamp).ljust(int(sys.argv[5]), b"."), target)
    time.sleep(float(sys.argv[4]))
"""
_HAND_OVER = """
import os, socket, sys
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("127.0.0.1", 0))
for number in range(1, int(sys.argv[3]) + 1):
    opened.sendto(bytes(int(sys.argv[4])), (sys.argv[1], int(sys.argv[2])))
    if number % 500 == 0 or number == int(sys.argv[3]):
        own.sendto(b"last", own.getsockname())
        own.recv(10)
"""


@dataclass
class Arrival:
    number: int
    #: When it came, by the clock of this machine.
    at_ms: float
    #: How long it was on its way: both hosts have this clock.
    delay_ms: float


def send(
    source: Netns,
    target: Netns,
    address: str,
    count: int,
    *,
    pause: float = 0.001,
    size: int = 100,
    quiet: float = 2,
    patience: float = 10,
) -> list[Arrival]:
    """Send `count` datagrams of `size` bytes; returns those that arrive, in order.

    `quiet`: timeout in s after the latest datagram, if not all arrive; `patience`: timeout in s for the first.
    """
    receive = [sys.executable, "-c", _RECEIVE, address, str(PORT), str(quiet), str(patience), str(count)]
    receiver = subprocess.Popen(target.command(*receive), stdout=subprocess.PIPE, text=True)
    try:
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        command = [sys.executable, "-c", _SEND, address, str(PORT), str(count), str(pause), str(size)]
        subprocess.run(source.command(*command), check=True, timeout=60)
        reported, _ = receiver.communicate(timeout=60)
    finally:
        receiver.kill()
        receiver.wait()
    return [
        Arrival(int(number), int(at) / 1e6, int(delay) / 1e6)
        for number, at, delay in map(str.split, reported.splitlines())
    ]


def there(network: LabNetwork, count: int, **how: float) -> list[Arrival]:
    """From the initiator to the responder."""
    return send(network.initiator, network.responder, network.responder_address, count, **how)


def back(network: LabNetwork, count: int, **how: float) -> list[Arrival]:
    """From the responder to the initiator."""
    return send(network.responder, network.initiator, network.initiator_address, count, **how)


def hand_over(network: LabNetwork, count: int, *, size: int = 1) -> None:
    """Send datagrams from the initiator to a closed port of the responder; returns when the path has their frames.

    A busy kernel hands frames over after their senders have gone on, those of one processor in order and to at most
    1000 of them: the sender stays on one and waits for datagrams to itself in between.
    """
    command = [sys.executable, "-c", _HAND_OVER, network.responder_address, "9", str(count), str(size)]
    subprocess.run(network.initiator.command(*command), check=True, timeout=60)

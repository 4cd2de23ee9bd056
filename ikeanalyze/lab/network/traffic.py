"""Sends UDP datagrams of a given size, number and rate between two hosts: `python -m ikeanalyze.lab.network.traffic`.

Runs in the network namespace of the first host, and opens a socket in that of the second. Each direction sends at its
own times, whatever has arrived. Standard output gets what was sent and received per direction, as JSON.
"""

import ctypes
import json
import os
import select
import socket
import sys
import time
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from ikeanalyze.io.convert import convert

#: Bytes of the headers of IPv4 and UDP.
_HEADERS: Final = 28
_PORT: Final = 4000
_CLONE_NEWNET: Final = 0x4000_0000
_SO_RCVBUFFORCE: Final = 33
_BUFFER_BYTES: Final = 32 << 20
_MAX_DATAGRAM: Final = 65_535


class TrafficPlan(Struct, frozen=True, forbid_unknown_fields=True):
    """What a step `traffic` sends."""

    count: Annotated[int, Meta(ge=1, le=1_000_000)] = 100  # datagrams in each direction
    size: Annotated[int, Meta(ge=_HEADERS, le=9000)] = 64  # bytes of the IP packet
    rate: Annotated[int, Meta(ge=1, le=100_000)] = 100  # datagrams per second and direction
    direction: Literal["up", "down", "both"] = "both"

    @property
    def seconds(self) -> float:
        """How long it takes to send."""
        return self.count / self.rate


@dataclass(slots=True)
class TrafficDirection:
    """The sockets of a direction, and the number of datagrams received."""

    source: socket.socket
    target: socket.socket
    received: int = 0


def parse_traffic_step(step: str) -> TrafficPlan:
    """Parse `traffic` or `traffic:count=1000,size=64,rate=200,direction=both`.

    Raises:
        ConversionError: a value is invalid; the message names its key.
    """
    pairs = [part.partition("=") for part in step.partition(":")[2].split(",") if part]
    return convert({key: int(value) if value.isdecimal() else value for key, _, value in pairs}, TrafficPlan)


def exchange_datagrams(
    plan: TrafficPlan, directions: dict[str, TrafficDirection], *, patience_s: float, limit_s: float
) -> dict[str, dict[str, int]]:
    """Send the datagrams of a plan; return the numbers sent and received, by direction.

    `patience_s`: how long to wait for missing datagrams after the last one that was sent or received; `limit_s`: limit
    for everything.
    """
    payload = bytes(plan.size - _HEADERS)
    targets = {direction.target: direction for direction in directions.values()}
    sent = 0
    began = now = latest = time.monotonic()
    while sent < plan.count or any(direction.received < sent for direction in directions.values()):
        due = min(int((now - began) * plan.rate) + 1, plan.count)
        for direction in directions.values():
            for _ in range(sent, due):
                direction.source.sendto(payload, direction.target.getsockname())
        latest = now if due > sent else latest
        sent = due
        wake_at = began + sent / plan.rate if sent < plan.count else latest + patience_s
        wake_at = min(wake_at, began + limit_s)
        for readable in select.select(list(targets), [], [], max(wake_at - time.monotonic(), 0.0))[0]:
            readable.recv(_MAX_DATAGRAM)
            targets[readable].received += 1
            latest = time.monotonic()
        now = time.monotonic()
        if now > began + limit_s or (sent == plan.count and now > latest + patience_s):
            break
    return {name: {"sent": sent, "received": direction.received} for name, direction in directions.items()}


def _open_socket(address: str) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    opened.bind((address, _PORT))
    return opened


def _enter_namespace(path: str) -> None:
    """Move this process to another network namespace; open sockets stay in theirs."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)


def main(arguments: list[str]) -> None:
    """Arguments: address of the first host, address and namespace of the second, plan as JSON, patience and limit."""
    near_address, far_address, namespace, plan_text, patience_s, limit_s = arguments
    plan = msgspec.json.decode(plan_text, type=TrafficPlan)
    near = _open_socket(near_address)
    _enter_namespace(namespace)
    far = _open_socket(far_address)
    ways = {"up": TrafficDirection(near, far), "down": TrafficDirection(far, near)}
    chosen = {name: way for name, way in ways.items() if plan.direction in (name, "both")}
    json.dump(exchange_datagrams(plan, chosen, patience_s=float(patience_s), limit_s=float(limit_s)), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])

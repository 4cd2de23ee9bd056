"""What tshark reads in IKE messages."""

import subprocess
from collections.abc import Iterable, Sequence

from tests.craft import Packet, ike, link, pcap, udp_packet
from tests.craft.ike import Payload

SPI_I, SPI_R = bytes(range(1, 9)), bytes(range(9, 17))


def clear(payloads: Iterable[Payload], *, response: bool = False, exchange_type: int = ike.IKE_AUTH) -> bytes:
    """A message in the clear, of whatever payloads."""
    flags = ike.INITIATOR if not response else ike.RESPONSE
    return ike.message(SPI_I, SPI_R, exchange_type, flags, 1, payloads)


def dissected(messages: Sequence[bytes], *fields: str) -> list[dict[str, list[str]]]:
    """For each message the values of fields, each a list of all that it has there."""
    frames = [Packet(number * 1_000_000, link.ethernet(udp_packet(message))) for number, message in enumerate(messages)]
    names = [part for field in fields for part in ("-e", field)]
    run = subprocess.run(
        ["tshark", "-n", "-r", "-", "-T", "fields", "-E", "separator=/t", "-E", "aggregator=|", *names],
        input=pcap(frames),
        capture_output=True,
        check=True,
    )
    rows = run.stdout.decode().split("\n")[: len(messages)]
    return [
        {field: value.split("|") if value else [] for field, value in zip(fields, row.split("\t"), strict=True)}
        for row in rows
    ]

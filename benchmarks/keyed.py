"""Generate a capture of many handshakes with their keys: python -m benchmarks.keyed 10000 DIR

Copies of captures/pq-mlkem768-psk.pcap, one every 2 ms, each with SPIs and keys of its own, so encrypted again. DIR
gets `many.pcap`, the log of charon with all keys (`many.charon.log`, 39 kB for each handshake), and Wireshark's table
with those after IKE_INTERMEDIATE (`ikev2_decryption_table`).
"""

import argparse
import gzip
import json
import random
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import dpkt
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ORIGINAL: Final = Path(__file__).resolve().parent.parent / "captures" / "pq-mlkem768-psk"
SPI_I, SPI_R = bytes.fromhex("904a132d2b087803"), bytes.fromhex("f2748b73dae9f971")
#: The keys of an epoch that differ from copy to copy, in the first 8 bytes: charon's dumps have them in one line.
NAMES: Final = ("sk_ei", "sk_er", "sk_pi", "sk_pr")
CHANGED: Final = 8
STEP_US: Final = 2000

#: RFC 7296, 3.1 and 3.14; RFC 7383, 2.5; RFC 9242.
_IKE_HEADER: Final = 28
_SK, _SKF = 46, 53
_INTERMEDIATE: Final = 43
_INITIATOR_FLAG: Final = 8
_IV, _SALT = 8, 4

Keys = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the original: a packet, where its IKE header begins, and its plaintext if it is encrypted."""

    time_us: int
    packet: bytes
    start: int
    plaintext: bytes | None = None
    header: int = 0  # bytes before the initialization vector
    epoch: int = 0
    key: str = ""


def read_original(keys: list[Keys]) -> list[Message]:
    """Return the messages of the original capture, decrypted."""
    with ORIGINAL.with_suffix(".pcap").open("rb") as file:
        packets = list(dpkt.pcap.Reader(file))
    return [
        _decrypt(round(time * 1e6), packet, packet.index(SPI_I), keys) for time, packet in packets if SPI_I in packet
    ]


def _decrypt(time_us: int, packet: bytes, start: int, keys: list[Keys]) -> Message:
    message = packet[start:]
    kind, exchange, flags = message[16], message[18], message[19]
    if kind not in (_SK, _SKF):
        return Message(time_us, packet, start)
    header = _IKE_HEADER + (8 if kind == _SKF else 4)
    epoch = 0 if exchange == _INTERMEDIATE else 1
    name = "sk_ei" if flags & _INITIATOR_FLAG else "sk_er"
    key, salt = _split(keys[epoch][name])
    plaintext = AESGCM(key).decrypt(salt + message[header : header + _IV], message[header + _IV :], message[:header])
    return Message(time_us, packet, start, plaintext, header, epoch, name)


def _split(key: bytes) -> tuple[bytes, bytes]:
    """Split a key of AES-GCM in IKE into the key and the salt (RFC 5282, 7.1)."""
    return key[:-_SALT], key[-_SALT:]


def encrypt_copy(messages: list[Message], spis: tuple[bytes, bytes], keys: list[Keys]) -> Iterator[tuple[int, bytes]]:
    """Yield time and packet of each message with other SPIs and keys."""
    for message in messages:
        data = bytearray(message.packet[message.start :])
        data[0:8] = spis[0]
        if any(data[8:16]):
            data[8:16] = spis[1]
        if message.plaintext is not None:
            key, salt = _split(keys[message.epoch][message.key])
            header, iv = bytes(data[: message.header]), bytes(data[message.header : message.header + _IV])
            data[message.header + _IV :] = AESGCM(key).encrypt(salt + iv, message.plaintext, header)
        yield message.time_us, message.packet[: message.start] + data


def _change(keys: list[Keys], rng: random.Random) -> list[Keys]:
    return [{name: rng.randbytes(CHANGED) + epoch[name][CHANGED:] for name in NAMES} for epoch in keys]


def _dump(data: bytes) -> str:
    """Return the first bytes as charon's log has them."""
    return data[:CHANGED].hex(" ").upper()


def generate(count: int, directory: Path, seed: int = 5) -> None:
    """Write the capture, the log and the table."""
    rng = random.Random(seed)
    documents = json.loads(ORIGINAL.with_suffix(".keys.json").read_bytes())
    keys = [{name: bytes.fromhex(each[name.capitalize()]) for name in NAMES} for each in documents]
    messages = read_original(keys)
    log = gzip.decompress(ORIGINAL.with_suffix(".charon.log.gz").read_bytes()).decode()
    old = [_dump(SPI_I), _dump(SPI_R), *(_dump(epoch[name]) for epoch in keys for name in NAMES), "t[1]", "c{1}"]
    parts = re.split("(" + "|".join(map(re.escape, old)) + ")", log)
    directory.mkdir(parents=True, exist_ok=True)
    with (
        (directory / "many.pcap").open("wb") as capture,
        (directory / "many.charon.log").open("w") as logs,
        (directory / "ikev2_decryption_table").open("w") as table,
    ):
        capture.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        for number in range(count):
            spis = (rng.randbytes(8), rng.randbytes(8))
            own = _change(keys, rng)
            for time, packet in encrypt_copy(messages, spis, own):
                seconds, micros = divmod(time + number * STEP_US, 1_000_000)
                capture.write(struct.pack("<4I", seconds, micros, len(packet), len(packet)) + packet)
            new = [_dump(each) for each in (*spis, *(epoch[name] for epoch in own for name in NAMES))]
            new += [f"t[{number + 1}]", f"c{{{number + 1}}}"]
            replaced = dict(zip(old, new, strict=True))
            logs.write("".join(replaced.get(part, part) for part in parts))
            last = own[-1]
            fields = [*(spi.hex() for spi in spis), last["sk_ei"].hex(), last["sk_er"].hex()]
            table.write(",".join(fields) + ',"AES-GCM-256 with 16 octet ICV [RFC5282]","","","NONE [RFC4306]"\n')


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keyed", description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    generate(options.count, options.directory)
    sys.exit(0)


if __name__ == "__main__":
    main()

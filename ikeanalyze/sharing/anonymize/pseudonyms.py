"""The pseudonyms of one anonymisation: addresses, MAC addresses, names and other bytes, all under one secret key.

The same original has the same pseudonym everywhere, so that an identity in IKE is still that in RADIUS, and a
retransmission still equals its original. Without the key, pseudonyms show nothing but lengths, common prefixes of
addresses, and where the same value occurs again.
"""

import os
import secrets
from typing import Final

from ikeanalyze.crypto.pseudonyms import (
    PREFIX_KEY_BYTES,
    PrefixPreservingMap,
    derive_curve_point,
    derive_pseudorandom_bytes,
)

KEY_BYTES: Final = 2 * PREFIX_KEY_BYTES
_HEADING: Final = "ikeanalyze anonymization key 1"
#: Addresses of no host.
_UNSPECIFIED: Final = (bytes(4), bytes(16), b"\xff" * 4)
_NO_MAC: Final = (bytes(6), b"\xff" * 6)
#: Bits of the first byte of a MAC address: group, and locally administered.
_MAC_FLAGS: Final = 0x03
#: Characters of names that stay, so that a name is still a host name or a mail address.
_KEPT: Final = frozenset(b".@")


class AnonymizationKeyError(Exception):
    """The key file cannot be used; the message is one line for the user, without the key."""


def load_or_create_key(path: str) -> bytes:
    """The key in a file, which is created with a new key, readable by its owner only, if it does not exist.

    Raises:
        AnonymizationKeyError: the file has no key, or cannot be read.
        OSError: the file cannot be created.
    """
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return _read_key(path)
    key = make_key()
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{_HEADING}\n{key.hex()}\n")
    except OSError:
        os.unlink(path)  # a part of a key would be an error when the command is run again
        raise
    return key


def make_key() -> bytes:
    """A new random key."""
    return secrets.token_bytes(KEY_BYTES)


def _read_key(path: str) -> bytes:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            lines = file.read(1000).split("\n")
    except OSError as error:
        raise AnonymizationKeyError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        key = bytes.fromhex(lines[1]) if lines[0] == _HEADING else b""
    except (IndexError, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise AnonymizationKeyError(f"{path}: not an anonymization key. Name a new file to create one")
    return key


class Pseudonyms:
    """The pseudonyms under one key."""

    def __init__(self, key: bytes) -> None:
        """`key` has KEY_BYTES."""
        self._addresses = PrefixPreservingMap(key[:PREFIX_KEY_BYTES])
        self._key = key[PREFIX_KEY_BYTES:]

    def map_address(self, address: bytes) -> bytes:
        """An IPv4 or IPv6 address; the unspecified address and the broadcast address stay."""
        return address if address in _UNSPECIFIED else self._addresses.map_address(address)

    def map_prefix(self, address: bytes, length: int) -> bytes:
        """The pseudonym of a network of `length` bits, as the address in which the other bits are zero."""
        free = max(8 * len(address) - length, 0)
        mapped = int.from_bytes(self._addresses.map_address(address), "big") >> free << free
        return mapped.to_bytes(len(address), "big") if length else bytes(len(address))

    def map_range(self, start: bytes, end: bytes) -> tuple[bytes, bytes]:
        """First and last address of a range. A network stays a network; of other ranges, the order is restored."""
        low, high = int.from_bytes(start, "big"), int.from_bytes(end, "big")
        size = high - low + 1
        if size > 0 and size & (size - 1) == 0 and low % size == 0:
            first = self.map_prefix(start, 8 * len(start) - size.bit_length() + 1)
            return first, (int.from_bytes(first, "big") + size - 1).to_bytes(len(end), "big")
        first, last = sorted((self.map_address(start), self.map_address(end)))
        return first, last

    def map_mac(self, address: bytes) -> bytes:
        """A MAC address of six bytes; its flags stay, and so does the broadcast address."""
        if address in _NO_MAC:
            return address
        mapped = self._derive(b"MAC address", address, len(address))
        return bytes([mapped[0] & ~_MAC_FLAGS | address[0] & _MAC_FLAGS]) + mapped[1:]

    def map_bytes(self, data: bytes) -> bytes:
        """Pseudorandom bytes in place of data."""
        return self._derive(b"data", data, len(data))

    def map_text(self, text: bytes) -> bytes:
        """Lower-case letters in place of all characters but "." and "@"."""
        letters = self._derive(b"text", text, len(text))
        return bytes(
            byte if byte in _KEPT else ord("a") + letter % 26 for byte, letter in zip(text, letters, strict=True)
        )

    def map_curve_point(self, curve: str, point: bytes) -> bytes:
        """A valid public key on the curve in place of one; pseudorandom bytes if the curve is not known."""
        mapped = derive_curve_point(curve, self._derive(b"curve", point, PREFIX_KEY_BYTES))
        return mapped if mapped is not None and len(mapped) == len(point) else self.map_bytes(point)

    def _derive(self, label: bytes, content: bytes, size: int) -> bytes:
        return derive_pseudorandom_bytes(self._key, label, content, size)

"""Formats received data as printable text: strings without terminal control characters, and IP addresses."""

from typing import Final

#: Default length of a shortened text, in characters.
_MAX_LENGTH: Final = 64


def escape_peer_text(data: bytes) -> str:
    """Decode UTF-8; invalid bytes and unprintable characters become escape sequences."""
    text = data.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def shorten_text(text: str, size: int = _MAX_LENGTH) -> str:
    """Shorten a text to `size` characters; the last one is an ellipsis if text was cut."""
    return text if len(text) <= size else f"{text[: size - 1]}…"


def format_address(packed: bytes) -> str | None:
    """Format an IPv4 (4 bytes) or IPv6 (16 bytes) address (RFC 5952); None for other sizes.

    Does not use `ipaddress`, which takes several times as long.
    """
    if len(packed) == 4:
        return ".".join(map(str, packed))
    if len(packed) == 16:
        # late: rarely needed and slow to import
        from socket import AF_INET6, inet_ntop

        return inet_ntop(AF_INET6, packed)
    return None

"""Text that a peer sent, made fit to be shown: nothing in it may move a cursor or change a colour.

IP addresses as text, without the weight of the standard library's classes.
"""

from typing import Final

#: Characters of a text that a summary shows.
_SHOWN: Final = 64


def escape_peer_text(data: bytes) -> str:
    """UTF-8 as text; bytes and characters that cannot be printed are shown as escapes."""
    text = data.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def shorten_text(text: str, size: int = _SHOWN) -> str:
    """At most `size` characters of a text, an ellipsis where it goes on."""
    return text if len(text) <= size else f"{text[: size - 1]}…"


def format_address(packed: bytes) -> str | None:
    """Text of an IPv4 (4 bytes) or IPv6 (16 bytes) address (RFC 5952); None for another number of bytes."""
    if len(packed) == 4:
        return ".".join(map(str, packed))
    if len(packed) == 16:
        # rarely needed, and slow to import
        from socket import AF_INET6, inet_ntop

        return inet_ntop(AF_INET6, packed)
    return None

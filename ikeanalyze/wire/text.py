"""Text that a peer sent, made fit to be shown: nothing in it may move a cursor or change a colour."""

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

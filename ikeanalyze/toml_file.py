"""A TOML file that a user wrote: read to a limit, and whatever is wrong with it said in one line.

For every room: it knows nothing of ours.
"""

import re
import tomllib
from errno import ENOENT
from typing import Any, Final

#: Bytes: what is longer is a slip of the pen, or a device without end.
LARGEST: Final = 1 << 20

_PLACE: Final = re.compile(r" \(at [^()]*\)$")  # in an error of tomllib


class TomlFileError(ValueError):
    """What is in the file cannot be used; one line that does not name the file."""

    def __init__(self, what: str, unquoted: str | None = None) -> None:
        super().__init__(what)
        self.unquoted = unquoted or what  # the same without a word of the file, which may be a secret


def read_toml(path: str) -> dict[str, Any]:
    """What the file says.

    Raises:
        OSError: it cannot be read.
        TomlFileError: it is too large, or no TOML.
    """
    return parsed(_data(path))


def toml_text(path: str) -> str:
    """The file itself.

    Raises:
        OSError: it cannot be read.
        TomlFileError: it is too large, or no text in UTF-8.
    """
    return _text(_data(path))


def parsed(data: bytes) -> dict[str, Any]:
    """What a file of these bytes says. Raises `TomlFileError`."""
    text = _text(data)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        raise TomlFileError(f"not TOML: {error}", f"not TOML{place[0] if place else ''}") from None
    except ValueError:
        # what Python does not make an integer of
        raise TomlFileError("not TOML: it has a number of thousands of digits") from None
    except RecursionError:
        raise TomlFileError("not TOML: it is nested too deeply") from None


def _data(path: str) -> bytes:
    if "\0" in path:
        raise FileNotFoundError(ENOENT, "no file has such a name")
    with open(path, "rb") as stream:
        return stream.read(LARGEST + 1)


def _text(data: bytes) -> str:
    if len(data) > LARGEST:
        raise TomlFileError(f"larger than {LARGEST:,} bytes")
    try:
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise TomlFileError(f"not TOML: it is no text in UTF-8 ({error.reason})") from None

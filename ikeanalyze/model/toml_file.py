"""A TOML file that a user wrote: read to a limit, and whatever is wrong with it said in one line."""

import tomllib
from errno import ENOENT
from typing import Any, Final

#: Bytes: what is longer is a slip of the pen, or a device without end.
LARGEST: Final = 1 << 20


class TomlFileError(ValueError):
    """What is in the file cannot be used; one line that does not name the file."""


def read_toml(path: str) -> dict[str, Any]:
    """What the file says.

    Raises:
        OSError: it cannot be read.
        TomlFileError: it is too large, or no TOML.
    """
    text = toml_text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlFileError(f"not TOML: {error}") from None
    except ValueError:
        # what Python does not make an integer of
        raise TomlFileError("not TOML: it has a number of thousands of digits") from None
    except RecursionError:
        raise TomlFileError("not TOML: it is nested too deeply") from None


def toml_text(path: str) -> str:
    """The file itself.

    Raises:
        OSError: it cannot be read.
        TomlFileError: it is too large, or no text in UTF-8.
    """
    if "\0" in path:
        raise FileNotFoundError(ENOENT, "no file has such a name")
    with open(path, "rb") as stream:
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise TomlFileError(f"larger than {LARGEST:,} bytes")
    try:
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise TomlFileError(f"not TOML: it is no text in UTF-8 ({error.reason})") from None

"""Reads TOML files of users, with a size limit and one-line errors."""

import re
import tomllib
from collections.abc import Mapping
from errno import ENOENT
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

#: Maximum size of a file.
MAX_BYTES: Final = 1 << 20

_PLACE: Final = re.compile(r" \(at [^()]*\)$")  # in an error of tomllib


class TomlFileError(ValueError):
    """The content of a file cannot be used; one line that does not name the file."""

    def __init__(self, message: str, unquoted: str | None = None) -> None:
        super().__init__(message)
        self.unquoted = unquoted or message  # the same without a word of the file, which may be a secret


def read_toml(path: str) -> dict[str, Any]:
    """The tables and values of a file.

    Raises:
        OSError: the file cannot be read.
        TomlFileError: the file is too large, or not TOML.
    """
    return parse_toml(_read_bytes(path))


def decode_toml(source: str | bytes | Mapping[str, Any], kind: type[_T]) -> _T:
    """Convert a file at a path, its bytes, or its tables from `read_toml`, into a msgspec Struct or a dataclass.

    Errors name a key and what is allowed, never a value, as in "link.rtt_ms must be a number from 0 to 10,000".

    Raises:
        OSError: the file cannot be read.
        TomlFileError: the file is too large, not TOML, or a key or value is not allowed.
    """
    if isinstance(source, str):
        source = read_toml(source)
    elif isinstance(source, bytes):
        source = parse_toml(source)
    # here, because msgspec takes 25 ms to import, and `read_toml` does without it
    from ikeanalyze.io.convert import ConversionError, convert

    try:
        return convert(source, kind)
    except ConversionError as error:
        raise TomlFileError(str(error)) from None
    except RecursionError:
        raise TomlFileError("its tables are nested too deeply") from None


def load_toml_text(path: str) -> str:
    """The text of a file.

    Raises:
        OSError: the file cannot be read.
        TomlFileError: the file is too large, or not text in UTF-8.
    """
    return _decode_text(_read_bytes(path))


def parse_toml(data: bytes) -> dict[str, Any]:
    """The tables and values of a file's bytes.

    Raises:
        TomlFileError: they are too many, or not TOML.
    """
    text = _decode_text(data)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        raise TomlFileError(f"not TOML: {error}", f"not TOML{place[0] if place else ''}") from None
    except ValueError:
        # an integer too long for Python to read
        raise TomlFileError("not TOML: it has a number of thousands of digits") from None
    except RecursionError:
        raise TomlFileError("not TOML: it is nested too deeply") from None


def _read_bytes(path: str) -> bytes:
    if "\0" in path:
        raise FileNotFoundError(ENOENT, "no file has such a name")
    with open(path, "rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _decode_text(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise TomlFileError(f"larger than {MAX_BYTES:,} bytes")
    try:
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise TomlFileError(f"not TOML: it is not UTF-8 text ({error.reason})") from None

"""Files that a caller gives as paths, as bytes or as open binary files; contents of the latter two are stored."""

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard


@dataclass(frozen=True, slots=True)
class GivenFiles:
    """Files by path, and the names of those that were stored."""

    paths: list[str]
    names: Mapping[str, str] = field(
        default_factory=dict
    )  # by path: "<bytes>", or the name of the open file; all differ


def store_given_files(given: Any, what: str, folder: str) -> GivenFiles:
    """Return the paths of one or several files.

    Args:
        given: a path, bytes or a binary file open for reading, or an iterable of them. A file is read from its current
            position.
        what: what the files are, with an article, for errors.
        folder: an existing folder for stored files, which only its owner may read.

    Raises:
        TypeError: something else is given.
        OSError: a file cannot be read or stored.
    """
    single = isinstance(given, (str, bytes, bytearray, memoryview, os.PathLike)) or _is_file(given)
    items = list(given) if not single and isinstance(given, Iterable) else [given]
    paths: list[str] = []
    names: dict[str, str] = {}
    for number, item in enumerate(items, 1):
        if isinstance(item, (str, os.PathLike)):
            paths.append(os.fspath(item))
            continue
        if isinstance(item, (bytes, bytearray, memoryview)):
            content: BinaryIO = BytesIO(item)
            name = "<bytes>"
        elif _is_file(item):
            content, name = item, _get_name(item)
        else:
            raise TypeError(f"{what} is a path, bytes or a binary file, not {type(item).__name__}")
        path = str(Path(folder) / str(number))
        with open(path, "xb") as stored:
            _copy(content, stored, what)
        paths.append(path)
        names[path] = name if name not in names.values() else f"{name} ({number})"
    return GivenFiles(paths, names)


def _is_file(item: Any) -> TypeGuard[BinaryIO]:
    return hasattr(item, "read")


def _get_name(file: BinaryIO) -> str:
    name = getattr(file, "name", None)
    with suppress(TypeError):
        return os.fsencode(os.fspath(name)).decode(errors="backslashreplace")  # type: ignore[arg-type]
    return "<file>"  # without a name, or with the number of a descriptor


def _copy(content: BinaryIO, stored: BinaryIO, what: str) -> None:
    try:
        shutil.copyfileobj(content, stored)
    except TypeError:
        raise TypeError(f"{what} is a binary file; this one is open for text: use mode 'rb'") from None

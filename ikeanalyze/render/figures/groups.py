"""Which handshakes stand for one group in a drawing."""

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

import polars as pl

from ikeanalyze.render.values import clean

#: Captures that have a colour each.
_COLOURED: Final = 7


def by_capture(handshakes: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Handshakes by capture where a few captures have several each, else all of them together."""
    paths = handshakes["capture"].cast(pl.String)
    order = list(dict.fromkeys(paths.to_list()))
    if 1 < len(order) <= _COLOURED and min(Counter(paths.to_list()).values()) > 2:
        names = short_names(order)
        return {names[path]: handshakes.filter(paths == path) for path in order}
    return {"all handshakes": handshakes}


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Paths without the folders that they have in common."""
    folders = zip(*(path.split("/")[:-1] for path in paths), strict=False)
    common = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, folders))
    return {path: clean("/".join(path.split("/")[common:])) for path in paths}

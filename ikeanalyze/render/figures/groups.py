"""Which handshakes stand for one group in a drawing."""

from collections import Counter
from typing import Final

import polars as pl

from ikeanalyze.render.values import strip_common_folder

#: Captures that have a colour each.
_COLOURED: Final = 7


def group_by_capture(handshakes: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Handshakes by capture where a few captures have several each, else all of them together."""
    paths = handshakes["capture"].cast(pl.String)
    order = list(dict.fromkeys(paths.to_list()))
    if 1 < len(order) <= _COLOURED and min(Counter(paths.to_list()).values()) > 2:
        names = strip_common_folder(order)
        return {names[path]: handshakes.filter(paths == path) for path in order}
    return {"all handshakes": handshakes}

"""Results as text, in one of the formats that they have."""

import io
from typing import Any

from ikeanalyze.render import Format, View
from ikeanalyze.render.formats import Formats


def written(formats: Formats[Any], result: Any, form: Format, **view: Any) -> str:
    """What is written of `result`; `view` as in `View`."""
    out = io.StringIO()
    formats.texts[form](result, out, View(**view))
    return out.getvalue()

"""Results as text, in one of the formats that they have."""

import io
from typing import Any

from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.core.formats import OutputFormats


def written(formats: OutputFormats[Any], result: Any, form: Format, **view: Any) -> str:
    """What is written of `result`; `view` as in `RenderOptions`."""
    out = io.StringIO()
    formats.texts[form](result, out, RenderOptions(**view))
    return out.getvalue()

"""Fixed text widths in drawings: a system without the font of a drawing uses another one, often a wider one.

Each `<text>` gets its width in the font of the drawing (`textLength`), to which a viewer stretches or squeezes the font
that it has. vl-convert, which lays charts out and includes Liberation Sans, measures the widths. It includes no
monospaced font; for monospaced text the width is that of DejaVu Sans Mono, which `ladder.diagram` uses for its layout.
"""

import re
from collections.abc import Sequence
from html import unescape
from typing import Any, Final

#: A text element without children: its attributes and its text.
_TEXT: Final = re.compile(r"<text( [^>]*)>([^<]+)</text>")
_ATTRIBUTE: Final = re.compile(r' (font-family|font-size|font-weight)="([^"]*)"')
#: Defaults of the attributes.
_DEFAULTS: Final = {"font-family": "sans-serif", "font-size": "16", "font-weight": "normal"}
#: Width of a letter of a monospaced font, relative to the font size.
MONO_WIDTH: Final = 0.602
#: Texts are measured at this size and scaled down, so that rounding errors are negligible.
_SIZE: Final = 1000.0

#: What determines the width of a text apart from its size: text, font family, weight.
_TextStyle = tuple[str, str, str]


def add_text_lengths(svg: str) -> str:
    """Return the drawing with a `textLength` for each text. Texts inherit missing font attributes from `<svg>`."""
    root = {**_DEFAULTS, **dict(_ATTRIBUTE.findall(svg[: svg.index(">")]))}
    texts = [_parse_style(root, *match.groups()) for match in _TEXT.finditer(svg)]
    looks = list(dict.fromkeys(look for look, _ in texts))
    even = {look: MONO_WIDTH * _SIZE * len(look[0]) for look in looks if "monospace" in look[1].split(", ")}
    others = [look for look in looks if look not in even]
    widths = even | dict(zip(others, _measure(others), strict=True))
    lengths = iter([widths[look] * size / _SIZE for look, size in texts])

    def add_length(text: re.Match[str]) -> str:
        length = next(lengths)
        if not length:
            return text[0]
        return f'<text{text[1]} textLength="{length:.2f}" lengthAdjust="spacingAndGlyphs">{text[2]}</text>'

    return _TEXT.sub(add_length, svg)


def _parse_style(root: dict[str, str], attributes: str, text: str) -> tuple[_TextStyle, float]:
    """Return text, font family and weight, and the size."""
    font = {**root, **dict(_ATTRIBUTE.findall(attributes))}
    look = (unescape(text), unescape(font["font-family"]), font["font-weight"])
    return look, float(font["font-size"].removesuffix("px"))


def _measure(looks: Sequence[_TextStyle]) -> list[float]:
    """Widths of texts of size `_SIZE`: Vega draws the texts, then a rectangle around each."""
    import vl_convert

    names = ("text", "font", "fontWeight")
    channels: dict[str, Any] = {name: {"field": name} for name in names}
    fixed = {"fontSize": {"value": _SIZE}, "x": {"value": 0}, "y": {"value": 0}, "limit": {"value": 0}}
    ends = {"x": {"field": "bounds.x1"}, "width": {"signal": "datum.bounds.x2 - datum.bounds.x1"}}
    spec = {
        "data": [{"name": "looks", "values": [dict(zip(names, look, strict=True)) for look in looks]}],
        "marks": [
            {"name": "texts", "type": "text", "from": {"data": "looks"}, "encode": {"enter": channels | fixed}},
            {"name": "ends", "type": "rect", "from": {"data": "texts"}, "encode": {"update": ends}},
        ],
    }
    drawn: Any = vl_convert.vega_to_scenegraph(spec)
    marks = drawn["scenegraph"]["items"][0]["items"]
    return [float(mark.get("width", 0)) for mark in marks[1]["items"]]

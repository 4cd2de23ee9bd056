"""Text of a drawing as wide everywhere as it was laid out: a machine without its font takes another, often a wider one.

Each `<text>` gets the width that it has in the font of the drawing (`textLength`), to which a viewer stretches or squeezes whatever
font it has. Measured by vl-convert, which lays charts out and brings Liberation Sans along. It has no font whose letters are all of
one width, and takes what the machine has: there the width is that of DejaVu Sans Mono, by which `diagram` lays text out.
"""

import re
from collections.abc import Sequence
from html import unescape
from typing import Any, Final

#: One text without parts of its own: its attributes, what it says.
_TEXT: Final = re.compile(r"<text( [^>]*)>([^<]+)</text>")
_ATTRIBUTE: Final = re.compile(r' (font-family|font-size|font-weight)="([^"]*)"')
#: What a text without the attribute has.
_USUAL: Final = {"font-family": "sans-serif", "font-size": "16", "font-weight": "normal"}
#: Width of each letter of a font where all have the same, of its size.
MONO_WIDTH: Final = 0.602
#: Texts are measured as large as this and scaled down, so that rounding does not count.
_SIZE: Final = 1000.0

#: What makes a text wide but its size: what it says, family, weight.
_Look = tuple[str, str, str]


def add_text_lengths(svg: str) -> str:
    """The drawing with a `textLength` for each text; what a text does not say of its font, the `<svg>` does."""
    root = {**_USUAL, **dict(_ATTRIBUTE.findall(svg[: svg.index(">")]))}
    found = [_look(root, *one.groups()) for one in _TEXT.finditer(svg)]
    looks = list(dict.fromkeys(look for look, _ in found))
    even = {look: MONO_WIDTH * _SIZE * len(look[0]) for look in looks if "monospace" in look[1].split(", ")}
    others = [look for look in looks if look not in even]
    widths = even | dict(zip(others, _measured(others), strict=True))
    lengths = iter([widths[look] * size / _SIZE for look, size in found])

    def sized(text: re.Match[str]) -> str:
        length = next(lengths)
        if not length:
            return text[0]
        return f'<text{text[1]} textLength="{length:.2f}" lengthAdjust="spacingAndGlyphs">{text[2]}</text>'

    return _TEXT.sub(sized, svg)


def _look(root: dict[str, str], attributes: str, text: str) -> tuple[_Look, float]:
    """What a text looks like, and its size."""
    font = {**root, **dict(_ATTRIBUTE.findall(attributes))}
    look = (unescape(text), unescape(font["font-family"]), font["font-weight"])
    return look, float(font["font-size"].removesuffix("px"))


def _measured(looks: Sequence[_Look]) -> list[float]:
    """Widths of texts of the size `_SIZE`: Vega draws them, and then marks where each has ended."""
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
    return [float(one.get("width", 0)) for one in marks[1]["items"]]

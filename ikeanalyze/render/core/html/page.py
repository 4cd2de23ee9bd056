"""HTML pages: self-contained files with a content security policy that allows only our own script and style sheet.

Jinja2 escapes all text from a capture (names, identities, vendor IDs, notify texts). Only the drawings are passed
through as markup, and the functions that make them escape their texts. If markup slipped through nevertheless, the
policy, which has the digests of the script and the style sheet, would prevent it from running or loading anything.

Colours are CSS variables: light or dark as the system or the reader chooses, and always light on paper.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ikeanalyze._version import installed_version
from ikeanalyze.render.core.figures.files import Figure
from ikeanalyze.render.core.figures.style import COLOURS, DARK, PAGE, insert_css_variables
from ikeanalyze.render.core.json import select_attributes

#: With the colours that only pages need: raised areas, links, notices.
_LIGHT: Final = {**COLOURS, "raised": "#f4f6f9", "link": "#0f5c9c", "mark": "#fff4d6"}
_DARK: Final = {**DARK, "raised": "#1b212a", "link": "#82c0f2", "mark": "#3a3214"}
_PAPER: Final = {**_LIGHT, "raised": "#ffffff", "ink": "#000000", "link": "#000000", "mark": "#ffffff"}


def build_palette_css() -> str:
    """Return the style rules that set the variables; those of paper always take precedence."""
    dark = _format_rule("dark", _DARK)
    return (
        f":root {{ {_format_rule('light', _LIGHT)} }}\n"
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {dark} }} }}\n'
        f':root[data-theme="dark"] {{ {dark} }}\n'
        f"@media print {{ :root:root:root {{ {_format_rule('light', _PAPER)} }} }}\n"
    )


def _format_rule(scheme: str, colours: Mapping[str, str]) -> str:
    return f"color-scheme: {scheme}; " + " ".join(f"--{name}: {value};" for name, value in colours.items())


_TEMPLATES: Final = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class SummaryCard:
    """One number of the summary of a page."""

    name: str
    value: str
    more: str = ""


def render_template(template: str, **content: Any) -> str:
    """Return the page of a template; `content` are the variables of the template."""
    style = build_palette_css() + _read_template_file("style.css")
    script = _read_template_file("script.js")
    content |= {"style": Markup(style), "script": Markup(script), "policy": _make_policy(style, script)}
    return _make_environment().get_template(template).render(version=installed_version(), **content)


def prepare_figure(figure: Figure) -> dict[str, Any]:
    """Return a figure as the templates need it."""
    svg = make_inline_svg(figure.draw(PAGE))
    return {**select_attributes(figure, "name", "title", "caption", "numbers"), "svg": svg}


def make_inline_svg(svg: str) -> Markup:
    """Return a drawing with CSS variables as colours, as markup."""
    return Markup(insert_css_variables(svg))


def _make_policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_hash_source(style)}'; script-src '{_hash_source(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash_source(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def _read_template_file(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _make_environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

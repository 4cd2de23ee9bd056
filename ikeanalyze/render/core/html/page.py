"""A page: one file that needs no other, and a policy that lets a browser run nothing but what we put in.

Whatever comes out of a capture (names, identities, vendor IDs, notify texts) is escaped by Jinja2; the drawings are
the only markup that is passed through, and their makers escape what they write. If something slipped through even so,
the policy, which knows our script and our style sheet by their digests, would not let it run or load anything.

The colours of pages as CSS variables: as the system has them or as the reader chooses, and always light on paper.
"""

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ikeanalyze._version import installed_version
from ikeanalyze.render.core.figures.figure import Figure
from ikeanalyze.render.core.figures.style import COLOURS, DARK, PAGE, insert_css_variables

#: What only pages need: the ground of what is raised, links, notices.
_LIGHT: Final = {**COLOURS, "raised": "#f4f6f9", "link": "#0f5c9c", "mark": "#fff4d6"}
_DARK: Final = {**DARK, "raised": "#1b212a", "link": "#82c0f2", "mark": "#3a3214"}
_PAPER: Final = {**_LIGHT, "raised": "#ffffff", "ink": "#000000", "link": "#000000", "mark": "#ffffff"}


def build_palette_css() -> str:
    """The style rules that set the variables; those of paper outweigh the others whatever was chosen."""
    dark = _rule("dark", _DARK)
    return (
        f":root {{ {_rule('light', _LIGHT)} }}\n"
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {dark} }} }}\n'
        f':root[data-theme="dark"] {{ {dark} }}\n'
        f"@media print {{ :root:root:root {{ {_rule('light', _PAPER)} }} }}\n"
    )


def _rule(scheme: str, colours: Mapping[str, str]) -> str:
    return f"color-scheme: {scheme}; " + " ".join(f"--{name}: {value};" for name, value in colours.items())


pass

_TEMPLATES: Final = Path(__file__).parent / "templates"


def render_template(template: str, **content: Any) -> str:
    """The page of a template; `content` are its variables, see the template."""
    style = build_palette_css() + _file("style.css")
    script = _file("script.js")
    return (
        _environment()
        .get_template(template)
        .render(
            style=Markup(style),
            script=Markup(script),
            policy=_policy(style, script),
            version=installed_version(),
            **content,
        )
    )


def prepare_figure(figure: Figure) -> dict[str, Any]:
    """A figure as the templates take it."""
    return {
        "name": figure.name,
        "title": figure.title,
        "caption": figure.caption,
        "numbers": figure.numbers,
        "svg": make_inline_svg(figure.draw(PAGE)),
    }


def make_inline_svg(svg: str) -> Markup:
    """A drawing, to be part of a page."""
    return Markup(insert_css_variables(svg))


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def _file(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

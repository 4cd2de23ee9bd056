"""The colours of pages as CSS variables: as the system has them or as the reader chooses, and always light on paper."""

from collections.abc import Mapping
from typing import Final

from ikeanalyze.render.figures.style import COLOURS, DARK

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

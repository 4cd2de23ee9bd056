"""The formats of a comparison."""

from typing import Final, TextIO

from ikeanalyze.dataset.compare.result import Comparison
from ikeanalyze.render import Format, RenderOptions, comparison_document
from ikeanalyze.render.comparison import render_sections
from ikeanalyze.render.formats import (
    OutputFormats,
    make_json_writer,
    make_markdown_writer,
    make_terminal_writer,
    make_text_writer,
)


def _page(comparison: Comparison, out: TextIO, view: RenderOptions) -> None:
    from ikeanalyze.render.html.comparison import render_page  # what draws takes long to load

    out.write(render_page(comparison, every=view.every))


FORMATS: Final[OutputFormats[Comparison]] = OutputFormats(
    {
        Format.TERMINAL: make_terminal_writer(render_sections),
        Format.MARKDOWN: make_markdown_writer(render_sections),
        Format.JSON: make_json_writer(comparison_document.build_document),
        Format.CSV: make_text_writer(comparison_document.write_csv),
        Format.HTML: _page,
    }
)

"""The formats of a comparison."""

from typing import Final, TextIO

from ikeanalyze.dataset.comparison import Comparison
from ikeanalyze.render import Format, View, comparison_document
from ikeanalyze.render.comparison import sections
from ikeanalyze.render.formats import Formats, to_json, to_markdown, to_terminal, to_text


def _page(comparison: Comparison, out: TextIO, view: View) -> None:
    from ikeanalyze.render.html.comparison import comparison_page  # what draws takes long to load

    out.write(comparison_page(comparison, every=view.every))


FORMATS: Final[Formats[Comparison]] = Formats(
    {
        Format.TERMINAL: to_terminal(sections),
        Format.MARKDOWN: to_markdown(sections),
        Format.JSON: to_json(comparison_document.document),
        Format.CSV: to_text(comparison_document.write_csv),
        Format.HTML: _page,
    }
)

"""The formats of predictions."""

from collections.abc import Sequence
from typing import Final, TextIO

from ikeanalyze.model.prediction import Prediction
from ikeanalyze.render import Format, View, prediction_document
from ikeanalyze.render.formats import Formats, to_json, to_markdown, to_terminal, to_text
from ikeanalyze.render.prediction import sections


def _page(predictions: Sequence[Prediction], out: TextIO, _view: View) -> None:
    from ikeanalyze.render.html.prediction import prediction_page  # what draws takes long to load

    out.write(prediction_page(predictions))


#: Of one prediction at least.
FORMATS: Final[Formats[Sequence[Prediction]]] = Formats(
    {
        Format.TERMINAL: to_terminal(sections),
        Format.MARKDOWN: to_markdown(sections),
        Format.JSON: to_json(prediction_document.document),
        Format.CSV: to_text(prediction_document.write_csv),
        Format.HTML: _page,
    }
)

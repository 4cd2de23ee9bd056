"""A screen of text, for the help, the warnings and the differences between two messages."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ikeanalyze.view.widgets.bars import KeyBar, TitleBar
from ikeanalyze.view.widgets.text_pane import LineRenderer, TextPane


class TextScreen(Screen[None]):
    """A text that fills the screen until a key closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,question_mark,f1", "dismiss", show=False)]

    def __init__(self, title: str, render_lines: LineRenderer) -> None:
        super().__init__()
        self._title = title
        self._render_lines = render_lines

    def compose(self) -> ComposeResult:
        """Yield the title, the text and the keys."""
        yield TitleBar(self._title)
        yield TextPane(self._render_lines)
        yield KeyBar([("↑↓", "scroll"), ("Esc", "back")])

"""A screen of text: help, warnings, the differences between two messages."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ikeanalyze.view.widgets.bars import KeyBar, TitleBar
from ikeanalyze.view.widgets.text_pane import Maker, TextPane


class TextScreen(Screen[None]):
    """Text over the whole screen, until a key takes it away."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,question_mark,f1", "dismiss", show=False)]

    def __init__(self, title: str, make: Maker) -> None:
        super().__init__()
        self._title = title
        self._make = make

    def compose(self) -> ComposeResult:
        """Title, text, keys."""
        yield TitleBar(self._title)
        yield TextPane(self._make)
        yield KeyBar([("↑↓", "scroll"), ("Esc", "back")])

"""The lines at the edges of a screen: what it shows, and what its keys do."""

from collections.abc import Sequence

from rich.text import Text
from textual.widgets import Static

from ikeanalyze.view.text_lines import NAME


class TitleBar(Static):
    """A line at the top."""

    DEFAULT_CSS = "Title { height: 1; text-style: bold; }"

    def __init__(self, text: str) -> None:
        super().__init__(Text(text, no_wrap=True, overflow="ellipsis"))
        self.text = text

    def show(self, text: str) -> None:
        """Show other text."""
        self.text = text
        self.update(Text(text, no_wrap=True, overflow="ellipsis"))


class KeyBar(Static):
    """A line at the bottom: keys, and a word for what each does; the most wanted first, since a narrow screen cuts it."""

    DEFAULT_CSS = "Keys { height: 1; }"

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None:
        line = Text(no_wrap=True, overflow="crop")
        for key, word in keys:
            line.append(key, "bold").append(f" {word}  ", NAME)
        super().__init__(line)

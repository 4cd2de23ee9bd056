"""The title bar and the key bar of a screen."""

from collections.abc import Sequence

from rich.text import Text
from textual.widgets import Static

from ikeanalyze.view.text_lines import NAME


class TitleBar(Static):
    """The top line: what the screen shows."""

    DEFAULT_CSS = "TitleBar { height: 1; text-style: bold; }"

    def __init__(self, text: str) -> None:
        super().__init__(Text(text, no_wrap=True, overflow="ellipsis"))
        self.text = text

    def show(self, text: str) -> None:
        """Change the text."""
        self.text = text
        self.update(Text(text, no_wrap=True, overflow="ellipsis"))


class KeyBar(Static):
    """The bottom line: keys and their meanings, the most important first, since a narrow screen cuts the line."""

    DEFAULT_CSS = "KeyBar { height: 1; }"

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None:
        line = Text(no_wrap=True, overflow="crop")
        for key, word in keys:
            line.append(key, "bold").append(f" {word}  ", NAME)
        super().__init__(line)

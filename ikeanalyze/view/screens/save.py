"""The question where to save what was chosen, and the saving itself."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.write.filter import FilterResult
from ikeanalyze.render.core.values import escape_text, format_count
from ikeanalyze.view.session import CaptureSession
from ikeanalyze.view.text_lines import NAME, WRONG


@dataclass(frozen=True, slots=True)
class SaveChoice:
    """Something that can be saved."""

    name: str  # for people
    handshakes: Sequence[int] = ()  # ids
    frames: Sequence[int] = ()  # numbers, besides those of the handshakes


class SaveScreen(ModalScreen[None]):
    """What and where to; Enter saves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", show=False),
        Binding("up", "choose(-1)", show=False),
        Binding("down,tab", "choose(1)", show=False),
    ]
    DEFAULT_CSS = """
    SaveScreen { align: center middle; }
    SaveScreen Vertical { width: 90%; max-width: 90; height: auto; border: solid ansi_default; padding: 0 1; }
    SaveScreen Static { height: auto; }
    SaveScreen Input { margin: 1 0; }
    """

    def __init__(self, browsed: CaptureSession, choices: Sequence[SaveChoice]) -> None:
        super().__init__()
        self._browsed = browsed
        self._choices = choices
        self._chosen = 0
        self._confirmed: str | None = None  # a file that may be replaced

    def compose(self) -> ComposeResult:
        """What, where to, and how it went."""
        with Vertical():
            yield Static(id="choices")
            yield Input(_suggested(self._browsed), id="path")
            yield Static(id="answer")

    def on_mount(self) -> None:
        """Begin with the name of the file."""
        self.query_one(Input).focus()
        self._show()

    def action_choose(self, by: int) -> None:
        """Save something else."""
        self._chosen = (self._chosen + by) % len(self._choices)
        self._show()

    def _show(self) -> None:
        text = Text("Save as a capture, with frames and times as they are:\n\n", "bold")
        for index, choice in enumerate(self._choices):
            here = index == self._chosen
            text.append(f"{'>' if here else ' '} {choice.name}\n", "bold" if here else "")
        self.query_one("#choices", Static).update(text)
        self._answer("↑↓ what   Enter saves   Esc goes back", NAME)

    def _answer(self, what: str, style: str = WRONG) -> None:
        self.query_one("#answer", Static).update(Text(escape_text(what), style))

    def on_input_changed(self, _: Input.Changed) -> None:
        """Another file, another question."""
        self._confirmed = None

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Save it, if nothing is lost by that."""
        given = event.value.strip()
        if given in ("", "-"):  # standard output is the screen
            self._answer("type the name of a file")
            return
        path = os.path.expanduser(given)
        if os.path.isdir(path):
            self._answer(f"{path} is a directory: name a file in it")
        elif os.path.exists(path) and not os.path.isfile(path):
            self._answer(f"{path} is a device or a pipe: name a file")
        elif os.path.exists(path) and self._confirmed != path:
            self._confirmed = path
            self._answer(f"{path} is there already. Enter again replaces it")
        else:
            self._answer("saving...", NAME)
            self._save(path, self._choices[self._chosen])

    @work(thread=True, exclusive=True)
    def _save(self, path: str, choice: SaveChoice) -> None:
        try:
            written = self._browsed.save(path, choice.handshakes, choice.frames)
        except CaptureError as error:
            self.app.call_from_thread(self._failed, str(error))
        except OSError as error:
            self.app.call_from_thread(self._failed, f"{path}: cannot be written: {error.strerror or error}")
        else:
            self.app.call_from_thread(self._saved, path, written)

    def _failed(self, what: str) -> None:
        if self.is_attached:
            self._answer(what)

    def _saved(self, path: str, written: FilterResult) -> None:
        lost = f", {written.missing:,} are not in the capture any more" if written.missing else ""
        form = self._browsed.analysis.captures[0].format
        told = "" if path.lower().endswith(f".{form}") else f", as {form}"
        said = f"{escape_text(path)}: {format_count(written.packets, 'packet')}{told}{lost}"
        self.app.notify(said, timeout=6, markup=False)
        if self.is_attached:
            self.dismiss()


def _suggested(browsed: CaptureSession) -> str:
    """A name beside nothing else: in the current folder, of the capture's format, not yet there."""
    stem = escape_text(Path(browsed.path).name)
    for suffix in (".gz", ".zst", ".pcapng", ".pcap", ".cap"):
        stem = stem.removesuffix(suffix)
    for number in range(1, 1000):
        name = f"{stem}-selection{'' if number == 1 else f'-{number}'}.{browsed.analysis.captures[0].format}"
        if not os.path.lexists(name):
            break
    return name

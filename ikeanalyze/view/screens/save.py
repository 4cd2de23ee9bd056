"""The dialog that saves handshakes or messages as a capture."""

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
    """Handshakes or frames that can be saved."""

    name: str  # as shown to the user
    handshakes: Sequence[int] = ()  # ids
    frames: Sequence[int] = ()  # numbers of further frames


class SaveScreen(ModalScreen[None]):
    """Asks what to save and in which file."""

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

    def __init__(self, session: CaptureSession, choices: Sequence[SaveChoice]) -> None:
        super().__init__()
        self._session = session
        self._choices = choices
        self._chosen = 0
        self._confirmed: str | None = None  # a file that may be replaced

    def compose(self) -> ComposeResult:
        """Yield the choices, the path and the status."""
        with Vertical():
            yield Static(id="choices")
            yield Input(_suggest_path(self._session), id="path")
            yield Static(id="status")

    def on_mount(self) -> None:
        """Focus the path."""
        self.query_one(Input).focus()
        self._show()

    def action_choose(self, by: int) -> None:
        """Select another choice."""
        self._chosen = (self._chosen + by) % len(self._choices)
        self._show()

    def _show(self) -> None:
        text = Text("Save as a capture, with unchanged frames and times:\n\n", "bold")
        for index, choice in enumerate(self._choices):
            chosen = index == self._chosen
            text.append(f"{'>' if chosen else ' '} {choice.name}\n", "bold" if chosen else "")
        self.query_one("#choices", Static).update(text)
        self._show_status("↑↓ choose   Enter saves   Esc goes back", NAME)

    def _show_status(self, status: str, style: str = WRONG) -> None:
        self.query_one("#status", Static).update(Text(escape_text(status), style))

    def on_input_changed(self, _: Input.Changed) -> None:
        """Ask again before replacing another file."""
        self._confirmed = None

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Save, unless that would replace a file without confirmation."""
        name = event.value.strip()
        if name in ("", "-"):  # standard output is the screen
            self._show_status("type the name of a file")
            return
        path = os.path.expanduser(name)
        if os.path.isdir(path):
            self._show_status(f"{path} is a directory: name a file in it")
        elif os.path.exists(path) and not os.path.isfile(path):
            self._show_status(f"{path} is a device or a pipe: name a file")
        elif os.path.exists(path) and self._confirmed != path:
            self._confirmed = path
            self._show_status(f"{path} already exists. Press Enter again to replace it")
        else:
            self._show_status("saving...", NAME)
            self._save(path, self._choices[self._chosen])

    @work(thread=True, exclusive=True)
    def _save(self, path: str, choice: SaveChoice) -> None:
        try:
            written = self._session.save(path, choice.handshakes, choice.frames)
        except CaptureError as error:
            self.app.call_from_thread(self._report_error, str(error))
        except OSError as error:
            self.app.call_from_thread(self._report_error, f"{path}: cannot be written: {error.strerror or error}")
        else:
            self.app.call_from_thread(self._report_saved, path, written)

    def _report_error(self, problem: str) -> None:
        if self.is_attached:
            self._show_status(problem)

    def _report_saved(self, path: str, written: FilterResult) -> None:
        missing = f", {written.missing:,} are no longer in the capture" if written.missing else ""
        capture_format = self._session.analysis.captures[0].format
        note = "" if path.lower().endswith(f".{capture_format}") else f", as {capture_format}"
        text = f"{escape_text(path)}: {format_count(written.packets, 'packet')}{note}{missing}"
        self.app.notify(text, timeout=6, markup=False)
        if self.is_attached:
            self.dismiss()


def _suggest_path(session: CaptureSession) -> str:
    """Return the name of a new file in the current directory, with the extension of the capture's format."""
    stem = escape_text(Path(session.path).name)
    for suffix in (".gz", ".zst", ".pcapng", ".pcap", ".cap"):
        stem = stem.removesuffix(suffix)
    for number in range(1, 1000):
        name = f"{stem}-selection{'' if number == 1 else f'-{number}'}.{session.analysis.captures[0].format}"
        if not os.path.lexists(name):
            break
    return name

"""The Textual app of the browser: its screens, and the navigation between them."""

import os
import sys
from collections.abc import Iterator
from typing import ClassVar, Final

from rich.traceback import Traceback
from textual.app import App
from textual.binding import Binding, BindingType

from ikeanalyze.render.core.values import escape_text
from ikeanalyze.view.growing_session import GrowingSession
from ikeanalyze.view.screens.handshake_list import HandshakeListScreen
from ikeanalyze.view.screens.help import render_help
from ikeanalyze.view.screens.ladder import LadderScreen
from ikeanalyze.view.screens.text import TextScreen
from ikeanalyze.view.session import CaptureSession, MessageDetails
from ikeanalyze.view.text_lines import TextLine, make_line

#: Seconds after which handshakes of a growing capture are shown.
_UPDATE_SECONDS: Final = 0.5
#: Seconds after which a terminal that is gone is noticed.
_TERMINAL_SECONDS: Final = 2


class TerminalError(Exception):
    """The browser cannot be used in this terminal; the message is one line for the user."""


class Browser(App[None]):
    """Browses the handshakes of a capture in a terminal."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False),
    ]
    # only the terminal's own colours, which fit a light and a dark background
    CSS = """
    Screen, Input, Static, Toast { background: ansi_default; color: ansi_default; }
    * { scrollbar-color: ansi_bright_black; scrollbar-color-hover: ansi_bright_black;
        scrollbar-color-active: ansi_bright_black;
        scrollbar-background: ansi_default; scrollbar-background-hover: ansi_default;
        scrollbar-background-active: ansi_default; scrollbar-corner-color: ansi_default; }
    Input, Input:focus { border: none; height: 1; padding: 0; }
    Input > .input--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
    Input > .input--placeholder { color: ansi_default; text-style: dim; }
    Toast { border: solid ansi_default; width: auto; max-width: 90%; padding: 0 1; }
    """

    def __init__(self, session: CaptureSession) -> None:
        super().__init__(ansi_color=True)
        self._session = session
        self._marked: list[MessageDetails] = []
        self.list_screen = HandshakeListScreen(session)
        self.terminal_error: str | None = None  #: why the terminal cannot be read any more

    def on_mount(self) -> None:
        """Show the list first."""
        self.push_screen(self.list_screen)
        if isinstance(self._session, GrowingSession):
            self.set_interval(_UPDATE_SECONDS, self.update_handshakes)
        if not self.is_headless and sys.__stdin__ is not None and os.isatty(sys.__stdin__.fileno()):
            self.set_interval(_TERMINAL_SECONDS, self._exit_without_terminal)

    def _exit_without_terminal(self) -> None:
        """Exit if the terminal is gone and sent no signal: Textual would read its end again and again."""
        if sys.__stdin__ is not None and not os.isatty(sys.__stdin__.fileno()):
            self.exit()

    def update_handshakes(self) -> None:
        """Show the handshakes that were added to a growing capture."""
        if isinstance(self._session, GrowingSession) and self._session.update():
            self.list_screen.update_handshakes()

    async def on_handshake_list_screen_open_requested(self, event: HandshakeListScreen.OpenRequested) -> None:
        """Show the ladder of a handshake."""
        screen = LadderScreen(self._session, self._marked)
        await self.push_screen(screen)
        screen.open(event.handshake)

    def on_ladder_screen_next_requested(self, event: LadderScreen.NextRequested) -> None:
        """Show the ladder of the next or the previous handshake of the list."""
        handshakes = self.list_screen.handshake_list
        cursor = handshakes.cursor
        handshakes.cursor += event.by
        if handshakes.cursor != cursor and handshakes.current is not None and isinstance(self.screen, LadderScreen):
            self.screen.open(handshakes.current)

    def action_help(self) -> None:
        """Show the help."""
        self.push_screen(TextScreen("ikeanalyze view", lambda _: render_help()))

    def action_warnings(self) -> None:
        """Show the warnings about the capture."""
        self.push_screen(TextScreen("Warnings", lambda _: self._render_warnings()))

    def _render_warnings(self) -> Iterator[TextLine]:
        warnings = self._session.analysis.warnings
        for warning in warnings:
            where = "" if warning.frame is None else f"packet {warning.frame}: "
            yield make_line(f"{where}{escape_text(warning.message)}", hang=2)
        if not warnings:
            yield make_line("none")

    def panic(self, *renderables: object) -> None:
        """Exit because the terminal cannot be read any more; `run_browser` raises the error."""
        stacks = [
            stack for traceback in renderables if isinstance(traceback, Traceback) for stack in traceback.trace.stacks
        ]
        self.terminal_error = stacks[0].exc_value if stacks else "it does not answer"
        self._close_messages_no_wait()

    def _fatal_error(self) -> None:
        """Exit; `run_browser` raises the error. Textual's traceback would show values of variables, keys included."""
        self._close_messages_no_wait()


def run_browser(session: CaptureSession) -> None:
    """Run the browser until the user quits. Errors are raised after the terminal has been restored.

    Raises:
        TerminalError: the terminal cannot be read.
    """
    browser = Browser(session)
    browser.run()
    if browser._exception is not None:
        raise browser._exception
    if browser.terminal_error is not None:
        raise TerminalError(f"the terminal cannot be read: {browser.terminal_error}. Set it to UTF-8")

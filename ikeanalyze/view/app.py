"""The browser: its screens, and the way between them."""

from collections.abc import Iterator
from typing import ClassVar

from rich.traceback import Traceback
from textual.app import App
from textual.binding import Binding, BindingType

from ikeanalyze.render.core.values import escape_text
from ikeanalyze.view.screens.handshake_list import HandshakeListScreen
from ikeanalyze.view.screens.help import render_help
from ikeanalyze.view.screens.ladder import LadderScreen
from ikeanalyze.view.screens.text import TextScreen
from ikeanalyze.view.session import CaptureSession, MessageDetails
from ikeanalyze.view.text_lines import TextLine, make_line


class TerminalError(Exception):
    """The terminal is none that the browser can be used in; a line for the user."""


class Browser(App[None]):
    """A capture's handshakes in a terminal."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False),
    ]
    # the terminal's own colours, on its own ground, be that light or dark
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

    def __init__(self, browsed: CaptureSession) -> None:
        super().__init__(ansi_color=True)
        self._browsed = browsed
        self._marked: list[MessageDetails] = []
        self.listed = HandshakeListScreen(browsed)
        self.broken: str | None = None  #: why the terminal cannot be read any more

    def on_mount(self) -> None:
        """Begin with the list."""
        self.push_screen(self.listed)

    async def on_list_screen_wanted(self, event: HandshakeListScreen.Wanted) -> None:
        """Open a handshake."""
        screen = LadderScreen(self._browsed, self._marked)
        await self.push_screen(screen)
        screen.open(event.handshake)

    def on_ladder_screen_next_wanted(self, event: LadderScreen.NextWanted) -> None:
        """Open the handshake that the list has next, or before."""
        listing = self.listed.listing
        before = listing.cursor
        listing.cursor += event.by
        if listing.cursor != before and listing.current is not None and isinstance(self.screen, LadderScreen):
            self.screen.open(listing.current)

    def action_help(self) -> None:
        """What the keys do."""
        self.push_screen(TextScreen("ikeanalyze view", lambda _: render_help()))

    def action_warnings(self) -> None:
        """What the user should know of the capture."""
        self.push_screen(TextScreen("Warnings", lambda _: self._warnings()))

    def _warnings(self) -> Iterator[TextLine]:
        warnings = self._browsed.analysis.warnings
        for warning in warnings:
            where = "" if warning.frame is None else f"packet {warning.frame}: "
            yield make_line(f"{where}{escape_text(warning.what)}", hang=2)
        if not warnings:
            yield make_line("none")

    def panic(self, *renderables: object) -> None:
        """Leave, since the terminal cannot be read any more; `run_browser` says so."""
        stacks = [stack for one in renderables if isinstance(one, Traceback) for stack in one.trace.stacks]
        self.broken = stacks[0].exc_value if stacks else "it does not answer"
        self._close_messages_no_wait()

    def _fatal_error(self) -> None:
        """Leave; `run_browser` raises the error. Textual would print a traceback with the values of all variables: with keys."""
        self._close_messages_no_wait()


def run_browser(browsed: CaptureSession) -> None:
    """Show the browser until it is left. What goes wrong inside is raised when the screen is as it was before.

    Raises:
        TerminalError: the terminal cannot be read.

    """
    browser = Browser(browsed)
    browser.run()
    if browser._exception is not None:
        raise browser._exception
    if browser.broken is not None:
        raise TerminalError(f"the terminal cannot be read: {browser.broken}. Set it to UTF-8")

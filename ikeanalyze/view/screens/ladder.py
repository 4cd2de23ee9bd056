"""The screen with the ladder of a handshake, and details of the message under the cursor."""

from typing import ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import Resize
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.render.core.values import escape_text
from ikeanalyze.render.ladder import text
from ikeanalyze.view.differences import compare_messages
from ikeanalyze.view.message_details import render_hex_lines, render_message
from ikeanalyze.view.screens.save import SaveChoice, SaveScreen
from ikeanalyze.view.screens.text import TextScreen
from ikeanalyze.view.session import CaptureSession, HandshakeDetails, MessageDetails
from ikeanalyze.view.widgets.bars import KeyBar, TitleBar
from ikeanalyze.view.widgets.ladder import LadderView
from ikeanalyze.view.widgets.list_view import ListView
from ikeanalyze.view.widgets.text_pane import TextPane

_KEYS = [
    ("↑↓", "message"), ("m", "mark"), ("x", "hex"), ("?", "help"), ("Esc", "back"), ("p", "payloads"),
    ("s", "save"), ("n N", "next"), ("Tab", "pane"), ("d", "differences"),
]  # fmt: skip
#: Minimum width in cells of a ladder with two hosts and with three, and of the message next to it.
_LADDER: Final = {False: 55, True: 85}
_MESSAGE: Final = 54
_TALL: Final = 16  # lines of a screen from which on the heading of the handshake is shown
_HEADING: Final = 4  # lines of the heading at most, and with a diagnosis
_DIAGNOSIS: Final = 9
_SHARES: Final = range(20, 81, 10)  # share of the screen for the ladder in per cent
_MARKS: Final = ("1", "2")


class LadderScreen(Screen[None]):
    """Shows one handshake."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", show=False),
        Binding("n", "next(1)", show=False),
        Binding("N", "next(-1)", show=False),
        Binding("m,space", "mark", show=False),
        Binding("d", "differences", show=False),
        Binding("x,f6", "hex", show=False),
        Binding("p", "payloads", show=False),
        Binding("s,f2", "save", show=False),
        Binding("9", "share(-10)", show=False),
        Binding("0", "share(10)", show=False),
        Binding("tab", "app.focus_next", show=False),
        Binding("w", "app.warnings", show=False),
        Binding("question_mark,h,f1", "app.help", show=False),
    ]
    DEFAULT_CSS = """
    LadderScreen #about { height: auto; max-height: 4; }
    LadderScreen #panes { height: 1fr; layout: vertical; }
    LadderScreen.wide #panes { layout: horizontal; }
    LadderScreen #message { border-top: solid ansi_default; height: 1fr; width: 1fr; }
    LadderScreen.wide #message { border-top: none; border-left: solid ansi_default; padding-left: 1; }
    """

    class NextRequested(Message):
        """The user wants to see the next (1) or the previous (-1) handshake."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(self, session: CaptureSession, marked: list[MessageDetails]) -> None:
        """`marked`: the marked messages, also of other handshakes; this screen changes the list."""
        super().__init__()
        self._session = session
        self._marked = marked
        self._details: HandshakeDetails | None = None
        self._requested = 0  # id of the handshake that was requested last
        self._hex = False
        self._share = 50
        self.ladder = LadderView(id="ladder")

    def compose(self) -> ComposeResult:
        """Yield the title, the ladder, the message and the keys."""
        yield TitleBar("")
        yield Static(id="about")
        with Container(id="panes"):
            yield self.ladder
            yield TextPane(id="message")
        yield KeyBar(_KEYS)

    def on_mount(self) -> None:
        """Focus the ladder."""
        self.ladder.focus()
        self._arrange()

    def on_resize(self, _: Resize) -> None:
        """Arrange the panes for the new width."""
        self._arrange()

    def _arrange(self) -> None:
        three = self._details is not None and self._details.analysis.handshakes["aaa_address"][0] is not None
        wide = self.size.width >= _LADDER[three] + _MESSAGE
        self.set_class(wide, "wide")
        self.query_one("#about").display = self.size.height >= _TALL
        styles = self.ladder.styles
        styles.width, styles.height = (f"{self._share}%", "1fr") if wide else ("1fr", f"{self._share}%")
        styles.min_width = _LADDER[three] if wide else 0

    def open(self, handshake: int) -> None:
        """Load a handshake, and show it when it is loaded; until then nothing of another handshake is shown."""
        self._requested = handshake
        self._details = None
        self.ladder.show(None)
        self.query_one(TextPane).show(lambda _: ())
        self.query_one(TitleBar).show(f"handshake {handshake}  {escape_text(self._session.path)}")
        self.query_one("#about", Static).update(Text("loading...", "dim"))
        self._load(handshake)

    @work(thread=True, exclusive=True)
    def _load(self, handshake: int) -> None:
        try:
            details = self._session.load_handshake(handshake)
        except (CaptureError, OSError) as error:
            self.app.call_from_thread(self._show_error, handshake, str(error))
        else:
            self.app.call_from_thread(self._show, details)

    def _is_requested(self, handshake: int) -> bool:
        """Return whether the user still wants this handshake, and has not moved on while it was loaded."""
        return self.is_attached and self._requested == handshake

    def _show_error(self, handshake: int, problem: str) -> None:
        if self._is_requested(handshake):
            self.query_one("#about", Static).update(Text(escape_text(problem), "bold"))

    def _show(self, details: HandshakeDetails) -> None:
        if not self._is_requested(details.handshake):
            return
        self._details = details
        about = "  ".join(text.render_heading(details.analysis))
        self.query_one("#about", Static).update(Text(about))
        diagnosed = details.analysis.handshakes["diagnosis"][0] is not None
        self.query_one("#about").styles.max_height = _DIAGNOSIS if diagnosed else _HEADING
        self._show_marks()
        self._arrange()
        self.ladder.show(details)

    def current(self) -> MessageDetails | None:
        """Return the message under the cursor."""
        number = self.ladder.current
        return None if self._details is None or number is None else self._details.messages[number]

    def on_list_view_cursor_moved(self, _: ListView.CursorMoved) -> None:
        """Show the message under the cursor."""
        self._show_message()

    def on_list_view_entry_chosen(self, _: ListView.EntryChosen) -> None:
        """Focus the pane of the message."""
        self.query_one(TextPane).focus()

    def _show_message(self) -> None:
        message = self.current()
        if message is None:
            return
        if self._hex:
            self.query_one(TextPane).show(lambda width: render_hex_lines(message, width))
        else:
            self.query_one(TextPane).show(lambda _: render_message(message))

    def action_hex(self) -> None:
        """Switch between bytes and payloads."""
        self._hex = not self._hex
        self._show_message()

    def action_payloads(self) -> None:
        """Show or hide payloads in the ladder."""
        self.ladder.show_payloads(not self.ladder.has_payloads)

    def action_share(self, by: int) -> None:
        """Change the share of the ladder by some per cent."""
        self._share = max(_SHARES[0], min(self._share + by, _SHARES[-1]))
        self._arrange()

    def action_mark(self) -> None:
        """Mark a message, or remove its mark; show the differences if two are marked."""
        message = self.current()
        if message is None:
            return
        already = [marked for marked in self._marked if marked.row["message"] == message.row["message"]]
        if already:
            self._marked.remove(already[0])
        else:
            del self._marked[:-1]
            self._marked.append(message)
        self._show_marks()
        if len(self._marked) == len(_MARKS):
            self.action_differences()

    def _show_marks(self) -> None:
        ids = [message.row["message"] for message in self._marked]
        self.ladder.marks = dict(zip(ids, _MARKS, strict=False))
        self.ladder.refresh()

    def action_differences(self) -> None:
        """Show what differs between the two marked messages."""
        if len(self._marked) < len(_MARKS):
            self.notify("mark two messages with m to see their differences", timeout=4)
            return
        first, second = self._marked
        title = f"{first.label} and {second.label}"
        self.app.push_screen(TextScreen(title, lambda width: compare_messages(first, second, width)))

    def action_save(self) -> None:
        """Ask for a file and save the handshake or some of its messages as a capture."""
        message = self.current()
        if self._details is None or message is None:
            return
        number = self._details.handshake
        choices = [
            SaveChoice(f"handshake {number}", [number]),
            SaveChoice(f"the message {message.label}, frame {message.row['first_frame']}", frames=message.frames),
        ]
        if self._marked:
            frames = [frame for marked in self._marked for frame in marked.frames]
            choices.append(SaveChoice("the marked messages", frames=frames))
        self.app.push_screen(SaveScreen(self._session, choices))

    def action_next(self, by: int) -> None:
        """Show the next (1) or the previous (-1) handshake of the list."""
        self.post_message(self.NextRequested(by))

    def action_back(self) -> None:
        """Return from the message to the ladder, or from the ladder to the list."""
        if self.focused is self.ladder:
            self.app.pop_screen()
        else:
            self.ladder.focus()

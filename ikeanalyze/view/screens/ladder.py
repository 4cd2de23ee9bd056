"""The second screen: the ladder of a handshake, and all that is known of the message under the cursor."""

from typing import ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import Resize
from textual.message import Message as Event
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
#: Cells that a ladder of two and of three hosts needs, and a message beside it.
_LADDER: Final = {False: 55, True: 85}
_MESSAGE: Final = 54
_TALL: Final = 16  # lines that there have to be for what is known of the handshake to stand above its ladder
_SHARES: Final = range(20, 81, 10)  # per cent of the screen that the ladder may have
_MARKS: Final = ("1", "2")


class LadderScreen(Screen[None]):
    """One handshake."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", show=False),
        Binding("n", "next(1)", show=False),
        Binding("N", "next(-1)", show=False),
        Binding("m,space", "mark", show=False),
        Binding("d", "differences", show=False),
        Binding("x,f6", "hex", show=False),
        Binding("p", "words", show=False),
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

    class NextWanted(Event):
        """The handshake so many behind this one is to be opened."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(self, browsed: CaptureSession, marked: list[MessageDetails]) -> None:
        """`marked`: the messages that were marked, in other handshakes too; changed here."""
        super().__init__()
        self._browsed = browsed
        self._marked = marked
        self._opened: HandshakeDetails | None = None
        self._wanted = 0  # id of the handshake that was asked for last
        self._hex = False
        self._share = 50
        self.ladder = LadderView(id="ladder")

    def compose(self) -> ComposeResult:
        """Title, ladder, message, keys."""
        yield TitleBar("")
        yield Static(id="about")
        with Container(id="panes"):
            yield self.ladder
            yield TextPane(id="message")
        yield KeyBar(_KEYS)

    def on_mount(self) -> None:
        """Begin in the ladder."""
        self.ladder.focus()
        self._divide()

    def on_resize(self, _: Resize) -> None:
        """Beside one another, or one below the other."""
        self._divide()

    def _divide(self) -> None:
        three = self._opened is not None and self._opened.analysis.handshakes["aaa_address"][0] is not None
        wide = self.size.width >= _LADDER[three] + _MESSAGE
        self.set_class(wide, "wide")
        self.query_one("#about").display = self.size.height >= _TALL
        styles = self.ladder.styles
        styles.width, styles.height = (f"{self._share}%", "1fr") if wide else ("1fr", f"{self._share}%")
        styles.min_width = _LADDER[three] if wide else 0

    def open(self, handshake: int) -> None:
        """Look into a handshake; it is shown when that is done, and nothing of another one before."""
        self._wanted = handshake
        self._opened = None
        self.ladder.clear()
        self.query_one(TextPane).show(lambda _: ())
        self.query_one(TitleBar).show(f"handshake {handshake:,}  {escape_text(self._browsed.path)}")
        self.query_one("#about", Static).update(Text("looking into it...", "dim"))
        self._look(handshake)

    @work(thread=True, exclusive=True)
    def _look(self, handshake: int) -> None:
        try:
            opened = self._browsed.load_handshake(handshake)
        except (CaptureError, OSError) as error:
            self.app.call_from_thread(self._tell_error, handshake, str(error))
        else:
            self.app.call_from_thread(self._show, opened)

    def _waits_for(self, handshake: int) -> bool:
        """Whether that is still what is to be seen: somebody may have gone on meanwhile."""
        return self.is_attached and self._wanted == handshake

    def _tell_error(self, handshake: int, what: str) -> None:
        if self._waits_for(handshake):
            self.query_one("#about", Static).update(Text(escape_text(what), "bold"))

    def _show(self, opened: HandshakeDetails) -> None:
        if not self._waits_for(opened.handshake):
            return
        self._opened = opened
        about = "  ".join(text.render_heading(opened.analysis))
        self.query_one("#about", Static).update(Text(about))
        self._show_marks()
        self._divide()
        self.ladder.show(opened)

    def current(self) -> MessageDetails | None:
        """The message under the cursor."""
        number = self.ladder.current
        return None if self._opened is None or number is None else self._opened.messages[number]

    def on_rows_moved(self, _: ListView.Moved) -> None:
        """Show the message under the cursor."""
        self._show_message()

    def on_rows_chosen(self, _: ListView.Chosen) -> None:
        """Go over to its payloads."""
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
        """Bytes in place of payloads."""
        self._hex = not self._hex
        self._show_message()

    def action_words(self) -> None:
        """Payloads in the ladder, or not."""
        self.ladder.show_words(not self.ladder.words)

    def action_share(self, by: int) -> None:
        """More or less room for the ladder."""
        share = self._share + by
        self._share = max(_SHARES[0], min(share, _SHARES[-1]))
        self._divide()

    def action_mark(self) -> None:
        """Mark a message, or not any more; with the second one their differences are shown."""
        message = self.current()
        if message is None:
            return
        same = [one for one in self._marked if one.row["message"] == message.row["message"]]
        if same:
            self._marked.remove(same[0])
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
            self.notify("mark two messages with m; their differences are shown then", timeout=4)
            return
        one, other = self._marked
        title = f"{one.label} and {other.label}"
        self.app.push_screen(TextScreen(title, lambda width: compare_messages(one, other, width)))

    def action_save(self) -> None:
        """Save the handshake or some of its messages as a capture."""
        message = self.current()
        if self._opened is None or message is None:
            return
        number = self._opened.handshake
        choices = [
            SaveChoice(f"handshake {number}", [number]),
            SaveChoice(f"the message {message.label}, frame {message.row['first_frame']}", frames=message.frames),
        ]
        if self._marked:
            frames = [frame for one in self._marked for frame in one.frames]
            choices.append(SaveChoice("the marked messages", frames=frames))
        self.app.push_screen(SaveScreen(self._browsed, choices))

    def action_next(self, by: int) -> None:
        """Another handshake, as the list has them."""
        self.post_message(self.NextWanted(by))

    def action_back(self) -> None:
        """From the message to the ladder, from there to the list."""
        if self.focused is self.ladder:
            self.app.pop_screen()
        else:
            self.ladder.focus()

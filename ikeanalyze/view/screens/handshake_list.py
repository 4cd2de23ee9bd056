"""The screen with the list of handshakes, a filter, and details of the handshake under the cursor."""

from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, Static

from ikeanalyze.render.core.values import escape_text, format_count, format_endpoint, format_outcome
from ikeanalyze.view.growing_session import GrowingSession
from ikeanalyze.view.screens.save import SaveChoice, SaveScreen
from ikeanalyze.view.session import CaptureSession
from ikeanalyze.view.text_lines import WRONG
from ikeanalyze.view.widgets.bars import KeyBar, TitleBar
from ikeanalyze.view.widgets.handshake_list import HandshakeList
from ikeanalyze.view.widgets.list_view import ListView

_KEYS = [
    ("Enter", "ladder"), ("/", "filter"), ("?", "help"), ("q", "quit"), ("s", "save"), ("Space", "select"),
    ("< >", "sort"), ("z", "reverse"), ("w", "warnings"),
]  # fmt: skip


class HandshakeListScreen(Screen[None]):
    """The list of handshakes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash,f,f3,f7", "filter", show=False),
        Binding("escape", "clear_filter", show=False),
        Binding("space", "choose", show=False),
        Binding("s,f2", "save", show=False),
        Binding("less_than_sign", "sort(-1)", show=False),
        Binding("greater_than_sign", "sort(1)", show=False),
        Binding("z", "reverse", show=False),
        Binding("w", "app.warnings", show=False),
        Binding("question_mark,h,f1", "app.help", show=False),
        Binding("q,f10", "app.quit", show=False),
    ]
    DEFAULT_CSS = """
    HandshakeListScreen Input { display: none; }
    HandshakeListScreen Input.filtering { display: block; }
    HandshakeListScreen HandshakeList { height: 1fr; }
    HandshakeListScreen #about { height: auto; min-height: 2; max-height: 6; }
    """

    class OpenRequested(Message):
        """The user wants to see the handshake with this id."""

        def __init__(self, handshake: int) -> None:
            super().__init__()
            self.handshake = handshake

    def __init__(self, session: CaptureSession) -> None:
        super().__init__()
        self._session = session
        self.handshake_list = HandshakeList(session.analysis.handshakes, id="handshakes")

    def compose(self) -> ComposeResult:
        """Yield the title, the filter, the list, the details and the keys."""
        yield TitleBar("")
        yield Input(placeholder="filter: text, outcome:failed, bytes>2000, !word", id="filter")
        yield self.handshake_list
        yield Static(id="about")
        yield KeyBar(_KEYS)

    def on_mount(self) -> None:
        """Focus the list."""
        self.handshake_list.focus()
        self._show_status()

    def update_handshakes(self) -> None:
        """Show the handshakes that the session has now."""
        self.handshake_list.extend(self._session.analysis.handshakes)
        self._show_status()

    def on_list_view_cursor_moved(self, _: ListView.CursorMoved) -> None:
        """Show details of the handshake under the cursor."""
        self._show_status()

    def on_list_view_entry_chosen(self, _: ListView.EntryChosen) -> None:
        """Open the handshake under the cursor."""
        if self.handshake_list.current is not None:
            self.post_message(self.OpenRequested(self.handshake_list.current))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the user types."""
        self.handshake_list.set_filter(event.value)

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """Return to the list and keep the filter."""
        self.handshake_list.focus()
        self._show_input(visible=bool(self.handshake_list.filter))

    def on_key(self, event: Any) -> None:
        """Move from the filter line to the list with the down arrow."""
        if event.key == "down" and self.focused is self.query_one(Input):
            self.handshake_list.focus()
            event.stop()

    def action_filter(self) -> None:
        """Edit the filter."""
        self._show_input(visible=True)
        self.query_one(Input).focus()

    def action_clear_filter(self) -> None:
        """Remove the filter."""
        self.query_one(Input).value = ""
        self._show_input(visible=False)
        self.handshake_list.focus()

    def _show_input(self, *, visible: bool) -> None:
        self.query_one(Input).set_class(visible, "filtering")

    def action_choose(self) -> None:
        """Select the handshake under the cursor to save it, or clear its selection."""
        self.handshake_list.choose()
        self._show_status()

    def action_sort(self, by: int) -> None:
        """Sort by the next (1) or the previous (-1) column."""
        self.handshake_list.sort(self.handshake_list.sorted_by + by, falling=self.handshake_list.falling)

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.handshake_list.sort(self.handshake_list.sorted_by, falling=not self.handshake_list.falling)

    def action_save(self) -> None:
        """Ask for a file and save handshakes as a capture."""
        handshakes = self.handshake_list
        if handshakes.current is None:
            return
        choices = [SaveChoice(f"handshake {handshakes.current}", [handshakes.current])]
        if len(handshakes.shown) > 1:
            choices.append(SaveChoice(f"all {len(handshakes.shown):,} shown handshakes", handshakes.shown))
        if handshakes.chosen:
            chosen = sorted(handshakes.chosen)
            choices.insert(0, SaveChoice(f"selected: {format_count(len(chosen), 'handshake')}", chosen))
        self.app.push_screen(SaveScreen(self._session, choices))

    def _show_status(self) -> None:
        handshakes = self.handshake_list
        total, shown = handshakes.table.height, handshakes.entries()
        rekeyed = int(handshakes.table["rekeyed"].sum())
        count = format_count(total - rekeyed, "handshake")
        if rekeyed:
            count += f" and {format_count(rekeyed, 'rekeyed IKE SA')}"
        if shown != total:
            count = f"{shown:,} of {count}"
        chosen = f", {len(handshakes.chosen):,} selected" if handshakes.chosen else ""
        state = ""
        if isinstance(self._session, GrowingSession):
            state = f"  ended: {self._session.problem}" if self._session.problem else "  following"
        self.query_one(TitleBar).show(f"{count}{chosen}  {escape_text(self._session.path)}{escape_text(state)}")
        about = self.query_one("#about", Static)
        if shown:
            about.update(_describe_handshake(handshakes.row(handshakes.cursor)))
        elif total:
            problem = handshakes.problem or "no handshake matches the filter"
            about.update(Text(f"{escape_text(problem)}; Esc removes it"))
        elif isinstance(self._session, GrowingSession):
            about.update(Text("no handshake has ended yet"))
        else:
            about.update(Text("no handshake found. If IKE uses another UDP or TCP port, name it with --port"))


def _describe_handshake(row: dict[str, Any]) -> Text:
    """Return the diagnosis and the values without a column in the list, in lines that a narrow screen wraps."""
    outcome = format_outcome(row["outcome"], row["reason"], row["child_error"])
    first = [" ".join([row["protocol"], *filter(None, (row["spii"], row["spir"]))]), outcome]
    if row["auth"]:
        first.append(f"{escape_text(row['auth'])}{' (guessed)' if row['auth_guessed'] else ''}")
    if row["nat"] not in (None, "none"):
        first.append(f"NAT: {row['nat']}")
    if row["tunnel"]:
        first.append(f"tunnel {escape_text(row['tunnel'])}")
    hosts = [
        f"initiator {format_endpoint(row['initiator'], row['initiator_port'])}",
        f"responder {format_endpoint(row['responder'], row['responder_port'])}",
    ]
    if row["aaa"]:
        again = row["aaa_retransmissions"]
        hosts.append(f"AAA {escape_text(row['aaa'])}" + (f", {format_count(again, 'retransmission')}" if again else ""))
    about = Text("; ".join(first) + "\n" + "; ".join(hosts))
    if row["problem"]:
        return Text(f"{escape_text(row['problem'])} ({row['diagnosis']})\n", WRONG).append_text(about)
    return about

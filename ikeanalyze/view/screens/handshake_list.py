"""The first screen: all handshakes, a filter, and what is known of the one under the cursor."""

from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, Static

from ikeanalyze.render.core.values import escape_text, format_count, format_endpoint, format_outcome
from ikeanalyze.view.screens.save import SaveChoice, SaveScreen
from ikeanalyze.view.session import CaptureSession
from ikeanalyze.view.widgets.bars import KeyBar, TitleBar
from ikeanalyze.view.widgets.handshake_list import HandshakeList
from ikeanalyze.view.widgets.list_view import ListView

_KEYS = [
    ("Enter", "ladder"), ("/", "filter"), ("?", "help"), ("q", "quit"), ("s", "save"), ("Space", "choose"),
    ("< >", "sort"), ("z", "turn"), ("w", "warnings"),
]  # fmt: skip


class HandshakeListScreen(Screen[None]):
    """The list of handshakes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash,f,f3,f7", "filter", show=False),
        Binding("escape", "all", show=False),
        Binding("space", "choose", show=False),
        Binding("s,f2", "save", show=False),
        Binding("less_than_sign", "sort(-1)", show=False),
        Binding("greater_than_sign", "sort(1)", show=False),
        Binding("z", "turn", show=False),
        Binding("w", "app.warnings", show=False),
        Binding("question_mark,h,f1", "app.help", show=False),
        Binding("q,f10", "app.quit", show=False),
    ]
    DEFAULT_CSS = """
    ListScreen Input { display: none; }
    ListScreen Input.filtering { display: block; }
    ListScreen Listing { height: 1fr; }
    ListScreen #about { height: auto; min-height: 2; max-height: 6; }
    """

    class Wanted(Message):
        """The handshake of this id is to be opened."""

        def __init__(self, handshake: int) -> None:
            super().__init__()
            self.handshake = handshake

    def __init__(self, browsed: CaptureSession) -> None:
        super().__init__()
        self._browsed = browsed
        self.listing = HandshakeList(browsed.analysis.handshakes, id="listing")

    def compose(self) -> ComposeResult:
        """Title, filter, list, what is known of one, keys."""
        yield TitleBar("")
        yield Input(placeholder="filter: text, outcome:failed, bytes>2000, !word", id="filter")
        yield self.listing
        yield Static(id="about")
        yield KeyBar(_KEYS)

    def on_mount(self) -> None:
        """Begin in the list."""
        self.listing.focus()
        self._tell()

    def on_rows_moved(self, _: ListView.Moved) -> None:
        """Tell of the handshake under the cursor."""
        self._tell()

    def on_rows_chosen(self, _: ListView.Chosen) -> None:
        """Open it."""
        if self.listing.current is not None:
            self.post_message(self.Wanted(self.listing.current))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while somebody types."""
        self.listing.set_filter(event.value)

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """Go back to the list, and keep the filter."""
        self.listing.focus()
        self._show_input(bool(self.listing.filter))

    def on_key(self, event: Any) -> None:
        """In the filter line the arrow downwards leads into the list."""
        if event.key == "down" and self.focused is self.query_one(Input):
            self.listing.focus()
            event.stop()

    def action_filter(self) -> None:
        """Type a filter."""
        self._show_input(True)
        self.query_one(Input).focus()

    def action_all(self) -> None:
        """Show all again."""
        self.query_one(Input).value = ""
        self._show_input(False)
        self.listing.focus()

    def _show_input(self, there: bool) -> None:
        self.query_one(Input).set_class(there, "filtering")

    def action_choose(self) -> None:
        """Choose one to be saved."""
        self.listing.choose()
        self._tell()

    def action_sort(self, by: int) -> None:
        """Sort by the column beside."""
        self.listing.sort(self.listing.sorted_by + by, falling=self.listing.falling)

    def action_turn(self) -> None:
        """Turn the order round."""
        self.listing.sort(self.listing.sorted_by, falling=not self.listing.falling)

    def action_save(self) -> None:
        """Save some as a capture."""
        listing = self.listing
        if listing.current is None:
            return
        choices = [SaveChoice(f"handshake {listing.current}", [listing.current])]
        if len(listing.shown) > 1:
            choices.append(SaveChoice(f"all {len(listing.shown):,} that are shown", listing.shown))
        if listing.chosen:
            chosen = sorted(listing.chosen)
            choices.insert(0, SaveChoice(f"the chosen: {format_count(len(chosen), 'handshake')}", chosen))
        self.app.push_screen(SaveScreen(self._browsed, choices))

    def _tell(self) -> None:
        listing = self.listing
        total, shown = listing.table.height, listing.entries()
        some = (
            format_count(total, "handshake") if shown == total else f"{shown:,} of {format_count(total, 'handshake')}"
        )
        chosen = f", {len(listing.chosen):,} chosen" if listing.chosen else ""
        self.query_one(TitleBar).show(f"{some}{chosen}  {escape_text(self._browsed.path)}")
        about = self.query_one("#about", Static)
        if shown:
            about.update(_about(listing.row(listing.cursor)))
        elif total:
            about.update(Text("no handshake fits the filter; Esc shows all"))
        else:
            about.update(Text("no handshake in it. If its IKE is on another UDP port, name that with --port"))


def _about(row: dict[str, Any]) -> Text:
    """What the list has no column for, in two lines, which a narrow screen folds."""
    outcome = format_outcome(row["outcome"], row["reason"], row["child_error"])
    first = [" ".join([row["protocol"], *filter(None, (row["spii"], row["spir"]))]), outcome]
    if row["auth"]:
        first.append(f"{escape_text(row['auth'])}{' (a guess)' if row['auth_guessed'] else ''}")
    if row["nat"] not in (None, "none"):
        first.append(f"NAT: {row['nat']}")
    hosts = [
        f"initiator {format_endpoint(row['initiator'], row['initiator_port'])}",
        f"responder {format_endpoint(row['responder'], row['responder_port'])}",
    ]
    if row["aaa"]:
        again = row["aaa_retransmissions"]
        hosts.append(f"AAA {escape_text(row['aaa'])}" + (f", {format_count(again, 'retransmission')}" if again else ""))
    return Text("; ".join(first) + "\n" + "; ".join(hosts))

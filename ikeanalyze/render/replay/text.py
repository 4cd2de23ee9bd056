"""The sections of a replay in text formats: messages sent, responses, and cost."""

from collections import Counter
from collections.abc import Iterator

from ikeanalyze.render.core.section import Columns, KeyValueSection, Section, TableSection, tabulate
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import (
    UNKNOWN,
    escape_text,
    format_count,
    format_integer,
    format_ms,
    format_ratio,
    join_items,
)
from ikeanalyze.replay.initiator.interface import ExchangeStats, InitiatorResult
from ikeanalyze.replay.session.result import (
    ExchangeCost,
    FuzzReport,
    LivenessCheck,
    ReplayComparison,
    ReplayReport,
    ReplayRun,
    ReportFigures,
)
from ikeanalyze.replay.session.verbatim import ReplayedMessage
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import ExchangeType


def render_sections(replayed: ReplayReport, *, every: bool) -> Iterator[Section]:
    """The settings, the runs or the mutated messages, and the comparison with the recording."""
    yield _render_head(replayed)
    if replayed.mutated is not None:
        yield from _render_fuzzing(replayed.mutated)
    elif len(replayed.runs) == 1:
        yield from _render_run(replayed.runs[0])
    elif replayed.runs:
        yield from _render_runs(replayed, every=every)
    for compared in replayed.compared if every else replayed.compared[:1]:
        yield _render_comparison_table(compared)


def _render_head(replayed: ReplayReport) -> KeyValueSection:
    local, counts = replayed.local, replayed.counts
    ways = {"layer 3": "scapy on layer 3", "UDP": "ordinary UDP sockets", "TCP": "TCP"}
    ports = f"port {local.port}" if replayed.way == "TCP" else f"ports {local.port} and {local.nat_port}"
    rows = [
        ("target", escape_text(replayed.target)),
        ("from", f"{escape_text(local.address)} {ports}, by {ways[replayed.way]}"),
        ("mode", replayed.mode if replayed.mutated is None else "mutated first messages"),
    ]
    if replayed.policy is not None:
        rows.append(("policy", escape_text(replayed.policy)))
    if replayed.faults:
        rows.append(("faults", escape_text(", ".join(replayed.faults))))
    for name, number in (("seed", replayed.seed), ("handshake", replayed.handshake)):
        if number is not None:
            rows.append((name, str(number)))
    rows += [("note", escape_text(note)) for note in replayed.notes]
    if counts.stray:
        rows.append(
            ("strays", f"{format_count(counts.stray, 'datagram')} of others, the first from {counts.stray_from}")
        )
    if counts.not_ike:
        rows.append(("not IKE", format_count(counts.not_ike, "datagram")))
    if counts.refused:
        rows.append(("errors", f"{format_count(counts.refused, 'time')}: {counts.refusal}"))
    if replayed.recording is not None:
        rows.append(("capture", join_items([replayed.recording, replayed.keys])))
    return KeyValueSection(escape_text(replayed.capture), rows, level=1)


def _render_run(run: ReplayRun) -> Iterator[Section]:
    traffic = run.traffic
    rows = [
        ("outcome", escape_text(describe_outcome(run))),
        ("SPIi", UNKNOWN if run.spi_i is None else run.spi_i.hex()),
        ("sent", f"{format_count(traffic.sent, 'datagram')}, {format_integer(traffic.sent_bytes)} bytes"),
        ("received", f"{format_count(traffic.received, 'datagram')}, {format_integer(traffic.received_bytes)} bytes"),
        ("blow-up", format_ratio(traffic.blowup)),
    ]
    if run.met:
        rows.append(("faults met", _format_counter(run.met)))
    if run.result is not None:
        rows[1:2] = _list_result_rows(run.result, get_setup_ns(run))
    if run.verbatim is not None:
        chosen = [sent.answers[0].answer.proposal for sent in run.verbatim.sent if sent.answers]
        rows[2:2] = [("proposal", escape_text(proposal)) for proposal in chosen if proposal]
        others = (("unsolicited", run.verbatim.unasked), ("not IKEv2", run.verbatim.garbage))
        if run.verbatim.unasked or run.verbatim.garbage:
            rows.append(("ignored", ", ".join(f"{value:,} {name}" for name, value in others if value)))
    yield KeyValueSection("Run", rows)
    if run.result is not None:
        yield _render_exchange_table(run.result, run.reported)
    if run.verbatim is not None:
        yield _render_answer_table(run.verbatim.sent)
        if differing := list(_list_differences(run.verbatim.sent)):
            yield KeyValueSection("Differs from the recording", differing)


def _format_fault_counts(met: Counter[str]) -> str:
    return ", ".join(f"{value:,} {name}" for name, value in sorted(met.items()) if value)


def _list_result_rows(result: InitiatorResult, setup: int | None) -> list[tuple[str, str]]:
    local, peer = result.authentication
    counts = result.ignored
    ignored = {
        "repeated": counts.repeated,
        "of another IKE SA or port": counts.foreign,
        "garbage": counts.garbage,
        "not encrypted": counts.unprotected,
        "unexpected": counts.unexpected,
    }
    rows = [
        ("SPIi, SPIr", f"{result.spi_i.hex()}, {result.spi_r.hex()}"),
        ("set-up", UNKNOWN if setup is None else f"{format_ms(setup)} ms"),
        ("proposal", escape_text(result.chosen or UNKNOWN)),
        ("authentication", escape_text(f"initiator {local or UNKNOWN}, responder {peer or UNKNOWN}")),
    ]
    if result.deleted is False:
        rows.append(("delete", "not answered: the target may still have the IKE SA"))
    if any(ignored.values()):
        rows.append(("ignored", ", ".join(f"{value:,} {name}" for name, value in ignored.items() if value)))
    return rows


def _render_exchange_table(result: InitiatorResult, reported: ReportFigures | None) -> TableSection:
    columns: Columns[ExchangeStats] = [
        (TableColumn("exchange"), lambda exchange: get_name(ExchangeType, exchange.exchange_type)),
        (TableColumn("ID", right=True), lambda exchange: str(exchange.message_id)),
        (TableColumn("sent", right=True), lambda exchange: exchange.transmissions),
        (TableColumn("bytes", right=True), lambda exchange: exchange.bytes_sent),
        (TableColumn("received", right=True), lambda exchange: exchange.datagrams_received),
        (TableColumn("bytes", right=True), lambda exchange: exchange.bytes_received),
        (TableColumn("RTT, ms", right=True), lambda exchange: format_ms(get_round_trip_ns(exchange, reported))),
        (TableColumn("answer"), lambda exchange: exchange.answer or None),
    ]
    notes = ["sent: transmissions; received: datagrams that no fault dropped; bytes of IKE messages"]
    return tabulate("Exchanges", result.exchanges, columns, notes=notes)


def _render_answer_table(sent: tuple[ReplayedMessage, ...]) -> TableSection:
    columns: Columns[ReplayedMessage] = [
        (TableColumn("message"), lambda message: get_name(ExchangeType, message.exchange_type)),
        (TableColumn("ID", right=True), lambda message: str(message.message_id)),
        (TableColumn("sent", right=True), lambda message: message.transmissions),
        (TableColumn("new", narrow=12), _describe_changes),
        (TableColumn("answer"), _get_response_kind),
        (TableColumn("recorded"), _get_recorded_kind),
        (TableColumn("RTT, ms", right=True), lambda m: format_ms(m.answers[0].round_trip_ns) if m.answers else None),
    ]
    notes = ["sent: transmissions; new: differs from the recording; RTT: of the first answer"]
    return tabulate("Answers", sent, columns, notes=notes)


def _describe_changes(message: ReplayedMessage) -> str:
    names = ("NAT hashes" if name.startswith("NAT_DETECTION") else name for name in message.changed)
    return ", ".join(dict.fromkeys(names)) or "nothing"


def _get_response_kind(message: ReplayedMessage) -> str:
    return message.answers[0].answer.kind if message.answers else "none"


def _get_recorded_kind(message: ReplayedMessage) -> str:
    return message.recorded.kind if message.recorded else "none"


def _list_differences(sent: tuple[ReplayedMessage, ...]) -> Iterator[tuple[str, str]]:
    for message in sent:
        if message.answers and message.answers[0].differs:
            name = f"{get_name(ExchangeType, message.exchange_type)} {message.message_id}"
            yield name, escape_text("; ".join(message.answers[0].differs))


def _render_runs(replayed: ReplayReport, *, every: bool) -> Iterator[Section]:
    columns: Columns[ReplayRun] = [
        (TableColumn("run", right=True), lambda run: str(run.number)),
        (TableColumn("set-up, ms", right=True), lambda run: format_ms(get_setup_ns(run))),
        (TableColumn("sent", right=True), lambda run: run.traffic.sent),
        (TableColumn("received", right=True), lambda run: run.traffic.received),
        (TableColumn("bytes", right=True), lambda run: run.traffic.sent_bytes + run.traffic.received_bytes),
        (TableColumn("blow-up", right=True), lambda run: format_ratio(run.traffic.blowup)),
        (TableColumn("outcome", narrow=12), describe_outcome),
    ]
    runs = replayed.runs
    notes = ["sent, received: datagrams; bytes of IP packets, including those that a fault dropped"]
    yield tabulate("Runs", runs, columns, every=every, notes=notes)
    total = sum(run.traffic.sent_bytes + run.traffic.received_bytes for run in runs)
    outcomes = _format_counter(Counter(describe_outcome(run) for run in runs))
    facts = [("runs", f"{len(runs):,}: {outcomes}"), ("bytes", format_integer(total))]
    blowups = [run.traffic.blowup for run in runs if run.traffic.blowup is not None]
    if any(blowups):
        facts.append(("blow-up", f"{format_ratio(sum(blowups) / len(blowups))} (mean of the runs)"))
    if replayed.met:
        facts.append(("faults met", _format_counter(replayed.met)))
    yield KeyValueSection("Together", facts)
    if replayed.mode == "verbatim":
        yield _render_kind_table(runs)


def _format_counter(names: Counter[str]) -> str:
    """Names, which may contain numbers, with their counts, the most frequent first."""
    return escape_text(", ".join(f"{name} ({value:,})" for name, value in names.most_common()))


def _render_kind_table(runs: tuple[ReplayRun, ...]) -> TableSection:
    """The responses of all runs by message and kind."""
    counts = Counter(
        (
            get_name(ExchangeType, sent.exchange_type),
            sent.message_id,
            _get_response_kind(sent),
            _get_recorded_kind(sent),
        )
        for run in runs
        for sent in (run.verbatim.sent if run.verbatim else ())
    )
    columns: Columns[tuple[tuple[str, int, str, str], int]] = [
        (TableColumn("message"), lambda row: row[0][0]),
        (TableColumn("ID", right=True), lambda row: str(row[0][1])),
        (TableColumn("answer"), lambda row: row[0][2]),
        (TableColumn("recorded"), lambda row: row[0][3]),
        (TableColumn("runs", right=True), lambda row: row[1]),
    ]
    return tabulate("Answers", sorted(counts.items()), columns)


def _render_fuzzing(mutated: FuzzReport) -> Iterator[Section]:
    rows = [("up before", _check(mutated.before))]
    barrage = mutated.barrage
    if barrage is not None:
        rows.append(("mutants", format_integer(barrage.sent)))
        rows.append(("answers", _format_fault_counts(barrage.answered) or "none"))
        if barrage.garbage:
            rows.append(("not IKEv2", format_integer(barrage.garbage)))
    if mutated.broken_off:
        rows.append(("broken off", escape_text(mutated.broken_off)))
    if mutated.after is not None:
        rows.append(("up after", _check(mutated.after)))
    yield KeyValueSection("Mutated messages", rows)
    if barrage is not None:
        columns: Columns[tuple[str, int]] = [
            (TableColumn("error"), lambda row: row[0]),
            (TableColumn("mutants", right=True), lambda row: row[1]),
        ]
        yield tabulate("Errors in them", barrage.errors.most_common(), columns)


def _check(check: LivenessCheck) -> str:
    tries = "" if check.attempts == 1 else f" after {format_count(check.attempts, 'request')} in {check.seconds:.1f} s"
    if check.answer is None:
        return f"no answer{tries}"
    return f"yes: {escape_text(check.answer.answer.kind)}{tries}"


def _render_comparison_table(compared: ReplayComparison) -> TableSection:
    columns = (TableColumn("exchange"), *number_columns("ID", "messages", "live", "bytes", "live", "RTT, ms", "live"))

    def cells(name: str, ident: str, recorded: ExchangeCost | None, live: ExchangeCost | None) -> tuple[str, ...]:
        sides = (recorded, live)
        return (
            name,
            ident,
            *(UNKNOWN if side is None else format_integer(side.messages) for side in sides),
            *(UNKNOWN if side is None else format_integer(side.bytes) for side in sides),
            *(UNKNOWN if side is None else format_ms(side.rtt_ns) for side in sides),
        )

    rows = [cells(row.exchange, str(row.message_id), row.recorded, row.live) for row in compared.rows]
    rows.append(cells("total", "", *compared.together))
    notes = [
        f"{name}: {escape_text(recorded or UNKNOWN)} recorded, {escape_text(live or UNKNOWN)} live"
        for name, (recorded, live) in (
            ("outcome", compared.outcomes),
            ("proposal", compared.proposals),
            ("blow-up", (format_ratio(compared.blowups[0]), format_ratio(compared.blowups[1]))),
        )
    ]
    notes.append("bytes of IKE messages; the time in the last line is that of the set-up")
    return TableSection(f"Recorded and live (run {compared.run})", columns, rows, sums=True, notes=notes)


def describe_outcome(run: ReplayRun) -> str:
    """Return the outcome of a run in a few words."""
    if run.broken_off:
        return f"broken off: {run.broken_off}"
    if run.result is not None:
        if run.result.established:
            child = run.result.child_error
            return f"established, no CHILD_SA: {child}" if child else "established"
        return f"failed: {run.result.reason}"
    requests = [sent for sent in run.verbatim.sent if not sent.response] if run.verbatim else []
    answered = sum(bool(sent.answers) for sent in requests)
    return f"{answered:,} of {format_count(len(requests), 'request')} answered"


def get_setup_ns(run: ReplayRun) -> int | None:
    """Return the set-up time, from our own capture if possible; None if no IKE SA was established."""
    if run.result is None or not run.result.established:
        return None
    if run.reported is not None and run.reported.setup_ns is not None:
        return run.reported.setup_ns
    return run.result.setup_ns


def get_round_trip_ns(exchange: ExchangeStats, reported: ReportFigures | None) -> int | None:
    """Return the round-trip time of an exchange, from our own capture if possible."""
    key = get_name(ExchangeType, exchange.exchange_type), exchange.message_id, exchange.attempt
    trip = reported.round_trips.get(key) if reported else None
    return exchange.round_trip_ns if trip is None else trip

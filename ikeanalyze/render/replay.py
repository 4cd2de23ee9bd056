"""A replay in a terminal: what was sent, what was answered, what it cost."""

from collections import Counter
from collections.abc import Iterator

from ikeanalyze.render.replay_words import outcome, round_trip_ns, setup_ns
from ikeanalyze.render.section import FEW, Facts, Section, Table
from ikeanalyze.render.table import Column, number_columns
from ikeanalyze.render.values import UNKNOWN, clean, count, listed, ms, number, ratio
from ikeanalyze.replay.replayed import Check, Compared, Mutated, Replayed, Reported, Run, Side
from ikeanalyze.replay.steps import Result
from ikeanalyze.replay.verbatim import Sent
from ikeanalyze.wire.registries import name_of
from ikeanalyze.wire.registries.ikev2 import ExchangeType


def sections(replayed: Replayed, *, every: bool) -> Iterator[Section]:
    """What was sent, what was answered, and what it cost."""
    yield _head(replayed)
    if replayed.mutated is not None:
        yield from _mutated(replayed.mutated)
    elif len(replayed.runs) == 1:
        yield from _one(replayed.runs[0])
    elif replayed.runs:
        yield from _many(replayed, every=every)
    for compared in replayed.compared if every else replayed.compared[:1]:
        yield _compared(compared)


def _head(replayed: Replayed) -> Facts:
    local, counts = replayed.local, replayed.counts
    rows = [
        ("target", clean(replayed.target)),
        ("from", f"{clean(local.address)} ports {local.port} and {local.nat_port}, by {_way(replayed)}"),
        ("mode", replayed.mode if replayed.mutated is None else "mutated first messages"),
    ]
    if replayed.policy is not None:
        rows.append(("policy", clean(replayed.policy)))
    if replayed.faults:
        rows.append(("faults", clean(", ".join(replayed.faults))))
    if replayed.seed is not None:
        rows.append(("seed", str(replayed.seed)))
    if replayed.handshake is not None:
        rows.append(("handshake", str(replayed.handshake)))
    rows += [("note", clean(note)) for note in replayed.notes]
    if counts.stray:
        rows.append(("strays", f"{count(counts.stray, 'datagram')} of others, the first from {counts.stray_from}"))
    if counts.not_ike:
        rows.append(("not IKE", count(counts.not_ike, "datagram")))
    if counts.refused:
        rows.append(("errors", f"{count(counts.refused, 'time')}: {counts.refusal}"))
    if replayed.recording is not None:
        rows.append(("capture", listed([replayed.recording, replayed.keys])))
    return Facts(clean(replayed.capture), rows, level=1)


def _way(replayed: Replayed) -> str:
    return "scapy on layer 3" if replayed.way == "layer 3" else "ordinary UDP sockets"


def _one(run: Run) -> Iterator[Section]:
    traffic = run.traffic
    rows = [
        ("outcome", clean(outcome(run))),
        ("SPIi", UNKNOWN if run.spi_i is None else run.spi_i.hex()),
        ("sent", f"{count(traffic.sent, 'datagram')}, {number(traffic.sent_bytes)} bytes"),
        ("received", f"{count(traffic.received, 'datagram')}, {number(traffic.received_bytes)} bytes"),
        ("blow-up", ratio(traffic.blowup)),
    ]
    if run.met:
        rows.append(("faults met", _numbered(run.met)))
    if run.result is not None:
        rows[1:2] = _result(run.result, setup_ns(run))
    if run.verbatim is not None:
        chosen = [sent.answers[0].answer.proposal for sent in run.verbatim.sent if sent.answers]
        rows[2:2] = [("proposal", clean(one)) for one in chosen if one]
    if run.verbatim is not None and (run.verbatim.unasked or run.verbatim.garbage):
        others = (("answer to nothing", run.verbatim.unasked), ("no IKEv2", run.verbatim.garbage))
        rows.append(("besides", ", ".join(f"{value:,} {name}" for name, value in others if value)))
    yield Facts("Run", rows)
    if run.result is not None:
        yield _exchanges(run.result, run.reported)
    if run.verbatim is not None:
        yield _answers(run.verbatim.sent)
        if differing := list(_differing(run.verbatim.sent)):
            yield Facts("Differs from the recording", differing)


def _met(met: Counter[str]) -> str:
    return ", ".join(f"{value:,} {name}" for name, value in sorted(met.items()) if value)


def _result(result: Result, setup: int | None) -> list[tuple[str, str]]:
    own, peer = result.authentication
    ignored = {
        "repeated": result.ignored.repeated,
        "of another IKE SA or port": result.ignored.foreign,
        "garbage": result.ignored.garbage,
        "not encrypted": result.ignored.unprotected,
        "unexpected": result.ignored.unexpected,
    }
    rows = [
        ("SPIi, SPIr", f"{result.spi_i.hex()}, {result.spi_r.hex()}"),
        ("set-up", f"{ms(setup)} ms"),
        ("proposal", clean(result.chosen or UNKNOWN)),
        ("authentication", clean(f"initiator {own or UNKNOWN}, responder {peer or UNKNOWN}")),
    ]
    if result.deleted is False:
        rows.append(("delete", "not answered: the IKE SA may stand at the target"))
    if any(ignored.values()):
        rows.append(("ignored", ", ".join(f"{value:,} {name}" for name, value in ignored.items() if value)))
    return rows


def _exchanges(result: Result, reported: Reported | None) -> Table:
    columns = (
        Column("exchange"),
        *number_columns("ID", "sent", "bytes", "received", "bytes", "RTT, ms"),
        Column("answer"),
    )
    rows = [
        (
            name_of(ExchangeType, one.exchange_type),
            str(one.message_id),
            number(one.transmissions),
            number(one.bytes_sent),
            number(one.datagrams_received),
            number(one.bytes_received),
            ms(round_trip_ns(one, reported)),
            clean(one.answer or UNKNOWN),
        )
        for one in result.exchanges
    ]
    notes = ["sent: transmissions; received: datagrams that no fault dropped; bytes of IKE messages"]
    return Table("Exchanges", columns, rows, notes=notes)


def _answers(sent: tuple[Sent, ...]) -> Table:
    columns = (
        Column("message"),
        *number_columns("ID", "sent"),
        Column("new", narrow=12),
        Column("answer"),
        Column("recorded"),
        Column("RTT, ms", right=True),
    )
    rows = []
    for one in sent:
        arrived = one.answers[0] if one.answers else None
        rows.append(
            (
                name_of(ExchangeType, one.exchange_type),
                str(one.message_id),
                number(one.transmissions),
                ", ".join(dict.fromkeys(_short(name) for name in one.changed)) or "nothing",
                "none" if arrived is None else clean(arrived.answer.kind),
                "none" if one.recorded is None else clean(one.recorded.kind),
                ms(arrived.round_trip_ns) if arrived else UNKNOWN,
            )
        )
    return Table(
        "Answers", columns, rows, notes=["sent: transmissions; new: what is not as recorded; RTT: of the first answer"]
    )


def _short(name: str) -> str:
    return "NAT hashes" if name.startswith("NAT_DETECTION") else name


def _differing(sent: tuple[Sent, ...]) -> Iterator[tuple[str, str]]:
    for one in sent:
        if one.answers and one.answers[0].differs:
            name = f"{name_of(ExchangeType, one.exchange_type)} {one.message_id}"
            yield name, clean("; ".join(one.answers[0].differs))


def _many(replayed: Replayed, *, every: bool) -> Iterator[Section]:
    columns = (
        *number_columns("run", "set-up, ms", "sent", "received", "bytes", "blow-up"),
        Column("outcome", narrow=12),
    )
    runs = replayed.runs
    shown = runs if every else runs[:FEW]
    rows = [
        (
            str(run.number),
            ms(setup_ns(run)),
            number(run.traffic.sent),
            number(run.traffic.received),
            number(run.traffic.sent_bytes + run.traffic.received_bytes),
            ratio(run.traffic.blowup),
            clean(outcome(run)),
        )
        for run in shown
    ]
    notes = ["sent, received: datagrams; bytes of IP packets, what a fault took away included"]
    yield Table("Runs", columns, rows, more=len(runs) - len(shown), notes=notes)
    total = sum(run.traffic.sent_bytes + run.traffic.received_bytes for run in runs)
    facts = [("runs", _outcomes(runs)), ("bytes", number(total))]
    if blowup := _mean_blowup(runs):
        facts.append(("blow-up", f"{ratio(blowup)} (mean of the runs)"))
    if replayed.met:
        facts.append(("faults met", _numbered(replayed.met)))
    yield Facts("Together", facts)
    if replayed.mode == "verbatim":
        yield _kinds(runs)


def _outcomes(runs: tuple[Run, ...]) -> str:
    return f"{len(runs):,}: {_numbered(Counter(outcome(run) for run in runs))}"


def _numbered(names: Counter[str]) -> str:
    """Names that have numbers in them, each with how often it was, the most frequent first."""
    return clean(", ".join(f"{name} ({value:,})" for name, value in names.most_common()))


def _mean_blowup(runs: tuple[Run, ...]) -> float | None:
    known = [run.traffic.blowup for run in runs if run.traffic.blowup is not None]
    return sum(known) / len(known) if known else None


def _kinds(runs: tuple[Run, ...]) -> Table:
    """The answers of all runs by message and kind."""
    found: Counter[tuple[str, int, str, str]] = Counter()
    for run in runs:
        for sent in run.verbatim.sent if run.verbatim else ():
            kind = sent.answers[0].answer.kind if sent.answers else "none"
            recorded = sent.recorded.kind if sent.recorded else "none"
            found[name_of(ExchangeType, sent.exchange_type), sent.message_id, kind, recorded] += 1
    columns = (
        Column("message"),
        Column("ID", right=True),
        Column("answer"),
        Column("recorded"),
        Column("runs", right=True),
    )
    rows = [
        (name, str(ident), clean(kind), clean(recorded), number(value))
        for (name, ident, kind, recorded), value in sorted(found.items())
    ]
    return Table("Answers", columns, rows)


def _mutated(mutated: Mutated) -> Iterator[Section]:
    rows = [("up before", _check(mutated.before))]
    barrage = mutated.barrage
    if barrage is not None:
        rows.append(("mutants", number(barrage.sent)))
        rows.append(("answers", _met(barrage.answered) or "none"))
        if barrage.garbage:
            rows.append(("no IKEv2", number(barrage.garbage)))
    if mutated.broken_off:
        rows.append(("broken off", clean(mutated.broken_off)))
    if mutated.after is not None:
        rows.append(("up after", _check(mutated.after)))
    yield Facts("Mutated messages", rows)
    if barrage is not None:
        errors = [(clean(name), number(value)) for name, value in barrage.errors.most_common()]
        yield Table("Errors in them", (Column("error"), Column("mutants", right=True)), errors)


def _check(check: Check) -> str:
    tries = "" if check.attempts == 1 else f" after {count(check.attempts, 'request')} in {check.seconds:.1f} s"
    if check.answer is None:
        return f"no answer{tries}"
    return f"yes: {clean(check.answer.answer.kind)}{tries}"


def _compared(compared: Compared) -> Table:
    columns = (Column("exchange"), *number_columns("ID", "messages", "live", "bytes", "live", "RTT, ms", "live"))

    def cells(name: str, ident: str, recorded: Side | None, live: Side | None) -> tuple[str, ...]:
        sides = (recorded, live)
        return (
            name,
            ident,
            *(UNKNOWN if side is None else number(side.messages) for side in sides),
            *(UNKNOWN if side is None else number(side.bytes) for side in sides),
            *(UNKNOWN if side is None else ms(side.rtt_ns) for side in sides),
        )

    rows = [cells(row.exchange, str(row.message_id), row.recorded, row.live) for row in compared.rows]
    rows.append(cells("total", "", *compared.together))
    notes = [
        f"{name}: {clean(recorded or UNKNOWN)} recorded, {clean(live or UNKNOWN)} live"
        for name, (recorded, live) in (
            ("outcome", compared.outcomes),
            ("proposal", compared.proposals),
            ("blow-up", (ratio(compared.blowups[0]), ratio(compared.blowups[1]))),
        )
    ]
    notes.append("bytes of IKE messages; the last line's time is that of the whole set-up")
    return Table(f"Recorded and live (run {compared.run})", columns, rows, sums=True, notes=notes)

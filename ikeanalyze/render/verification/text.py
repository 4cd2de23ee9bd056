"""The sections of a verification in text formats. Compared values are shown as digests only."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from ikeanalyze.analysis.verification.checks import VerificationCheck
from ikeanalyze.analysis.verification.verify import Verification, VerifiedHandshake
from ikeanalyze.render.core.section import FEW, Columns, KeyValueSection, Section, TableSection, tabulate
from ikeanalyze.render.core.table import TableColumn
from ikeanalyze.render.core.values import UNKNOWN, escape_text, format_count, join_items

#: The column of each check in the table of IKE SAs; all other checks belong to the key schedule.
_COLUMN_OF_CHECK: Final = {
    "ICV": "ICV",
    "IntAuth": "IntAuth",
    "signed octets": "AUTH",
    "AUTH": "AUTH",
    "agreement": "logs",
}
_KEYS: Final = "keys"
_CHAINS: Final = "signatures are verified with the captured certificate; its chain, dates and names are not checked"


def format_summary(checks: Sequence[VerificationCheck]) -> str:
    """Return `24 passed, 1 failed, 2 not made`, without zero counts."""
    outcomes = Counter(check.outcome for check in checks)
    parts = [f"{outcomes[word]:,} {word}" for word in ("passed", "failed", "not made") if outcomes[word]]
    return ", ".join(parts) or "none"


def format_check_label(check: VerificationCheck) -> str:
    """Return `SKEYSEED of epoch 1`, `AUTH in IKE_AUTH 2 request` or `AUTH of the responder`."""
    name = check.what if check.exchange is None else f"{check.what} in {check.exchange}"
    if check.exchange is None and check.epoch is not None:
        return f"{name} of epoch {check.epoch}"
    if check.exchange is None and check.side is not None:
        return f"{name} of the {check.side}"
    return name


def render_sections(verification: Verification, *, every: bool) -> Iterator[Section]:
    """The checks with their outcomes, then the reasons of failed and omitted checks."""
    checks = verification.checks
    with_keys = [handshake for handshake in verification.handshakes if handshake.checks]
    # IKE SAs without any usable key are only counted
    checked = [handshake for handshake in with_keys if _combine_outcomes(handshake.checks) != "not made"]
    paths = ", ".join(escape_text(summary.path) for summary in verification.captures)
    facts = [("checks", format_summary(checks))]
    if len(checked) != 1 or len(with_keys) != 1:
        facts.append(("IKE SAs", f"{len(checked):,} of {len(with_keys):,} with keys"))
    if len(checked) == 1:
        facts.append(("handshake", str(checked[0].id)))
        facts.append(("SPIi, SPIr", f"{checked[0].spi_i}, {checked[0].spi_r}"))
        if checked[0].replaces is not None:
            facts.append(("replaces", f"handshake {checked[0].replaces}"))
    yield KeyValueSection(paths, facts, level=1)
    if len(checked) == 1:
        yield _render_check_table(checked[0])
    elif checked:
        yield _render_sa_table(checked, every=every)
    for outcome in ("failed", "not made"):
        if rows := _make_reason_rows(verification.handshakes, outcome):
            shown = rows if every else rows[:FEW]
            if len(rows) > len(shown):
                shown.append(("", f"and {len(rows) - len(shown):,} more (--no-limit shows them)"))
            yield KeyValueSection(outcome.capitalize(), shown)


def _render_check_table(handshake: VerifiedHandshake) -> TableSection:
    columns: Columns[VerificationCheck] = [
        (TableColumn("check"), lambda check: check.what),
        (TableColumn("epoch", right=True), lambda check: check.epoch),
        (TableColumn("of"), _format_subject),
        (TableColumn("made with", narrow=9), lambda check: check.how or ""),
        (TableColumn("outcome"), lambda check: check.outcome),
    ]
    return tabulate("Checks", handshake.checks, columns, notes=_list_notes([handshake]))


def _format_subject(check: VerificationCheck) -> str:
    """The message, the line of the key file, or the side that the check is about."""
    if check.exchange is not None:
        return check.exchange
    if check.origin is not None and check.origin.line is not None:
        return f"line {check.origin.line}"
    return check.side or UNKNOWN


def _render_sa_table(handshakes: Sequence[VerifiedHandshake], *, every: bool) -> TableSection:
    groups = ["ICV", _KEYS, "IntAuth", "AUTH"]
    if any(check.what == "agreement" for handshake in handshakes for check in handshake.checks):
        groups.append("logs")
    columns: Columns[VerifiedHandshake] = [
        (TableColumn("#", right=True), lambda handshake: str(handshake.id)),
        *((TableColumn(name, right=True), partial(_format_passed_of_made, name)) for name in groups),
        (TableColumn("outcome"), lambda handshake: _combine_outcomes(handshake.checks)),
    ]
    notes = ["passed / made; keys: nonces, SKEYSEED and SK_*", *_list_notes(handshakes)]
    return tabulate("IKE SAs", handshakes, columns, every=every, notes=notes)


def _format_passed_of_made(group: str, handshake: VerifiedHandshake) -> str:
    outcomes = [
        check.outcome
        for check in handshake.checks
        if _COLUMN_OF_CHECK.get(check.what, _KEYS) == group and check.outcome != "not made"
    ]
    return f"{outcomes.count('passed')}/{len(outcomes)}" if outcomes else UNKNOWN


def _combine_outcomes(checks: Sequence[VerificationCheck]) -> str:
    outcomes = {check.outcome for check in checks}
    if "failed" in outcomes:
        return "failed"
    return "passed" if "passed" in outcomes else "not made"


def _list_notes(handshakes: Sequence[VerifiedHandshake]) -> list[str]:
    signed = any(
        check.what == "AUTH" and "chain" in (check.how or "") for handshake in handshakes for check in handshake.checks
    )
    return [_CHAINS] if signed else []


def _make_reason_rows(handshakes: Sequence[VerifiedHandshake], outcome: str) -> list[tuple[str, str]]:
    """Checks with this outcome and their reasons; the same reason for several IKE SAs is one row."""
    grouped: dict[tuple[str, str], list[tuple[int, VerificationCheck]]] = {}
    for handshake in handshakes:
        for check in handshake.checks:
            if check.outcome == outcome:
                grouped.setdefault((format_check_label(check), check.why or ""), []).append((handshake.id, check))
    rows = []
    for (name, why), cases in grouped.items():
        first, check = cases[0]
        values = [
            f"{word} {value}"
            for word, value in (("expected", check.expected), ("found", check.found))
            if value is not None
        ]
        places = [f"packet {check.frame}"] if check.frame is not None else []
        if check.origin is not None:
            line = "" if check.origin.line is None else f" line {check.origin.line}"
            places.append(f"{check.origin.path}{line}")
        ids = {handshake for handshake, _ in cases}
        affected = f"handshake {first}" if len(ids) == 1 else f"{format_count(len(ids), 'handshake')} from {first} on"
        rows.append((name, escape_text(f"{why} ({join_items([affected, *places, *values])})")))
    return rows

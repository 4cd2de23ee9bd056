"""The handshakes of a report that meet conditions of `--fail-on`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ikeanalyze.analysis.handshakes.diagnosis.captures import FLOOD_CODE, diagnose_captures
from ikeanalyze.analysis.handshakes.diagnosis.rules import RULES
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.analysis.tables.fail_conditions import NO_HANDSHAKE, FailCondition
from ikeanalyze.analysis.tables.filter_language import TEXTS, FilterError, HandshakeFilter, NumberWord, TextWord
from ikeanalyze.analysis.tables.search_table import build_filter_expression, build_search_table
from ikeanalyze.io.suggestions import describe_choices
from ikeanalyze.render.core.values import UNKNOWN, escape_text, format_decimal, format_outcome
from ikeanalyze.render.report.selection import select_set_ups


@dataclass(frozen=True, slots=True)
class Violation:
    """A condition that a handshake meets, or all captures together."""

    condition: str  # as it was given
    capture: str | None  # None: no handshake at all
    handshake: int | None
    problem: str  # in a few words: "failed: NO_PROPOSAL_CHOSEN", "retransmissions 7"

    def __str__(self) -> str:
        """The line for the user."""
        where = "" if self.capture is None else f"{escape_text(self.capture)}: "
        handshake = "" if self.handshake is None else f"handshake {self.handshake}: "
        return f"{where}{handshake}{self.problem}"


def check_diagnosis_codes(conditions: Sequence[FailCondition]) -> None:
    """Raise `FilterError` for the code of a diagnosis that no rule has: such a condition would never hold."""
    codes = dict.fromkeys([*(rule.code for rule in RULES), FLOOD_CODE])
    for condition in conditions:
        word = condition.words.conditions[0].word if condition.words is not None else None
        if isinstance(word, TextWord) and word.columns == TEXTS["diagnosis"] and word.text not in codes:
            raise FilterError(f"unknown diagnosis {word.text!r}{describe_choices(word.text, codes)}")


def find_violations(analysis: Analysis, conditions: Sequence[FailCondition]) -> list[Violation]:
    """Return the violations of all conditions, in the order of handshakes."""
    set_ups = select_set_ups(analysis)
    table = build_search_table(set_ups.handshakes)
    violations = [violation for condition in conditions for violation in _find(condition, table, set_ups)]
    order = {handshake: row for row, handshake in enumerate(table["handshake"])}
    return sorted(violations, key=lambda violation: order.get(violation.handshake or 0, -1))


def _find(condition: FailCondition, table: pl.DataFrame, set_ups: Analysis) -> Iterator[Violation]:
    if condition.text == NO_HANDSHAKE:
        if table.is_empty():
            yield Violation(condition.text, None, None, "no handshake")
        return
    yield from _find_capture_diagnoses(condition, set_ups)
    if condition.words is None:
        matching = table.filter(pl.col("handshake").is_in(_find_undecrypted(set_ups).implode()))
    else:
        matching = table.filter(build_filter_expression(condition.words))
    for row in matching.iter_rows(named=True):
        problem = "not decrypted" if condition.words is None else _describe_match(condition.words, row)
        yield Violation(condition.text, row["capture"], row["handshake"], problem)


def _find_capture_diagnoses(condition: FailCondition, set_ups: Analysis) -> Iterator[Violation]:
    """Yield the diagnoses of captures as a whole that the condition names."""
    word = condition.words.conditions[0].word if condition.words is not None else None
    if isinstance(word, TextWord) and word.columns == TEXTS["diagnosis"]:
        for entry in diagnose_captures(set_ups.handshakes):
            if entry.code == word.text:
                yield Violation(condition.text, entry.capture, None, f"{escape_text(entry.message)} ({entry.code})")


def _find_undecrypted(set_ups: Analysis) -> pl.Series:
    """Return the ids of handshakes with encrypted messages that were not decrypted.

    If no key file could be read, it is not known of any message whether it is encrypted; in IKEv2, those after
    IKE_SA_INIT are.
    """
    protocols = set_ups.handshakes.select("handshake", "protocol")
    encrypted = (pl.col("protocol").cast(pl.String) == "IKEv2") & (pl.col("type").cast(pl.String) != "IKE_SA_INIT")
    exchanges = set_ups.exchanges.join(protocols, on="handshake", how="inner")
    return exchanges.filter(pl.col("decrypted").not_().fill_null(encrypted))["handshake"].unique()


def _describe_match(words: HandshakeFilter, row: dict[str, Any]) -> str:
    word = words.conditions[0].word
    if isinstance(word, NumberWord):
        value = row[word.number.column]
        shown = None if value is None else value / word.number.unit
        return f"{words.text.lstrip('!').partition(word.operator)[0]} {format_decimal(shown, word.number.decimals)}"
    if word.columns == ("outcome",):
        return format_outcome(row["outcome"], row["reason"])
    if word.columns == TEXTS["diagnosis"] and row["problem"]:
        return f"{escape_text(row['problem'])} ({row['diagnosis']})"
    values = " ".join(escape_text(row[column]) for column in word.columns if row[column] is not None)
    return f"{words.text.lstrip('!').partition(':')[0]} {values or UNKNOWN}"

"""Facts from ICMP errors about the datagrams of suspects.

An error quotes the beginning of the datagram that it is about. It is matched with a datagram of the same addresses and
ports that was sent before: with the same initiator's SPI and message ID if these are quoted, and otherwise with the
latest one. Nothing authenticates an ICMP error (RFC 5927): it is evidence, and changes neither outcome nor times.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ikeanalyze.analysis.grouping import RowColumns, find_group_starts
from ikeanalyze.analysis.handshakes.diagnosis.suspect import IcmpFacts
from ikeanalyze.analysis.messages.capture_facts import CaptureFacts, Rows, SharedFact
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array, sort_distinct
from ikeanalyze.capture.buffers import Columns
from ikeanalyze.capture.decode.ip import format_address_code
from ikeanalyze.wire.registries.icmp import describe_icmp_error

#: A host gives up the reassembly of a packet after at most two minutes (RFC 1122, 3.3.2).
_LONGEST_WAIT_NS: Final = 120_000_000_000
#: Copies of one packet that a capture of several interfaces has are closer together.
_COPY_NS: Final = 10_000_000
_ENDS: Final = ("source", "destination", "source_port", "destination_port")
#: What identifies a datagram, by how much an error quotes. The first ones leave the fewest datagrams.
_QUOTED: Final = (("spi_i", "message_id", *_ENDS), ("spi_i", *_ENDS), _ENDS)
_MAX_FRAMES: Final = 12


class _IcmpError(Struct, frozen=True):
    """Columns of `capture.decode.icmp.ICMP_LAYOUT`."""

    number: int
    sender: int
    ipv6: bool
    type: int
    code: int
    mtu: int
    size: int
    destination: int
    destination_port: int


class MatchedErrors(RowColumns, frozen=True):
    """ICMP errors about datagrams of the capture."""

    error: Int64Array  # row of the errors
    datagram: Int64Array  # row of the datagrams


def match_icmp_errors(errors: Columns, state: AnalysisState, facts: CaptureFacts) -> MatchedErrors | None:
    """The errors about datagrams of the state; None: the capture has no errors.

    Args:
        errors: those of the whole capture; see `capture.decode.icmp.ICMP_LAYOUT`.
        state: the datagrams.
        facts: receives which errors were matched by addresses and ports alone. Another part of the capture may have a
            later datagram of these.
    """
    if not len(errors["number"]):
        return None
    order = _drop_copies(errors)
    candidates = _find_datagrams(errors, state)
    has_spi, has_id = errors["spi_i"][order] != 0, errors["message_id"][order] >= 0
    with_id, with_spi, loose = (
        _find_latest_datagrams(errors, order[chosen], state, candidates, names)
        for chosen, names in zip((has_spi & has_id, has_spi & ~has_id, ~has_spi), _QUOTED, strict=True)
    )
    shared = facts.share(SharedFact.ICMP_ERRORS, lambda: _identify(loose, state))
    if shared is not None:
        latest = set(_list_rows(shared))
        is_latest = [row in latest for row in _list_rows(_identify(loose, state))]
        loose = loose.select(np.array(is_latest, np.bool_))
    parts = (with_id, with_spi, loose)
    return MatchedErrors(
        np.concatenate([part.error for part in parts]), np.concatenate([part.datagram for part in parts])
    )


def _identify(matched: MatchedErrors, state: AnalysisState) -> Rows:
    """Which error is about which datagram, in terms of the whole capture."""
    datagrams = state.datagrams
    return {
        "error": matched.error.astype(np.uint32),
        "sent_ns": datagrams.first_ns[matched.datagram],
        "frame": datagrams.number[matched.datagram],
    }


def _list_rows(rows: Rows) -> list[tuple[int, ...]]:
    return list(zip(*(rows[name].tolist() for name in ("error", "sent_ns", "frame")), strict=True))


def collect_icmp_facts(
    errors: Columns, matched: MatchedErrors | None, state: AnalysisState, suspects: BoolArray
) -> dict[tuple[int, bool], IcmpFacts]:
    """The facts by row of the exchange, and whether they are about its response.

    Args:
        errors: those of the whole capture; see `capture.decode.icmp.ICMP_LAYOUT`.
        matched: errors about datagrams, from `match_icmp_errors`; None: there are none.
        state: the datagrams.
        suspects: the handshakes to look at. (handshakes,)
    """
    if matched is None:
        return {}
    matched = matched.select(suspects[state.association.handshake[matched.datagram]])
    matched = matched.select(np.lexsort((errors["number"][matched.error], errors["time_ns"][matched.error])))
    message = state.message_of_datagram[matched.datagram]
    columns = [state.exchange_of_message[message], state.messages.response[message].astype(np.bool_)]
    columns += [errors[name][matched.error] for name in _IcmpError.__struct_fields__]
    found: dict[tuple[int, bool], list[_IcmpError]] = defaultdict(list)
    for exchange, response, *values in zip(*(column.tolist() for column in columns), strict=True):
        found[exchange, response].append(_IcmpError(*values))
    return {about: _summarise(group, state.addresses) for about, group in found.items()}


def _find_datagrams(errors: Columns, state: AnalysisState) -> Int64Array:
    """The datagrams between hosts that errors are about."""
    datagrams = state.datagrams
    return np.flatnonzero(
        np.isin(datagrams.source, errors["source"]) & np.isin(datagrams.destination, errors["destination"])
    )


def _drop_copies(errors: Columns) -> Int64Array:
    """The rows of the errors in order of time, each once."""
    order = np.lexsort((errors["number"], errors["time_ns"]))
    times, sender, copy = (errors[name][order] for name in ("time_ns", "sender", "copy"))
    grouped = np.lexsort((copy, sender))
    ordered = times[grouped]
    kept = find_group_starts(sender[grouped], copy[grouped])
    kept[1:] |= ordered[1:] - ordered[:-1] >= _COPY_NS
    return order[np.sort(grouped[kept])]


def _find_latest_datagrams(
    errors: Columns, rows: Int64Array, state: AnalysisState, candidates: Int64Array, names: Sequence[str]
) -> MatchedErrors:
    """The latest datagram before each error that is equal in these columns, if it is not too old.

    Args:
        errors: see `capture.decode.icmp.ICMP_LAYOUT`.
        rows: of the errors to look at, in order of time.
        state: the datagrams.
        candidates: rows of those to look at.
        names: columns.
    """
    datagrams = state.datagrams
    group_of_error, candidates, group = _number_equal_rows(errors, rows, state, candidates, names)
    in_order = np.lexsort((datagrams.number[candidates], datagrams.first_ns[candidates]))
    candidates, group = candidates[in_order], group[in_order]
    # datagrams and errors together, by group and time: a datagram is before an error of the same time
    count = len(candidates)
    groups = np.concatenate([group, group_of_error])
    times = np.concatenate([datagrams.first_ns[candidates], errors["time_ns"][rows]])
    is_error = np.arange(len(groups)) >= count
    order = np.lexsort((is_error, times, groups))
    place = np.arange(len(order))
    begin = np.maximum.accumulate(np.where(find_group_starts(groups[order]), place, 0))
    latest = np.maximum.accumulate(np.where(is_error[order], -1, place))
    chosen = np.flatnonzero(is_error[order] & (latest >= begin))
    error, datagram = order[chosen], order[latest[chosen]]
    recent = times[error] - times[datagram] <= _LONGEST_WAIT_NS
    error, datagram = error[recent] - count, datagram[recent]
    in_order = np.argsort(error)
    return MatchedErrors(rows[error[in_order]], candidates[datagram[in_order]])


def _number_equal_rows(
    errors: Columns, rows: Int64Array, state: AnalysisState, candidates: Int64Array, names: Sequence[str]
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Number groups of errors and datagrams that are equal in these columns.

    Returns the numbers of the errors, the datagrams that are equal to an error, and their numbers.
    """
    of_errors, of_datagrams = np.zeros(len(rows), np.int64), np.zeros(len(candidates), np.int64)
    for name in names:
        values = errors[name][rows]
        distinct = sort_distinct(values)
        place, known = _find_places(distinct, getattr(state.datagrams, name)[candidates].astype(values.dtype))
        # fewer groups than errors: the product of two numbers has far less than 64 bits
        of_datagrams = of_datagrams[known] * len(distinct) + place
        of_errors = of_errors * len(distinct) + np.searchsorted(distinct, values)
        candidates = candidates[known]
        groups = sort_distinct(of_errors)
        of_datagrams, known = _find_places(groups, of_datagrams)
        candidates = candidates[known]
        of_errors = np.searchsorted(groups, of_errors)
    return of_errors, candidates, of_datagrams


def _find_places(distinct: npt.NDArray[Any], values: npt.NDArray[Any]) -> tuple[Int64Array, BoolArray]:
    """The places of those values that are in `distinct`, which rises, and which of them are."""
    if not len(distinct):
        return np.zeros(0, np.int64), np.zeros(len(values), np.bool_)
    place = np.minimum(np.searchsorted(distinct, values), len(distinct) - 1)
    known: BoolArray = distinct[place] == values
    return place[known], known


def _summarise(errors: Sequence[_IcmpError], addresses: Sequence[bytes]) -> IcmpFacts:
    """The facts about errors in order of time, which concern one message."""
    described = [describe_icmp_error(error.type, error.code, ipv6=error.ipv6) for error in errors]
    counts = Counter(problem for problem, _ in described)
    problem = max(counts, key=lambda one: counts[one])  # of several, the first one
    name = next(name for one, name in described if one == problem)
    errors = [error for error, (one, _) in zip(errors, described, strict=True) if one == problem]
    return IcmpFacts(
        problem=problem,
        description=_describe(errors, name, addresses),
        sender=format_address_code(errors[0].sender, addresses),
        bytes=max(error.size for error in errors),
        port=errors[0].destination_port,
        path_mtu=_describe_path_mtu([error.mtu for error in errors if error.mtu]),
        frames=[error.number for error in errors[:_MAX_FRAMES]],
    )


def _describe_path_mtu(mtus: Sequence[int]) -> str:
    """The smallest of the MTUs that errors name."""
    return f"a path MTU of {min(mtus):,} bytes" if mtus else "a smaller path MTU (the error does not name it)"


def _describe(errors: Sequence[_IcmpError], name: str, addresses: Sequence[bytes]) -> str:
    """Who returned which error how often."""
    first = errors[0]
    sender = format_address_code(first.sender, addresses)
    if first.sender == first.destination:
        sender += " (the destination)"
    others = len({error.sender for error in errors}) - 1
    if others:
        sender += f" and {others:,} other host{'s' if others > 1 else ''}"
    packets = f"(packet {first.number})"
    if len(errors) > 1:
        packets = f"{len(errors):,} times (first in packet {first.number})"
    return f'{sender} returned the ICMP error "{name}" {packets}'

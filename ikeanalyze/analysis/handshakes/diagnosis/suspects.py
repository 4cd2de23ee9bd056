"""Collects the facts that the rules of the diagnosis need about the handshakes that `candidates` selects."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct, structs

from ikeanalyze.analysis.exchanges.answers import AnsweredTransmissions
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN
from ikeanalyze.analysis.exchanges.radius import RadiusExchange
from ikeanalyze.analysis.grouping import RowGroups, argsort_stable, expand_ranges, find_group_starts
from ikeanalyze.analysis.handshakes.auth_methods import build_type_names
from ikeanalyze.analysis.handshakes.diagnosis.candidates import ShortResponses, find_steps_back
from ikeanalyze.analysis.handshakes.diagnosis.icmp_facts import collect_icmp_facts, match_icmp_errors
from ikeanalyze.analysis.handshakes.diagnosis.responders import NAT_PORT, find_responder_facts
from ikeanalyze.analysis.handshakes.diagnosis.rule import Subject
from ikeanalyze.analysis.handshakes.diagnosis.suspect import NOTHING_DECRYPTED, DecryptedFacts, IcmpFacts, Suspect
from ikeanalyze.analysis.handshakes.handshakes import HandshakeColumns
from ikeanalyze.analysis.handshakes.outcome import Outcome
from ikeanalyze.analysis.messages.capture_facts import WHOLE_CAPTURE, CaptureFacts
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.analysis.tables.column_types import TEXT
from ikeanalyze.analysis.tables.columns import (
    Array,
    FlatListColumn,
    TableColumns,
    TextColumn,
    list_values,
    make_column,
    null_unknown,
    select_rows,
)
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt32Array, sort_distinct
from ikeanalyze.capture.buffers import Columns
from ikeanalyze.wire.ikev2.key_exchange import get_key_exchange_name
from ikeanalyze.wire.registries.ikev2 import ExchangeType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.registries.radius import RadiusCode

#: Packet numbers that are kept as evidence of one message.
_MAX_FRAMES: Final = 12
#: Suspects that are Python objects at one time.
_AT_ONCE: Final = 1 << 12


class SubjectColumns(Struct, frozen=True):
    """The message of one `rule.Subject` of each suspect. (suspects,) each"""

    known: BoolArray  # there is such an exchange; otherwise the other columns are without meaning
    exchange_type: Int64Array  # place in `auth_methods.build_type_names`
    message_id: UInt32Array
    response: BoolArray
    from_initiator: BoolArray
    frames: FlatListColumn  # numbers of the first packets of the message's transmissions

    def select(self, rows: Int64Array) -> "SubjectColumns":
        """The messages of these suspects."""
        return SubjectColumns(*(select_rows(getattr(self, name), rows) for name in self.__struct_fields__))


class SuspectFacts(Struct, frozen=True):
    """Facts about suspects, in addition to their rows of the handshakes table."""

    rows: Int64Array  # of the handshakes table, rising. (suspects,)
    columns: Mapping[str, Any]  # fields of `Suspect`; columns as in `TableColumns`. (suspects,) each
    #: Other fields of `Suspect`: values by number of the suspect, and the value of suspects that are not in it.
    objects: Mapping[str, tuple[Mapping[int, object], object]]
    subjects: Mapping[Subject, SubjectColumns]


def list_suspects(handshakes: TableColumns, facts: SuspectFacts) -> Iterator[Suspect]:
    """The suspects, in order; `handshakes` is the handshakes table."""
    count = len(facts.rows)
    for low in range(0, count, _AT_ONCE):
        numbers = np.arange(low, min(low + _AT_ONCE, count))
        columns: list[list[Any]] = []
        for name in Suspect.__struct_fields__:
            if name in facts.columns:
                columns.append(list_values(select_rows(facts.columns[name], numbers)))
            elif name in facts.objects:
                by_number, missing = facts.objects[name]
                columns.append([by_number.get(number, missing) for number in numbers.tolist()])
            else:
                columns.append(handshakes.list_values(name, facts.rows[numbers]))
        yield from map(Suspect, *columns)


def collect_facts(
    suspects: BoolArray,
    handshakes: HandshakeColumns,
    state: AnalysisState,
    answers: AnsweredTransmissions,
    short: ShortResponses,
    icmp_errors: Columns,
    facts: CaptureFacts = WHOLE_CAPTURE,
) -> SuspectFacts | None:
    """The facts about the suspects, in order of their rows; None: all are clean.

    A suspect without set-up in the capture is left out.

    Args:
        suspects: see `candidates.find_suspects`. (handshakes,)
        handshakes: all of them.
        state: their datagrams, messages and exchanges.
        answers: which transmissions were answered.
        short: responses that may have no room for what a successful one has.
        icmp_errors: those of the capture; see `capture.decode.icmp.ICMP_LAYOUT`.
        facts: those of the whole capture, if this is a part of one.
    """
    # shared before anything else, because other parts of the capture may need it
    responders = find_responder_facts(handshakes, state, facts, np.flatnonzero(suspects))
    matched = match_icmp_errors(icmp_errors, state, facts)
    exchanges = state.exchanges
    set_ups = np.flatnonzero(suspects[exchanges.handshake] & exchanges.set_up)
    if not len(set_ups):
        return None
    datagrams = _collect_datagrams(suspects, state, short)
    set_up = _SetUpExchanges(set_ups, RowGroups(find_group_starts(exchanges.handshake[set_ups])))
    rows = exchanges.handshake[set_up.last].astype(np.int64)
    collector = _Collector(state, answers, datagrams, set_up, rows)
    columns = collector.summarise_last()
    subjects = collector.get_last_subjects()
    for more, messages in (collector.summarise_set_ups(), collector.summarise_later()):
        columns.update(more)
        subjects.update(messages)
    errors = collect_icmp_facts(icmp_errors, matched, state, suspects)
    about = [_find_errors(errors, set_up.last, response=response) for response in (False, True)]
    for subject, rejected, found in (
        (Subject.REQUEST, Subject.REJECTED_REQUEST, about[0]),
        (Subject.RESPONSE, Subject.REJECTED_RESPONSE, about[1]),
    ):
        subjects[rejected] = _add_error_frames(subjects[subject], found)
    wanted = _find_wanted_methods(state, suspects)
    place = np.searchsorted(np.flatnonzero(suspects), rows)
    rejected_rows = {row for row, pairs in handshakes.pairs.items() if _is_rejected(pairs)}
    columns |= {
        "wanted_method": make_column([wanted.get(row) for row in rows.tolist()], TEXT),
        "passed_4500": responders.on_4500[place],
        "accepted": make_column([responders.accepted[at] for at in place.tolist()], TEXT),
        "step_back_ns": find_steps_back(state)[rows],
        "aaa_rejected": np.array([row in rejected_rows for row in rows.tolist()], np.bool_),
    }
    objects: dict[str, tuple[Mapping[int, object], object]] = {
        "request_errors": (about[0], None),
        "response_errors": (about[1], None),
        "decrypted": (_collect_decrypted_facts(handshakes, state, rows), NOTHING_DECRYPTED),
    }
    return SuspectFacts(rows, columns, objects, subjects)


def _find_errors(
    errors: Mapping[tuple[int, bool], IcmpFacts], exchanges: Int64Array, *, response: bool
) -> dict[int, IcmpFacts]:
    """The ICMP errors about the request or the response of each suspect's exchange, by number of the suspect."""
    if not errors:
        return {}
    found = {number: errors.get((exchange, response)) for number, exchange in enumerate(exchanges.tolist())}
    return {number: one for number, one in found.items() if one is not None}


def _add_error_frames(messages: SubjectColumns, errors: Mapping[int, IcmpFacts]) -> SubjectColumns:
    """The same messages, with packets of the ICMP errors about them as evidence too."""
    if not errors:
        return messages
    lists = list_values(messages.frames)
    for number, one in errors.items():
        lists[number] = sorted([*lists[number], *one.frames])[:_MAX_FRAMES]
    flat = np.array([frame for frames in lists for frame in frames], np.uint32)
    frames = FlatListColumn(flat, np.array([len(frames) for frames in lists], np.int64))
    return structs.replace(messages, frames=frames)


def _find_wanted_methods(state: AnalysisState, suspects: BoolArray) -> dict[int, str]:
    """The key exchange method that the responder asked for with its last INVALID_KE_PAYLOAD, by handshake."""
    inits = state.inits
    methods = {
        form: get_key_exchange_name(int.from_bytes(data[:2], "big"))
        for form, view in enumerate(inits.views)
        for kind, data in view.notifies
        if kind == NotifyType.INVALID_KE_PAYLOAD
    }
    rows = np.flatnonzero(np.isin(inits.form, list(methods)))
    handshake = state.association.handshake[inits.rows[rows]]
    chosen = suspects[handshake]
    # the rows are in order of time, so the last one counts
    return {
        row: methods[form]
        for row, form in zip(handshake[chosen].tolist(), inits.form[rows[chosen]].tolist(), strict=True)
    }


def _is_rejected(pairs: Sequence[RadiusExchange]) -> bool:
    return any(pair.response_view is not None and pair.response_view.code == RadiusCode.ACCESS_REJECT for pair in pairs)


def _collect_decrypted_facts(
    handshakes: HandshakeColumns, state: AnalysisState, rows: Int64Array
) -> dict[int, DecryptedFacts]:
    """The facts from decrypted payloads by place in `rows`; none without keys."""
    if handshakes.contents is None:
        return {}
    # late: it loads parsers that a report without keys does not need
    from ikeanalyze.analysis.handshakes.diagnosis.decrypted_facts import collect_decrypted_facts

    refused = np.flatnonzero(_find_refused(handshakes)[rows])
    found = collect_decrypted_facts(handshakes.contents.contents, state, rows[refused].tolist())
    return dict(zip(refused.tolist(), found, strict=True))


def _find_refused(handshakes: HandshakeColumns) -> BoolArray:
    """Which handshakes payloads may say more about: those that failed, or that have no CHILD_SA. (handshakes,)"""
    refused = handshakes.outcome == int(Outcome.FAILED)
    if handshakes.contents is not None:
        for row, facts in handshakes.contents.facts.items():
            refused[row] |= facts.proof.child_error is not None
    return np.asarray(refused)


class _SetUpExchanges(Struct, frozen=True):
    """The exchanges of the set-ups of the suspects, in order of suspect and time."""

    rows: Int64Array  # of the exchanges
    runs: RowGroups  # of each suspect

    @property
    def last(self) -> Int64Array:
        """The last exchange of each suspect's set-up. (suspects,)"""
        return self.rows[self.runs.end - 1]

    @property
    def suspect(self) -> Int64Array:
        """The number of the suspect of each exchange. (exchanges,)"""
        return np.repeat(np.arange(len(self.runs.start)), self.runs.size)


class _Datagrams(Struct, frozen=True):
    """The datagrams of the suspects, those of one message of an exchange together, and these in order of the packets.

    A message is the request or the response of an exchange here, all its transmissions together. `messages` has sums.
    """

    rows: Int64Array  # of the datagrams. (n,)
    transmission: Int64Array  # row of the transmission, in the messages. (n,)
    runs: RowGroups  # of the messages
    key: Int64Array  # of the messages, rising: row of the exchange * 2, + 1 for a response. (messages,)
    ike_bytes: Int64Array  # of the datagrams that are short responses, else -1. (n,)

    @property
    def message(self) -> Int64Array:
        """The number of the message of each datagram. (n,)"""
        return np.repeat(np.arange(len(self.key)), self.runs.size)

    def find(self, exchanges: Int64Array, *, response: bool) -> Int64Array:
        """The numbers of the requests or the responses of exchanges; -1: none is in the capture."""
        wanted = exchanges * 2 + response
        place = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        return np.where(self.key[place] == wanted, place, -1)


def _collect_datagrams(suspects: BoolArray, state: AnalysisState, short: ShortResponses) -> _Datagrams:
    rows = np.flatnonzero(suspects[state.association.handshake])
    key = _get_keys(state, state.message_of_datagram[rows])
    order = argsort_stable(key)
    rows, key = rows[order], key[order]
    new = find_group_starts(key)
    ike_bytes = np.full(len(rows), -1, np.int64)
    if len(short.datagram):
        numbers = state.datagrams.datagram[rows]
        by_number = np.argsort(short.datagram, kind="stable")
        place = by_number[np.minimum(np.searchsorted(short.datagram[by_number], numbers), len(by_number) - 1)]
        is_short = short.datagram[place] == numbers
        ike_bytes[is_short] = short.ike_bytes[place[is_short]]
    return _Datagrams(rows, state.message_of_datagram[rows].astype(np.int64), RowGroups(new), key[new], ike_bytes)


def _get_keys(state: AnalysisState, transmissions: Array) -> Int64Array:
    """See `_Datagrams.key`; `transmissions` are rows of the messages."""
    keys: Int64Array = state.exchange_of_message[transmissions].astype(np.int64) * 2
    keys += state.messages.response[transmissions]
    return keys


def _take(values: Array, places: Int64Array, missing: int) -> Array:
    """The values at these places; `missing` where the place is -1."""
    return np.where(places < 0, missing, values[places])


def _take_known(values: Array, places: Int64Array) -> tuple[Array, BoolArray]:
    """The values at these places, null where the place is -1."""
    return values[places], places >= 0


def _null_negative(values: Int64Array) -> tuple[Int64Array, BoolArray]:
    """Values with null in place of negative ones."""
    return values, values >= 0


class _MessageSums(Struct, frozen=True):
    """The messages of `_Datagrams`, all transmissions of each together. (messages,) each"""

    bytes: Int64Array  # of the largest datagram
    ike_bytes: Int64Array  # of the largest short response; -1: none
    fragments: Int64Array  # IKE fragments of the message; 0: not fragmented
    ip_fragmented: BoolArray
    on_4500: BoolArray
    transmissions: Int64Array
    first_ns: Int64Array
    last_ns: Int64Array
    frames: FlatListColumn  # the first packets of the transmissions


def _sum_messages(state: AnalysisState, messages: _Datagrams) -> _MessageSums:
    rows, runs, datagrams = messages.rows, messages.runs, state.datagrams
    # the receiver keeps the fragments with the largest total that arrived (RFC 7383, section 2.6); 0: unknown, of IKEv1
    fragments = datagrams.fragments[rows].astype(np.int64)
    arrived = runs.max(np.where(state.undelivered[rows], -1, fragments))
    on_4500 = (datagrams.source_port[rows] == NAT_PORT) | (datagrams.destination_port[rows] == NAT_PORT)
    times = datagrams.first_ns[rows]
    transmissions = sort_distinct(messages.transmission)
    return _MessageSums(
        bytes=runs.max(datagrams.bytes[rows].astype(np.int64)),
        ike_bytes=runs.max(messages.ike_bytes),
        fragments=np.where(arrived < 0, runs.max(fragments), arrived),
        ip_fragmented=runs.max(datagrams.ip_fragments[rows]) > 0,
        on_4500=runs.max(on_4500.astype(np.int64)) > 0,
        transmissions=np.bincount(
            np.searchsorted(messages.key, _get_keys(state, transmissions)), minlength=len(messages.key)
        ),
        first_ns=runs.min(times),
        last_ns=runs.max(times),
        frames=_list_first_frames(state, rows, runs),
    )


def _list_first_frames(state: AnalysisState, rows: Int64Array, runs: RowGroups) -> FlatListColumn:
    """The first packet of each transmission of a message, at most `_MAX_FRAMES`; `runs` of `rows` are messages."""
    fragment = state.datagrams.fragment[rows].astype(np.int64)
    first = fragment == np.repeat(runs.min(fragment), runs.size)
    message = np.repeat(np.arange(len(runs.start)), runs.size)[first]
    ordered = np.sort(message << 32 | state.datagrams.number[rows[first]])
    count = np.bincount(message, minlength=len(runs.start))
    kept = np.minimum(count, _MAX_FRAMES)
    return FlatListColumn(ordered[expand_ranges(np.cumsum(count) - count, kept)].astype(np.uint32), kept)


class _Collector:
    """Collects columns of facts, one value for each suspect."""

    def __init__(
        self,
        state: AnalysisState,
        answers: AnsweredTransmissions,
        datagrams: _Datagrams,
        set_up: _SetUpExchanges,
        rows: Int64Array,
    ) -> None:
        """`rows`: of the suspects in the handshakes table."""
        self._state = state
        self._answers = answers
        self._datagrams = datagrams
        self._sums = _sum_messages(state, datagrams)
        self._set_up = set_up
        self._last = set_up.last
        self._rows = rows

    def summarise_last(self) -> dict[str, Any]:
        """Facts about the last exchange of each set-up."""
        state, sums, set_up, last = self._state, self._sums, self._set_up, self._last
        request, response = (self._datagrams.find(last, response=kind) for kind in (False, True))
        passed, suspect = self._find_passed()
        columns: dict[str, Any] = {}
        for kind, place, answers in (("request", request, False), ("response", response, True)):
            before = self._datagrams.find(passed, response=answers)
            columns |= {
                f"{kind}_bytes": _take(sums.bytes, place, 0),
                f"{kind}_ip_fragmented": _take(sums.ip_fragmented, place, 0).astype(np.bool_),
                f"{kind}_missing": self._describe_missing_fragments(place),
                f"{kind}_passed_bytes": _null_negative(self._find_largest(sums.bytes, before, suspect)),
            }
            if kind == "request":
                columns["passed_sent"] = _null_negative(self._find_largest(sums.transmissions, before, suspect))
        is_auth = _find_named_types("IKE_AUTH")[self._get_types(set_up.rows)]
        return columns | {
            "last_type": TextColumn(build_type_names(), self._get_types(last)),
            "last_message_id": state.exchanges.message_id[last],
            "sent": self._describe_transmissions(request),
            "again": _take(sums.transmissions, request, 1) - 1,
            "on_4500": (_take(sums.on_4500, request, 0) | _take(sums.on_4500, response, 0)).astype(np.bool_),
            "unprotected": state.unprotected[last],
            "responses": _take(sums.transmissions, response, 0),
            "response_ike_bytes": _null_negative(_take(sums.ike_bytes, response, -1)),
            "ignored": self._count_ignored_responses(request, response),
            "answered": set_up.runs.size - 1,
            "auth_exchanges": set_up.runs.sum(is_auth.astype(np.int64)),
        }

    def get_last_subjects(self) -> dict[Subject, SubjectColumns]:
        """The request and the response of the last exchange of each set-up."""
        return {
            Subject.REQUEST: self._get_subject(self._last, response=False),
            Subject.RESPONSE: self._get_subject(self._last, response=True),
        }

    def summarise_set_ups(self) -> tuple[dict[str, Any], dict[Subject, SubjectColumns]]:
        """The noteworthy exchanges of each set-up."""
        sums, rows, suspect = self._sums, self._set_up.rows, self._set_up.suspect
        is_init = _find_named_types("IKE_SA_INIT")[self._get_types(rows)]
        init = self._choose_last(rows[is_init], suspect[is_init])
        request = self._datagrams.find(rows, response=False)
        asked = request >= 0
        rows, suspect, sent = rows[asked], suspect[asked], sums.transmissions[request[asked]]
        order = np.argsort(sent, kind="stable")
        repeated = self._choose_last(rows[order], suspect[order])
        repeated_sent = self._choose_last(sent[order], suspect[order])
        rows, suspect = rows[sent == 1], suspect[sent == 1]
        order = np.argsort(self._answers.rtt_ns[rows], kind="stable")  # UNKNOWN is less than every time
        slow = self._choose_last(rows[order], suspect[order])
        slow_rtt = np.where(slow < 0, UNKNOWN, self._answers.rtt_ns[slow])
        large_bytes, large = self._find_large_messages()
        columns = {
            "repeated_sent": _null_negative(repeated_sent),
            "shortest_timer_ns": self._find_shortest_timers(),
            "slow_rtt_ns": null_unknown(slow_rtt),
            "large_bytes": _null_negative(large_bytes),
        }
        return columns, {
            Subject.INIT_RESPONSE: self._get_subject(init, response=True),
            Subject.REPEATED_REQUEST: self._get_subject(repeated, response=False),
            Subject.SLOW_REQUEST: self._get_subject(slow, response=False),
            Subject.LARGE_MESSAGE: large,
        }

    def summarise_later(self) -> tuple[dict[str, Any], dict[Subject, SubjectColumns]]:
        """The last exchange after each set-up that has one."""
        exchanges = self._state.exchanges
        is_suspect = np.zeros(int(self._rows[-1]) + 1, np.bool_)
        is_suspect[self._rows] = True
        rows = np.flatnonzero(~exchanges.set_up & (exchanges.handshake < len(is_suspect)))
        rows = rows[is_suspect[exchanges.handshake[rows]]]
        later = self._choose_last(rows, np.searchsorted(self._rows, exchanges.handshake[rows]))
        known = later >= 0
        request = np.where(known, self._datagrams.find(later, response=False), -1)
        columns = {
            "later_type": (TextColumn(build_type_names(), self._get_types(later)), known),
            "later_by": (
                TextColumn(("responder", "initiator"), exchanges.initiator_asked[later].astype(np.uint8)),
                known,
            ),
            "later_sent": (self._describe_transmissions(request), known),
            "later_again": (_take(self._sums.transmissions, request, 1) - 1, known),
            "later_ended": (self._answers.end_ns[later] != UNKNOWN, known),
            "later_unprotected": (self._state.unprotected[later], known),
            "later_idle_ns": self._measure_idle_times(later),
        }
        return columns, {Subject.LATER_REQUEST: self._get_subject(later, response=False)}

    def _get_types(self, exchanges: Int64Array) -> Int64Array:
        """The types of exchanges: places in `build_type_names`."""
        columns = self._state.exchanges
        return columns.protocol[exchanges].astype(np.int64) * 256 + columns.exchange_type[exchanges]

    def _choose_last(self, values: Int64Array, suspect: Int64Array) -> Int64Array:
        """The last value of each suspect; -1: it has none. (suspects,)"""
        result = np.full(len(self._rows), -1, np.int64)
        result[suspect] = values  # of equal indexes the last one counts
        return result

    def _find_largest(self, values: Int64Array, messages: Int64Array, suspect: Int64Array) -> Int64Array:
        """The largest value of the messages of each suspect; -1: it has none. (suspects,)"""
        result = np.full(len(self._rows), -1, np.int64)
        known = messages >= 0
        np.maximum.at(result, suspect[known], values[messages[known]])
        return result

    def _find_passed(self) -> tuple[Int64Array, Int64Array]:
        """The exchanges before the last one that ended, and the number of the suspect of each."""
        rows = self._set_up.rows
        ended = self._answers.end_ns[rows] != UNKNOWN
        ended[self._set_up.runs.end - 1] = False
        return rows[ended], self._set_up.suspect[ended]

    def _get_subject(self, exchanges: Int64Array, *, response: bool) -> SubjectColumns:
        """The request or the response of each suspect's exchange (-1: none)."""
        columns, known = self._state.exchanges, exchanges >= 0
        message = np.where(known, self._datagrams.find(exchanges, response=response), -1)
        frames = self._sums.frames
        # without a message, an empty list: the one after the others
        ends = FlatListColumn(frames.elements, np.append(frames.length, 0))
        return SubjectColumns(
            known=known,
            exchange_type=self._get_types(exchanges),
            message_id=columns.message_id[exchanges],
            response=np.full(len(exchanges), response),
            from_initiator=known & (columns.initiator_asked[exchanges] != response),
            frames=ends.select(np.where(message < 0, len(frames), message)),
        )

    def _describe_transmissions(self, requests: Int64Array) -> TextColumn:
        """How often requests were sent, and in which time."""
        sums = self._sums
        seconds = np.round((sums.last_ns[requests] - sums.first_ns[requests]) / 1e9, 1)
        numbers = {(1, 0.0): 0}
        place = [
            numbers.setdefault((count, span), len(numbers)) if count > 1 else 0
            for count, span in zip(_take(sums.transmissions, requests, 1).tolist(), seconds.tolist(), strict=True)
        ]
        texts = ["once", *(f"{count} times in {span} s" for count, span in list(numbers)[1:])]
        return TextColumn(texts, np.array(place, np.uint32))

    def _describe_missing_fragments(self, messages: Int64Array) -> TextColumn:
        """The IKE fragments that are in no transmission of these messages (-1: none), as text; None: none."""
        lacking = _get_keys(self._state, self._state.lacking_fragments)
        place = np.zeros(len(messages), np.uint32)
        texts: list[str | None] = [None]
        for number in np.flatnonzero((messages >= 0) & np.isin(self._datagrams.key[messages], lacking)).tolist():
            text = self._name_missing_fragments(int(messages[number]))
            if text is not None:
                place[number] = len(texts)
                texts.append(text)
        return TextColumn(texts, place)

    def _name_missing_fragments(self, message: int) -> str | None:
        runs, datagrams = self._datagrams.runs, self._state.datagrams
        rows = self._datagrams.rows[runs.start[message] : runs.end[message]]
        total, fragments = int(self._sums.fragments[message]), datagrams.fragments[rows]
        kept = datagrams.fragment[rows[(fragments == total) & ~self._state.undelivered[rows] | (fragments == 0)]]
        is_missing = np.ones(total + 1, np.bool_)
        is_missing[0] = False
        is_missing[kept[kept <= total]] = False
        missing = np.flatnonzero(is_missing).tolist()
        if not missing:
            return None
        word = "fragments" if len(missing) > 1 else "fragment"
        return f"{word} {', '.join(map(str, missing))} of {total}"

    def _count_ignored_responses(self, requests: Int64Array, responses: Int64Array) -> Int64Array:
        """How often each of these requests was sent after its first response. (suspects,)"""
        both = np.flatnonzero((requests >= 0) & (responses >= 0))
        runs, result = self._datagrams.runs, np.zeros(len(requests), np.int64)
        size = runs.size[requests[both]]
        place = expand_ranges(runs.start[requests[both]], size)
        times = self._state.datagrams.first_ns[self._datagrams.rows[place]]
        late = place[times > np.repeat(self._sums.first_ns[responses[both]], size)]
        transmissions = sort_distinct(self._datagrams.transmission[late])
        handshake = self._state.messages.handshake[transmissions]
        np.add.at(result, np.searchsorted(self._rows, handshake), 1)
        return result

    def _find_large_messages(self) -> tuple[Int64Array, SubjectColumns]:
        """The largest IKE_INTERMEDIATE message of each set-up without IKE fragmentation, in IP fragments.

        Returns its bytes, -1: there is none, and the messages.
        """
        state, datagrams = self._state, self._datagrams
        rows = datagrams.rows
        chosen = np.flatnonzero(
            (state.datagrams.ip_fragments[rows] > 0)
            & (state.datagrams.fragment[rows] == 0)
            & (state.messages.exchange_type[datagrams.transmission] == int(ExchangeType.IKE_INTERMEDIATE))
        )
        key = _get_keys(state, datagrams.transmission[chosen])
        chosen = chosen[state.exchanges.set_up[key >> 1]]
        key = _get_keys(state, datagrams.transmission[chosen])
        runs = RowGroups(find_group_starts(key))
        key = key[runs.start]
        sizes = np.zeros(0, np.int64)
        frames = FlatListColumn(np.zeros(0, np.uint32), sizes)
        if len(key):
            sizes = runs.max(state.datagrams.bytes[rows[chosen]].astype(np.int64))
            frames = _list_first_frames(state, rows[chosen], runs)
        order = np.argsort(sizes, kind="stable")
        suspect = np.searchsorted(self._rows, state.exchanges.handshake[key >> 1])
        place = self._choose_last(order, suspect[order])
        known = place >= 0
        # without a message, the values after the others
        key, sizes = np.append(key, 0)[place], np.append(sizes, -1)[place]
        ends = FlatListColumn(frames.elements, np.append(frames.length, 0))
        exchange, response = key >> 1, (key & 1).astype(np.bool_)
        return sizes, SubjectColumns(
            known=known,
            exchange_type=self._get_types(exchange),
            message_id=state.exchanges.message_id[exchange],
            response=response,
            from_initiator=known & (state.exchanges.initiator_asked[exchange] != response),
            frames=ends.select(np.where(known, place, len(frames))),
        )

    def _find_shortest_timers(self) -> tuple[Int64Array, BoolArray]:
        """The least time between two transmissions of a request of each set-up, null: none was repeated."""
        state, datagrams = self._state, self._datagrams
        # the first datagram of each transmission: the first one in the order of the datagrams
        order = argsort_stable(datagrams.transmission)
        first = order[find_group_starts(datagrams.transmission[order])]
        transmission = datagrams.transmission[first]
        key = _get_keys(state, transmission)
        chosen = np.flatnonzero((key & 1 == 0) & state.exchanges.set_up[key >> 1])
        chosen = chosen[np.lexsort((first[chosen], state.messages.transmission[transmission[chosen]], key[chosen]))]
        times, key = state.datagrams.first_ns[datagrams.rows[first[chosen]]], key[chosen]
        same = key[1:] == key[:-1]
        suspect = np.searchsorted(self._rows, state.exchanges.handshake[key[1:][same] >> 1])
        shortest = np.full(len(self._rows), np.iinfo(np.int64).max)
        np.minimum.at(shortest, suspect, (times[1:] - times[:-1])[same])
        return shortest, shortest < np.iinfo(np.int64).max

    def _measure_idle_times(self, later: Int64Array) -> tuple[Int64Array, BoolArray]:
        """From the last message of the receiver before each later exchange to its beginning, null: there is none."""
        state, exchanges = self._state, self._state.exchanges
        if (later < 0).all():
            return np.zeros(len(later), np.int64), np.zeros(len(later), np.bool_)
        transmission = self._datagrams.transmission
        # a suspect without set-up is left out
        handshake = state.messages.handshake[transmission]
        suspect = np.minimum(np.searchsorted(self._rows, handshake), len(self._rows) - 1)
        exchange = np.where(self._rows[suspect] == handshake, later[suspect], -1)
        times = state.datagrams.first_ns[self._datagrams.rows]
        heard = exchange >= 0
        heard &= state.messages.from_initiator[transmission] != exchanges.initiator_asked[exchange]
        heard &= times < exchanges.start_ns[exchange]
        latest = np.full(len(later), UNKNOWN)
        np.maximum.at(latest, suspect[heard], times[heard])
        known = latest != UNKNOWN
        return np.where(known, exchanges.start_ns[later] - np.where(known, latest, 0), 0), known


def _find_named_types(name: str) -> BoolArray:
    """Which places in `build_type_names` have this name."""
    return np.array([one == name for one in build_type_names()], np.bool_)

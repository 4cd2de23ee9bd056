"""Collects the facts that the rules of the diagnosis need about the handshakes that `candidates` selects."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct, structs

from ikeanalyze.analysis.exchanges.answers import AnsweredTransmissions
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN
from ikeanalyze.analysis.exchanges.radius import RadiusExchange
from ikeanalyze.analysis.grouping import RowGroups, argsort_stable, find_group_starts
from ikeanalyze.analysis.handshakes.auth_methods import build_type_names
from ikeanalyze.analysis.handshakes.diagnosis.candidates import ShortResponses, find_steps_back
from ikeanalyze.analysis.handshakes.diagnosis.exchange_messages import (
    MAX_FRAMES,
    ExchangeMessages,
    get_message_keys,
    list_first_frames,
    take,
)
from ikeanalyze.analysis.handshakes.diagnosis.icmp_facts import collect_icmp_facts, match_icmp_errors
from ikeanalyze.analysis.handshakes.diagnosis.refused_requests import (
    NOT_DECRYPTED,
    DecryptedRequest,
    LaterRequest,
    find_refused_request,
)
from ikeanalyze.analysis.handshakes.diagnosis.responders import find_responder_facts
from ikeanalyze.analysis.handshakes.diagnosis.rule import Subject
from ikeanalyze.analysis.handshakes.diagnosis.suspect import (
    NOTHING_DECRYPTED,
    DecryptedFacts,
    IcmpFacts,
    RefusedRequest,
    Suspect,
)
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
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.header import FLAG_ENCRYPTED
from ikeanalyze.wire.ikev2.key_exchange import get_key_exchange_name
from ikeanalyze.wire.registries.ikev1 import Ikev1ExchangeType
from ikeanalyze.wire.registries.ikev2 import ExchangeType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.registries.radius import RadiusCode

#: Suspects that are Python objects at one time.
_AT_ONCE: Final = 1 << 12
#: Types of exchanges that ask for an SA after the set-up.
_ASKING: Final = (int(ExchangeType.CREATE_CHILD_SA), int(ExchangeType.IKE_FOLLOWUP_KE))


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
    replacing = np.flatnonzero(suspects & handshakes.rekeyed)
    if len(replacing):  # of an IKE SA without set-up, the first exchange stands for it
        set_ups = sort_distinct(np.append(set_ups, np.searchsorted(exchanges.handshake, replacing)))
    if not len(set_ups):
        return None
    set_up = _SetUpExchanges(set_ups, RowGroups(find_group_starts(exchanges.handshake[set_ups])))
    rows = exchanges.handshake[set_up.last].astype(np.int64)
    collector = _Collector(state, answers, ExchangeMessages.collect(suspects, state, short), set_up, rows)
    columns, subjects = collector.summarise_last()
    decrypted = _collect_decrypted_facts(handshakes, state, rows)
    for more, messages in (collector.summarise_set_ups(), collector.summarise_later(decrypted)):
        columns.update(more)
        subjects.update(messages)
    refused = collector.find_refused_requests(handshakes)
    subjects[Subject.LATER_REFUSAL] = collector.make_refusal_subject(refused)
    errors = collect_icmp_facts(icmp_errors, matched, state, suspects)
    about = [_find_errors(errors, set_up.last, response=response) for response in (False, True)]
    about.append(_find_errors(errors, collector.find_later_exchanges(), response=False))
    for subject, rejected, found in (
        (Subject.REQUEST, Subject.REJECTED_REQUEST, about[0]),
        (Subject.RESPONSE, Subject.REJECTED_RESPONSE, about[1]),
        (Subject.LATER_REQUEST, Subject.REJECTED_LATER_REQUEST, about[2]),
    ):
        subjects[rejected] = _add_error_frames(subjects[subject], found)
    wanted = _find_wanted_methods(state, suspects)
    place = np.searchsorted(np.flatnonzero(suspects), rows)
    rejected_rows = {row for row, pairs in handshakes.pairs.items() if _is_rejected(pairs)}
    columns |= {
        "wanted_method": make_column([wanted.get(row) for row in rows.tolist()], TEXT),
        "passed_4500": responders.on_4500[place],
        "has_port_4500": responders.has_port_4500[place],
        "redirected": responders.redirected[place],
        "accepted": make_column([responders.accepted[at] for at in place.tolist()], TEXT),
        "step_back_ns": find_steps_back(state)[rows],
        "aaa_rejected": np.array([row in rejected_rows for row in rows.tolist()], np.bool_),
    }
    objects: dict[str, tuple[Mapping[int, object], object]] = {
        "request_errors": (about[0], None),
        "response_errors": (about[1], None),
        "later_errors": (about[2], None),
        "decrypted": (decrypted, NOTHING_DECRYPTED),
        "refused": (refused, None),
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
        lists[number] = sorted([*lists[number], *one.frames])[:MAX_FRAMES]
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


def _read_requests(handshakes: HandshakeColumns, state: AnalysisState, row: int) -> Mapping[int, DecryptedRequest]:
    """The decrypted requests after a set-up, by row of their exchange; none without keys."""
    if handshakes.contents is None:
        return {}
    from ikeanalyze.analysis.handshakes.diagnosis.decrypted_facts import find_decrypted_messages
    from ikeanalyze.analysis.handshakes.diagnosis.decrypted_requests import read_requests

    decoded = handshakes.contents.contents
    first = _find_first_ike_sa(handshakes, row)
    agreed_in = [] if first == row else find_decrypted_messages(decoded, state, first)
    return read_requests([*agreed_in, *find_decrypted_messages(decoded, state, row)])


def _find_first_ike_sa(handshakes: HandshakeColumns, row: int) -> int:
    """The handshake that set up the IKE SA which this one replaced, by one rekeying or more."""
    seen = {row}
    while (row in handshakes.replaces) and handshakes.replaces[row] not in seen:
        row = handshakes.replaces[row]
        seen.add(row)
    return row


def _find_refused_quick_mode(
    handshakes: HandshakeColumns,
    state: AnalysisState,
    row: int,
    quick_modes: Sequence[int],
    informationals: Sequence[int],
    end_ns: Int64Array,
) -> RefusedRequest | None:
    """The quick mode of the handshake `row` that was refused; `quick_modes`, `informationals`: its exchanges."""
    assert handshakes.contents is not None
    # late: they load parsers that a report without keys does not need
    from ikeanalyze.analysis.handshakes.diagnosis.decrypted_facts import find_decrypted_messages
    from ikeanalyze.analysis.handshakes.diagnosis.refused_quick_modes import QuickMode, find_refused_quick_mode

    exchanges = state.exchanges
    made: dict[tuple[int, bool], QuickMode] = {}
    for exchange in sorted(quick_modes, key=lambda exchange: int(exchanges.start_ns[exchange])):
        by_initiator = bool(exchanges.initiator_asked[exchange])
        key = int(exchanges.message_id[exchange]), by_initiator
        if key in made:  # the third message is an exchange of its own
            made[key].has_third_message = True
            continue
        end = int(end_ns[exchange]) if exchanges.response_messages[exchange] > 0 else None
        made[key] = QuickMode(exchange, by_initiator, int(exchanges.start_ns[exchange]), end)
    began = {exchange: int(exchanges.start_ns[exchange]) for exchange in informationals}
    messages = find_decrypted_messages(handshakes.contents.contents, state, row)
    return find_refused_quick_mode(list(made.values()), began, messages)


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


class _Collector(Struct, frozen=True):
    """Collects columns of facts, one value for each suspect."""

    state: AnalysisState
    answers: AnsweredTransmissions
    messages: ExchangeMessages
    set_up: _SetUpExchanges
    rows: Int64Array  # of the suspects in the handshakes table. (suspects,)

    def summarise_last(self) -> tuple[dict[str, Any], dict[Subject, SubjectColumns]]:
        """Facts about the last exchange of each set-up."""
        state, messages, set_up, last = self.state, self.messages, self.set_up, self.set_up.last
        request, response = (messages.find(last, response=kind) for kind in (False, True))
        passed, suspect = self._find_passed()
        columns: dict[str, Any] = {}
        for kind, place, is_response in (("request", request, False), ("response", response, True)):
            before = messages.find(passed, response=is_response)
            columns |= {
                f"{kind}_bytes": take(messages.bytes, place, 0),
                f"{kind}_ip_fragmented": take(messages.ip_fragmented, place, 0).astype(np.bool_),
                f"{kind}_missing": messages.describe_missing_fragments(state, place),
                f"{kind}_passed_bytes": self._find_largest(messages.bytes, before, suspect),
            }
        asked = messages.find(passed, response=False)
        on_4500 = take(messages.on_4500, request, 0) | take(messages.on_4500, response, 0)
        late = messages.find_late_transmissions(state, request, response)
        ignored = np.bincount(self._number_suspects(state.messages.handshake[late]), minlength=len(last))
        is_auth = _find_named_types("IKE_AUTH")[self._get_types(set_up.rows)]
        columns |= {
            "last_type": TextColumn(build_type_names(), self._get_types(last)),
            "last_by": _name_sides(state.exchanges.initiator_asked[last]),
            "last_message_id": state.exchanges.message_id[last],
            "message_id_before": self._find_message_ids_before(),
            "sent": messages.describe_transmissions(request),
            "again": messages.count_retransmissions(request),
            "on_4500": on_4500.astype(np.bool_),
            "unprotected": state.unprotected[last],
            "responses": take(messages.transmissions, response, 0),
            "response_ike_bytes": _null_negative(take(messages.ike_bytes, response, -1)),
            "ignored": (ignored, take(messages.countable, request, True)),
            "answered": set_up.runs.size - 1,
            "auth_exchanges": set_up.runs.sum(is_auth.astype(np.int64)),
            "passed_sent": self._find_largest(messages.transmissions, asked, suspect),
            "informationals": self._count_informationals(),
        }
        return columns, {
            Subject.REQUEST: self._make_subject(last, response=False),
            Subject.RESPONSE: self._make_subject(last, response=True),
        }

    def summarise_set_ups(self) -> tuple[dict[str, Any], dict[Subject, SubjectColumns]]:
        """The noteworthy exchanges of each set-up."""
        rows, suspect = self.set_up.rows, self.set_up.suspect
        is_init = _find_named_types("IKE_SA_INIT")[self._get_types(rows)]
        init = self._choose_last(rows[is_init], suspect[is_init])
        request = self.messages.find(rows, response=False)
        asked = (request >= 0) & take(self.messages.countable, request, True)
        rows, suspect, sent = rows[asked], suspect[asked], self.messages.transmissions[request[asked]]
        order = np.argsort(sent, kind="stable")
        repeated = self._choose_last(rows[order], suspect[order])
        repeated_sent = self._choose_last(sent[order], suspect[order])
        rows, suspect = rows[sent == 1], suspect[sent == 1]
        order = np.argsort(self.answers.rtt_ns[rows], kind="stable")  # UNKNOWN is less than every time
        slow = self._choose_last(rows[order], suspect[order])
        large_bytes, large = self._find_large_messages()
        columns = {
            "first_auth_id": self._find_first_auth_ids(),
            "repeated_sent": _null_negative(repeated_sent),
            "timer_ns": self._find_timers(),
            "least_gap_ns": self._find_least_gaps(),
            "slow_rtt_ns": null_unknown(np.where(slow < 0, UNKNOWN, self.answers.rtt_ns[slow])),
            "large_bytes": _null_negative(large_bytes),
        }
        return columns, {
            Subject.INIT_RESPONSE: self._make_subject(init, response=True),
            Subject.REPEATED_REQUEST: self._make_subject(repeated, response=False),
            Subject.SLOW_REQUEST: self._make_subject(slow, response=False),
            Subject.LARGE_MESSAGE: large,
        }

    def summarise_later(
        self, decrypted: Mapping[int, DecryptedFacts]
    ) -> tuple[dict[str, Any], dict[Subject, SubjectColumns]]:
        """The last exchange after each set-up that has one; `decrypted` has facts by number of the suspect."""
        exchanges, messages = self.state.exchanges, self.messages
        rows = self._list_later_exchanges()
        later = self.find_later_exchanges()
        known = later >= 0
        request = messages.find(later, response=False)
        later_again, countable = messages.count_retransmissions(request)
        columns = {
            "next_message_id": self._find_next_message_ids(rows),
            "later_type": (TextColumn(build_type_names(), self._get_types(later)), known),
            "later_by": (_name_sides(exchanges.initiator_asked[later]), known),
            "later_sent": (messages.describe_transmissions(request), known),
            "later_again": (later_again, known & countable),
            "later_ended": (self.answers.end_ns[later] != UNKNOWN, known),
            "later_unprotected": (self.state.unprotected[later], known),
            "later_heard": self._find_heard_receivers(later),
            "later_ip_fragmented": (take(messages.ip_fragmented, request, 0).astype(np.bool_), known),
            "later_idle_ns": self._measure_idle_times(later),
        }
        return columns, {
            Subject.LATER_REQUEST: self._make_subject(later, response=False),
            Subject.REFUSAL: self._find_refusals(rows, decrypted),
        }

    def find_later_exchanges(self) -> Int64Array:
        """The last exchange after the set-up of each suspect; -1: it has none. (suspects,)"""
        rows = self._list_later_exchanges()
        return self._choose_last(rows, self._number_suspects(self.state.exchanges.handshake[rows]))

    def _list_later_exchanges(self) -> Int64Array:
        """The exchanges of suspects after the set-up."""
        rows = np.flatnonzero(~self.state.exchanges.set_up)
        return rows[self._is_suspect(self.state.exchanges.handshake[rows])]

    def find_refused_requests(self, handshakes: HandshakeColumns) -> dict[int, RefusedRequest]:
        """The request after the set-up that was refused, by number of the suspect."""
        return self._find_refused_requests(handshakes) | self._find_refused_quick_modes(handshakes)

    def _find_refused_requests(self, handshakes: HandshakeColumns) -> dict[int, RefusedRequest]:
        """Those of IKEv2."""
        exchanges, end_ns = self.state.exchanges, self.answers.end_ns
        later = np.flatnonzero(~exchanges.set_up & (exchanges.protocol == int(Protocol.IKEV2)))
        later = later[self._is_suspect(exchanges.handshake[later])]
        asking = later[np.isin(exchanges.exchange_type[later], _ASKING) & (end_ns[later] != UNKNOWN)]
        asking = asking[~self.state.unprotected[asking]]
        short = take(self.messages.ike_bytes, self.messages.find(asking, response=True), -1)
        found = {}
        for row in sort_distinct(exchanges.handshake[asking[short >= 0]]).tolist():
            decrypted = _read_requests(handshakes, self.state, row)
            low, high = np.searchsorted(exchanges.handshake[asking], [row, row + 1]).tolist()
            requests = [
                LaterRequest(
                    exchange,
                    int(exchanges.exchange_type[exchange]),
                    bool(exchanges.initiator_asked[exchange]),
                    int(exchanges.start_ns[exchange]),
                    int(end_ns[exchange]),
                    short_bytes,
                    decrypted.get(exchange, NOT_DECRYPTED),
                )
                for exchange, short_bytes in zip(asking[low:high].tolist(), short[low:high].tolist(), strict=True)
            ]
            low, high = np.searchsorted(exchanges.handshake[later], [row, row + 1]).tolist()
            latest_ns = {bool(exchanges.initiator_asked[at]): int(exchanges.start_ns[at]) for at in later[low:high]}
            form = int(handshakes.response_facts[row])
            chosen = None if form < 0 else handshakes.facts[form].chosen
            algorithms = (None, None) if chosen is None else (chosen.encryption, chosen.integrity)
            refused = find_refused_request(requests, latest_ns, *algorithms)
            if refused is not None:
                found[int(np.searchsorted(self.rows, row))] = refused
        return found

    def _find_refused_quick_modes(self, handshakes: HandshakeColumns) -> dict[int, RefusedRequest]:
        """Those of IKEv1, none without keys."""
        if handshakes.contents is None:
            return {}
        exchanges, end_ns = self.state.exchanges, self.answers.end_ns
        rows = np.flatnonzero(exchanges.protocol == int(Protocol.IKEV1))
        rows = rows[self._is_suspect(exchanges.handshake[rows])]
        quick = rows[exchanges.exchange_type[rows] == int(Ikev1ExchangeType.QUICK_MODE)]
        informational = rows[exchanges.exchange_type[rows] == int(Ikev1ExchangeType.INFORMATIONAL)]
        found = {}
        for row in np.intersect1d(exchanges.handshake[quick], exchanges.handshake[informational]).tolist():
            made, sent = (
                some[slice(*np.searchsorted(exchanges.handshake[some], [row, row + 1]))].tolist()
                for some in (quick, informational)
            )
            refused = _find_refused_quick_mode(handshakes, self.state, row, made, sent, end_ns)
            if refused is not None:
                found[int(np.searchsorted(self.rows, row))] = refused
        return found

    def make_refusal_subject(self, refused: Mapping[int, RefusedRequest]) -> SubjectColumns:
        """The message that refused each request, by number of the suspect."""
        exchanges = np.full(len(self.rows), -1, np.int64)
        response = np.ones(len(self.rows), np.bool_)
        for number, request in refused.items():
            response[number] = request.refusing_exchange is None
            exchanges[number] = request.exchange if request.refusing_exchange is None else request.refusing_exchange
        place = np.where(response, *(self.messages.find(exchanges, response=kind) for kind in (True, False)))
        return self._describe(exchanges, response, self.messages.frames, place)

    def _find_next_message_ids(self, later: Int64Array) -> tuple[Int64Array, BoolArray]:
        """The least message ID of a request of the initiator in exchanges after the set-ups, null: there is none."""
        exchanges = self.state.exchanges
        rows = later[exchanges.initiator_asked[later] & (exchanges.request_messages[later] > 0)]
        none = 1 << 32
        least = np.full(len(self.rows), none, np.int64)
        np.minimum.at(least, self._number_suspects(exchanges.handshake[rows]), exchanges.message_id[rows])
        return least, least < none

    def _find_refusals(self, later: Int64Array, decrypted: Mapping[int, DecryptedFacts]) -> SubjectColumns:
        """The message with the error notify that refused each suspect, as far as it was in the clear or decrypted.

        IKEv1 has no message with an error notify but the Informational one (RFC 2408, 4.8), which no exchange of the
        set-up has. A responder of IKEv2 refuses another version in an INFORMATIONAL response (RFC 7296, 2.5). `later`
        are the exchanges after the set-ups, `decrypted` facts by number of the suspect.
        """
        state, messages, last = self.state, self.messages, self.set_up.last
        exchanges = state.exchanges
        protocol, exchange_type = exchanges.protocol[later], exchanges.exchange_type[later]
        ikev1 = (protocol == int(Protocol.IKEV1)) & (exchange_type == int(Ikev1ExchangeType.INFORMATIONAL))
        ikev2 = (protocol == int(Protocol.IKEV2)) & (exchange_type == int(ExchangeType.INFORMATIONAL))
        ikev2 &= np.isin(exchanges.handshake[later], state.wrong_version)
        rows = later[ikev1 | ikev2]
        place = self._find_refusal(rows)
        first = messages.datagrams[messages.runs.start[place]]
        # in the reverse order, so that the first one counts
        rows = rows[(place >= 0) & (state.datagrams.flags[first] & FLAG_ENCRYPTED == 0)][::-1]
        informational = self._choose_last(rows, self._number_suspects(exchanges.handshake[rows]))
        for number, facts in decrypted.items():
            if informational[number] < 0 and facts.refusing_exchange is not None:
                informational[number] = facts.refusing_exchange
        response = (informational < 0) | (exchanges.protocol[informational] == int(Protocol.IKEV2))
        place = np.where(informational < 0, messages.find(last, response=True), self._find_refusal(informational))
        return self._describe(np.where(informational < 0, last, informational), response, messages.frames, place)

    def _find_refusal(self, informational: Int64Array) -> Int64Array:
        """The messages of informational exchanges that can refuse a request: those of IKEv2 have it in the response."""
        of_request, of_response = (self.messages.find(informational, response=side) for side in (False, True))
        is_ikev2 = self.state.exchanges.protocol[informational] == int(Protocol.IKEV2)
        return np.where(is_ikev2, of_response, of_request)

    def _is_suspect(self, handshake: Array) -> BoolArray:
        """Which handshakes (rows) are suspects."""
        place = np.minimum(np.searchsorted(self.rows, handshake), len(self.rows) - 1)
        return np.asarray(self.rows[place] == handshake)

    def _number_suspects(self, handshake: Array) -> Int64Array:
        """The numbers of the suspects in these rows of the handshakes table."""
        return np.searchsorted(self.rows, handshake)

    def _get_types(self, exchanges: Int64Array) -> Int64Array:
        """The types of exchanges: places in `build_type_names`."""
        columns = self.state.exchanges
        return columns.protocol[exchanges].astype(np.int64) * 256 + columns.exchange_type[exchanges]

    def _choose_last(self, values: Int64Array, suspect: Int64Array) -> Int64Array:
        """The last value of each suspect; -1: it has none. (suspects,)"""
        result = np.full(len(self.rows), -1, np.int64)
        result[suspect] = values  # of equal indexes the last one counts
        return result

    def _find_largest(
        self, values: Int64Array, messages: Int64Array, suspect: Int64Array
    ) -> tuple[Int64Array, BoolArray]:
        """The largest value of the messages (-1: none) of each suspect; null: it has none. (suspects,)"""
        result = np.full(len(self.rows), -1, np.int64)
        known = messages >= 0
        np.maximum.at(result, suspect[known], values[messages[known]])
        return _null_negative(result)

    def _find_message_ids_before(self) -> tuple[UInt32Array, BoolArray]:
        """The message ID of the exchange before the last one of each set-up, null: there is none. (suspects,)"""
        runs = self.set_up.runs
        return self.state.exchanges.message_id[self.set_up.rows[runs.end - 2]], runs.size > 1

    def _find_first_auth_ids(self) -> tuple[Int64Array, BoolArray]:
        """The least message ID of an IKE_AUTH exchange of each set-up, null: there is none. (suspects,)"""
        rows = self.set_up.rows
        is_auth = _find_named_types("IKE_AUTH")[self._get_types(rows)]
        none = 1 << 32
        first = np.full(len(self.rows), none, np.int64)
        np.minimum.at(first, self.set_up.suspect[is_auth], self.state.exchanges.message_id[rows[is_auth]])
        return first, first < none

    def _find_passed(self) -> tuple[Int64Array, Int64Array]:
        """The exchanges before the last one that ended, and the number of the suspect of each."""
        rows = self.set_up.rows
        ended = self.answers.end_ns[rows] != UNKNOWN
        ended[self.set_up.runs.end - 1] = False
        return rows[ended], self.set_up.suspect[ended]

    def _make_subject(self, exchanges: Int64Array, *, response: bool) -> SubjectColumns:
        """The request or the response of an exchange of each suspect (-1: none)."""
        message = self.messages.find(exchanges, response=response)
        return self._describe(exchanges, np.full(len(exchanges), response), self.messages.frames, message)

    def _describe(
        self, exchanges: Int64Array, response: BoolArray, frames: FlatListColumn, place: Int64Array
    ) -> SubjectColumns:
        """The message of an exchange of each suspect (-1: none), with the frames at a place (-1: none)."""
        known = exchanges >= 0
        with_none = FlatListColumn(frames.elements, np.append(frames.length, 0))
        return SubjectColumns(
            known=known,
            exchange_type=self._get_types(exchanges),
            message_id=self.state.exchanges.message_id[exchanges],
            response=response,
            from_initiator=known & (self.state.exchanges.initiator_asked[exchanges] != response),
            frames=with_none.select(np.where(place < 0, len(frames), place)),
        )

    def _find_large_messages(self) -> tuple[Int64Array, SubjectColumns]:
        """The largest IKE_INTERMEDIATE message of each set-up without IKE fragmentation, in IP fragments.

        Returns its bytes, -1: there is none, and the messages.
        """
        state, rows, transmission = self.state, self.messages.datagrams, self.messages.transmission_of
        is_large = (state.datagrams.ip_fragments[rows] > 0) & (state.datagrams.fragment[rows] == 0)
        is_large &= np.repeat(self.messages.countable, self.messages.runs.size)
        is_large &= state.messages.exchange_type[transmission] == int(ExchangeType.IKE_INTERMEDIATE)
        chosen = np.flatnonzero(is_large)
        key = get_message_keys(state, transmission[chosen])
        of_set_up = state.exchanges.set_up[key >> 1]
        key, rows = key[of_set_up], rows[chosen[of_set_up]]
        if not len(rows):
            none = np.full(len(self.rows), -1, np.int64)
            return none, self._make_subject(none, response=False)
        runs = RowGroups(find_group_starts(key))
        key, sizes = key[runs.start], runs.max(state.datagrams.bytes[rows].astype(np.int64))
        order = np.argsort(sizes, kind="stable")
        place = self._choose_last(order, self._number_suspects(state.exchanges.handshake[key[order] >> 1]))
        exchanges = take(key >> 1, place, -1)
        frames = list_first_frames(state, rows, runs)
        return take(sizes, place, -1), self._describe(exchanges, (key & 1).astype(np.bool_)[place], frames, place)

    def _count_informationals(self) -> Int64Array:
        """The Informational messages of IKEv1 that the receiver of each last request sent after it began.

        A receiver that refuses a request has no other message for it (RFC 2408, section 4.8).
        """
        exchanges, last = self.state.exchanges, self.set_up.last
        rows = np.flatnonzero(
            (exchanges.protocol == int(Protocol.IKEV1))
            & (exchanges.exchange_type == int(Ikev1ExchangeType.INFORMATIONAL))
        )
        rows = rows[self._is_suspect(exchanges.handshake[rows])]
        suspect = self._number_suspects(exchanges.handshake[rows])
        asked = last[suspect]
        by_receiver = exchanges.initiator_asked[rows] != exchanges.initiator_asked[asked]
        after = exchanges.start_ns[rows] > exchanges.start_ns[asked]
        return np.bincount(suspect[by_receiver & after], minlength=len(last))

    def _find_least_gaps(self) -> tuple[Int64Array, BoolArray]:
        """The least time from the last response to a repeated request to the next request of each set-up."""
        messages, rows, suspect = self.messages, self.set_up.rows, self.set_up.suspect
        request, response = (messages.find(rows, response=kind) for kind in (False, True))
        repeated = (take(messages.transmissions, request, 0) > 1) & (response >= 0)
        follows = repeated[:-1] & (suspect[:-1] == suspect[1:]) & (request[1:] >= 0)
        at = np.flatnonzero(follows)
        gaps = messages.first_ns[request[at + 1]] - messages.last_ns[response[at]]
        at, gaps = at[gaps >= 0], gaps[gaps >= 0]
        none = np.iinfo(np.int64).max
        least = np.full(len(self.rows), none, np.int64)
        np.minimum.at(least, suspect[at], gaps)
        return least, least < none

    def _find_timers(self) -> tuple[Int64Array, BoolArray]:
        """The first retransmission timer of the initiator of each set-up, null: no request was repeated.

        This is the lower median of the times between the first two transmissions of each request. On a slow link, where
        transmissions wait for others, some of these times are shorter than the timer.
        """
        state, transmission_of = self.state, self.messages.transmission_of
        # each transmission begins with its first datagram in the order of the datagrams
        order = argsort_stable(transmission_of)
        first = order[find_group_starts(transmission_of[order])]
        key = get_message_keys(state, transmission_of[first])
        is_request = (key & 1 == 0) & state.exchanges.set_up[key >> 1]
        is_request &= self.messages.countable[np.searchsorted(self.messages.key, key)]
        first, key = first[is_request], key[is_request]
        order = np.lexsort((first, state.messages.transmission[transmission_of[first]], key))
        times, key = state.datagrams.first_ns[self.messages.datagrams[first[order]]], key[order]
        starts = np.flatnonzero(find_group_starts(key))
        starts = starts[np.append(np.diff(starts), len(key) - starts[-1:]) > 1]  # those with two transmissions
        waited = times[starts + 1] - times[starts]
        suspect = self._number_suspects(state.exchanges.handshake[key[starts] >> 1])
        order = np.lexsort((waited, suspect))
        waited, suspect = waited[order], suspect[order]
        medians, known = np.zeros(len(self.rows), np.int64), np.zeros(len(self.rows), np.bool_)
        if len(suspect):
            runs = RowGroups(find_group_starts(suspect))
            medians[suspect[runs.start]] = waited[runs.start + (runs.size - 1) // 2]
            known[suspect] = True
        return medians, known

    def _measure_idle_times(self, later: Int64Array) -> tuple[Int64Array, BoolArray]:
        """From the last message of its receiver before each later exchange to its beginning, null: there is none."""
        start_ns = self.state.exchanges.start_ns
        suspect, times = self._list_received(later)
        heard = times < start_ns[later[suspect]]
        latest = np.full(len(later), UNKNOWN)
        np.maximum.at(latest, suspect[heard], times[heard])
        known = latest != UNKNOWN
        return np.where(known, start_ns[later] - np.where(known, latest, 0), 0), known

    def _find_heard_receivers(self, later: Int64Array) -> tuple[BoolArray, BoolArray]:
        """Whether the receiver of each later exchange sent something after its beginning, null: there is none."""
        suspect, times = self._list_received(later)
        heard = np.zeros(len(later), np.bool_)
        heard[suspect[times > self.state.exchanges.start_ns[later[suspect]]]] = True
        return heard, later >= 0

    def _list_received(self, later: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The suspect and the time of each datagram that was sent by the receiver of the suspect's later exchange."""
        state, transmission = self.state, self.messages.transmission_of
        if not (later >= 0).any():
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        handshake = state.messages.handshake[transmission]
        is_suspect = self._is_suspect(handshake)
        suspect = np.where(is_suspect, self._number_suspects(handshake), 0)
        exchange = np.where(is_suspect, later[suspect], -1)
        by_receiver = state.messages.from_initiator[transmission] != state.exchanges.initiator_asked[exchange]
        chosen = (exchange >= 0) & by_receiver
        return suspect[chosen], state.datagrams.first_ns[self.messages.datagrams[chosen]]


def _null_negative(values: Int64Array) -> tuple[Int64Array, BoolArray]:
    """Values with null in place of negative ones."""
    return values, values >= 0


def _name_sides(initiator: BoolArray) -> TextColumn:
    """Who sent something: the initiator of the IKE SA, or else the responder."""
    return TextColumn(("responder", "initiator"), initiator.astype(np.uint8))


def _find_named_types(name: str) -> BoolArray:
    """Which places in `build_type_names` have this name."""
    return np.array([one == name for one in build_type_names()], np.bool_)

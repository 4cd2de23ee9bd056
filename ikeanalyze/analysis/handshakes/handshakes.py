"""Group exchanges into handshakes: one row per IKE SA, with its outcome, proposals, authentication, NAT and times."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.analysis.exchanges.answers import AnsweredTransmissions
from ikeanalyze.analysis.exchanges.capture_point import NetworkPath
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN, ExchangeColumns
from ikeanalyze.analysis.exchanges.hip_exchange_types import I1_R1
from ikeanalyze.analysis.exchanges.init_messages import InitMessages
from ikeanalyze.analysis.exchanges.nat import classify_nat, read_phase1_nat
from ikeanalyze.analysis.exchanges.radius import RadiusExchange, find_aaa_timeouts
from ikeanalyze.analysis.exchanges.timing import AaaTimes, TimeBreakdown, compute_time_breakdown
from ikeanalyze.analysis.handshakes import auth_methods
from ikeanalyze.analysis.handshakes.auth_methods import AuthMethods, InitFacts, Phase1Facts
from ikeanalyze.analysis.handshakes.exchange_evidence import collect_exchange_evidence, find_last_times
from ikeanalyze.analysis.handshakes.outcome import (
    AAA_SILENT,
    ACCESS_REJECT,
    REKEYED,
    Evidence,
    Outcome,
    decide_outcome,
)
from ikeanalyze.analysis.handshakes.rekeyed import find_rekeyed_ike_sas
from ikeanalyze.analysis.messages.association import ASKS_AGAIN
from ikeanalyze.analysis.messages.capture_facts import WHOLE_CAPTURE, CaptureFacts
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt64Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.header import SPI_BYTES
from ikeanalyze.wire.registries import ikev1 as ikev1_registry
from ikeanalyze.wire.registries.ikev2 import AUTH_EXCHANGES, INIT_EXCHANGES, ExchangeType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.registries.radius import RadiusCode

if TYPE_CHECKING:
    from ikeanalyze.analysis.decryption.rekey_exchanges import RekeyedSa
    from ikeanalyze.analysis.handshakes.contents.authenticated_outcome import DecryptedOutcome
    from ikeanalyze.analysis.handshakes.contents.handshake_contents import CaptureContents
    from ikeanalyze.analysis.handshakes.hip.facts import HipFacts


# plain numbers: numpy compares them faster than members of an enum
_QUICK_MODE: Final = int(ikev1_registry.Ikev1ExchangeType.QUICK_MODE)
#: Different IKEv1 handshakes whose facts are kept for others.
_MAX_KNOWN: Final = 1024


class HandshakeEndpoints(Struct, frozen=True):
    """The hosts of each handshake: address codes and ports. (handshakes,) each"""

    initiator: UInt64Array
    initiator_port: npt.NDArray[np.uint16]
    responder: UInt64Array
    responder_port: npt.NDArray[np.uint16]


class HandshakeColumns(Struct, frozen=True):
    """Columns with one row per handshake, in order of their first datagrams; the mappings are by row."""

    start_ns: Int64Array  # of the first datagram
    protocol: UInt8Array
    spi_i: UInt64Array
    spi_r: UInt64Array
    ends: HandshakeEndpoints
    rekeyed: BoolArray  # IKE SAs that replaced another one: not handshakes
    outcome: UInt8Array  # undefined for rekeyed IKE SAs without predecessor in `replaces`
    reason: Mapping[int, str]
    vantage: UInt8Array
    breakdown: TimeBreakdown
    rtt_source: UInt8Array  # as in `NetworkPath`
    uncertain: BoolArray  # the times may be wrong (see `answers`)
    one_sided: npt.NDArray[np.int8]  # 0: only the initiator's messages, 1: only the responder's, -1: both
    nat: npt.NDArray[np.int8]  # index into nat.WORDS
    request_facts: Int64Array  # index into `facts` of the last IKE_SA_INIT request, -1: not in the capture
    response_facts: Int64Array  # the same of the response
    facts: Sequence[InitFacts]  # distinct
    auths: Sequence[AuthMethods]
    auth: Int64Array  # index into `auths`, -1: unknown
    extra_round_trips: Mapping[int, list[str]]
    extra_round_trip_of_exchange: Mapping[int, str]
    pairs: Mapping[int, list[RadiusExchange]]
    replaces: Mapping[int, int]  # row of the IKE SA that this one replaced
    hits: Mapping[int, tuple[bytes, bytes]]  # HIP only, see `AnalysisState`
    contents: "CaptureContents | None" = None  # of decrypted messages; None: no keys were given

    def __len__(self) -> int:
        return len(self.start_ns)


class HandshakeSources(Struct, frozen=True, dict=True):
    """The results of the previous steps."""

    state: AnalysisState
    answers: AnsweredTransmissions
    path: NetworkPath
    pairs: Mapping[int, list[RadiusExchange]]  # RADIUS exchanges of each handshake
    aaa_times: AaaTimes
    contents: "CaptureContents | None"  # contents of decrypted messages; None: no keys were given
    facts: CaptureFacts = WHOLE_CAPTURE

    @cached_property
    def proofs(self) -> "Mapping[int, DecryptedOutcome]":
        """What the decoded messages of each handshake prove, by row."""
        if self.contents is None:
            return {}
        proofs = {row: facts.proof for row, facts in self.contents.facts.items()}
        if any(proof.before_auth for proof in proofs.values()):
            exchanges = self.state.exchanges
            is_auth = np.isin(exchanges.exchange_type, AUTH_EXCHANGES) & (exchanges.protocol == Protocol.IKEV2)
            with_auth = set(exchanges.handshake[is_auth].tolist())
            proofs = {row: proof for row, proof in proofs.items() if not (proof.before_auth and row in with_auth)}
        return proofs


class _DistinctFacts:
    """Each distinct value of the facts once: most handshakes of a testbed, or of a flood, have the same."""

    def __init__(self) -> None:
        self.all: list[InitFacts] = []
        self._places: dict[InitFacts, int] = {}

    def add(self, facts: InitFacts) -> int:
        """The place of these facts in `all`."""
        place = self._places.setdefault(facts, len(self.all))
        if place == len(self.all):
            self.all.append(facts)
        return place


def group_handshakes(sources: HandshakeSources) -> HandshakeColumns:
    """Build the handshakes from the results of the previous steps."""
    state = sources.state
    datagrams, association, exchanges = state.datagrams, state.association, state.exchanges
    first_rows = association.find_first_rows()
    request, response = state.summary.request, state.summary.response
    endpoints = _get_endpoints(state, _find_direct_rows(state, first_rows), request)
    phase1 = _collect_phase1_facts(state, datagrams.protocol[first_rows])
    hip = _collect_hip_facts(state)
    facts = _DistinctFacts()
    # no message, -1, stays -1
    facts_of_form = np.array([*(facts.add(auth_methods.extract_init_facts(view)) for view in state.inits.views), -1])
    init_places = state.inits.find(request), state.inits.find(response)
    request_facts, response_facts = (
        facts_of_form[state.inits.take(state.inits.form, places)] for places in init_places
    )
    # an error before a further request did not end the handshake
    final_facts = np.where(_is_followed(state, request, response), -1, response_facts)
    wanted_requests = _find_wanted_requests(facts.all, final_facts)
    errors = _find_errors(facts.all, final_facts, phase1, hip, sources)
    one_sided = state.summary.one_sided
    evidence = _collect_evidence(sources, first_rows, errors, one_sided)
    outcome = decide_outcome(evidence)
    breakdown = _compute_breakdown(sources, endpoints, evidence, outcome, datagrams.first_ns[first_rows])
    auths, auth = _find_auth_methods(sources, phase1, hip)
    extra_of_exchange, extra = _find_extra_round_trips(state)
    if sources.contents is not None:
        refused = sources.contents.list_refused_methods()
        extra_of_exchange |= dict.fromkeys(refused, NotifyType.INVALID_KE_PAYLOAD.label)
    spi_i = datagrams.spi_i[np.where(request >= 0, request, first_rows)]
    spi_r = state.summary.spi_r
    replaces: dict[int, int] = {}
    for row, (predecessor, created) in _match_rekeyed_sas(sources.contents, state.capture, spi_i, spi_r).items():
        replaces[row] = predecessor
        # the messages of its predecessor set it up and prove that it was established
        outcome[row] = Outcome.ESTABLISHED
        proposals = auth_methods.extract_proposal_facts(created.offered, created.chosen)
        request_facts[row] = response_facts[row] = facts.add(proposals)
    in_clear = state.exchange_of_message[state.in_clear]
    rekeyed = find_rekeyed_ike_sas(
        exchanges, endpoints.initiator, endpoints.responder, replaces, in_clear, sources.facts
    )
    others: Mapping[int, HipFacts | Phase1Facts] = {**hip, **phase1}
    for row, fact in others.items():
        request_facts[row], response_facts[row] = facts.add(fact.request), facts.add(fact.response)
    return HandshakeColumns(
        start_ns=datagrams.first_ns[first_rows],
        protocol=datagrams.protocol[first_rows],
        spi_i=spi_i,
        spi_r=spi_r,
        ends=endpoints,
        rekeyed=rekeyed,
        outcome=outcome,
        reason=_select_reasons(sources, errors, wanted_requests, outcome, rekeyed),
        vantage=sources.path.vantage,
        breakdown=breakdown,
        rtt_source=sources.path.rtt_source,
        uncertain=_find_uncertain_set_ups(sources, breakdown),
        one_sided=one_sided,
        nat=_classify_nat(state, *init_places, endpoints, phase1),
        request_facts=request_facts,
        response_facts=response_facts,
        facts=facts.all,
        auths=auths,
        auth=auth,
        extra_round_trips=extra,
        extra_round_trip_of_exchange=extra_of_exchange,
        pairs=sources.pairs,
        replaces=replaces,
        hits=state.hits,
        contents=sources.contents,
    )


def _compute_breakdown(
    sources: HandshakeSources,
    endpoints: HandshakeEndpoints,
    evidence: Evidence,
    outcome: UInt8Array,
    start_ns: Int64Array,
) -> TimeBreakdown:
    """The set-up times of the handshakes that the capture has from beginning to end."""
    complete = (outcome == int(Outcome.COMPLETED)) | (outcome == int(Outcome.ESTABLISHED))
    # a capture may lack messages of a handshake whose other messages prove success
    complete &= evidence.begun & ~evidence.hole & evidence.finished
    # if all packets have the same time, they have none of their own, or the clock is too coarse
    complete &= find_last_times(sources.state) != start_ns
    hosts = endpoints.initiator, endpoints.responder
    state, answers, path = sources.state, sources.answers, sources.path
    transmissions = None
    if path.rates is not None:  # of recordings of the lab alone
        from ikeanalyze.analysis.exchanges.transmission_times import compute_transmission_times

        transmissions = compute_transmission_times(state, answers, path.rates)
    return compute_time_breakdown(
        state.exchanges, answers, complete, hosts, sources.aaa_times, path, sources.facts, transmissions
    )


def _find_uncertain_set_ups(sources: HandshakeSources, breakdown: TimeBreakdown) -> BoolArray:
    """Which handshakes have a set-up time with an uncertain exchange in it. (handshakes,)"""
    exchanges = sources.state.exchanges
    uncertain = np.zeros(len(breakdown.setup_ns), np.bool_)
    uncertain[exchanges.handshake[sources.answers.uncertain & exchanges.set_up]] = True
    return np.asarray(uncertain & (breakdown.setup_ns != UNKNOWN))


def _find_direct_rows(state: AnalysisState, first_rows: Int64Array) -> Int64Array:
    """A datagram of each handshake that one peer sent directly to the other: the first one, but for HIP. (handshakes,)

    An I1 may go to a rendezvous server, or come from there; all later packets have the addresses of both peers
    (RFC 8004, section 3.3).
    """
    if not state.hits:
        return first_rows
    datagrams = state.datagrams
    rows = np.flatnonzero(
        (datagrams.protocol == Protocol.HIP) & ((datagrams.exchange_type != I1_R1) | datagrams.is_response)
    )
    direct = first_rows.copy()
    handshake, first = np.unique(state.association.handshake[rows], return_index=True)
    direct[handshake] = rows[first]
    return direct


def _get_endpoints(state: AnalysisState, head: Int64Array, request: Int64Array) -> HandshakeEndpoints:
    """The endpoints in the datagrams `head`; the responder is the receiver of the last `request` (-1: none)."""
    datagrams = state.datagrams
    by_initiator = state.association.from_initiator[head]
    responder = np.where(by_initiator, datagrams.destination[head], datagrams.source[head])
    responder_port = np.where(by_initiator, datagrams.destination_port[head], datagrams.source_port[head])
    # a REDIRECT may have led from one gateway, and one initiator SPI, to another: the last one counts
    return HandshakeEndpoints(
        initiator=np.where(by_initiator, datagrams.source[head], datagrams.destination[head]),
        initiator_port=np.where(by_initiator, datagrams.source_port[head], datagrams.destination_port[head]),
        responder=np.where(request >= 0, datagrams.destination[request], responder),
        responder_port=np.where(request >= 0, datagrams.destination_port[request], responder_port),
    )


def _match_rekeyed_sas(
    contents: "CaptureContents | None", capture: Int64Array, spi_i: UInt64Array, spi_r: UInt64Array
) -> "dict[int, tuple[int, RekeyedSa]]":
    """By row: the handshake whose IKE SA this one replaced, and the negotiation of the new one."""
    rekeyed = {} if contents is None else contents.index_rekeyed_sas(capture)
    if not rekeyed:
        return {}
    rows = np.flatnonzero(np.isin(spi_i, np.fromiter((spi for _, spi, _ in rekeyed), np.uint64, len(rekeyed))))
    keys = zip(capture[rows].tolist(), spi_i[rows].tolist(), spi_r[rows].tolist(), strict=True)
    return {row: rekeyed[key] for row, key in zip(rows.tolist(), keys, strict=True) if key in rekeyed}


def _is_followed(state: AnalysisState, request: Int64Array, response: Int64Array) -> BoolArray:
    """Whether another request followed the last response. (handshakes,)"""
    followed = (request >= 0) & (response >= 0)
    rows = np.flatnonzero(followed)
    asked, answered = (state.exchange_of_message[state.message_of_datagram[of[rows]]] for of in (request, response))
    followed[rows] = asked > answered
    return followed


def _collect_hip_facts(state: AnalysisState) -> "Mapping[int, HipFacts]":
    """The facts of HIP handshakes, by row."""
    if not state.hits:
        return {}
    # most captures do not contain HIP
    from ikeanalyze.analysis.handshakes.hip.facts import collect_hip_facts

    return collect_hip_facts(state)


def _collect_phase1_facts(state: AnalysisState, protocol: UInt8Array) -> dict[int, Phase1Facts]:
    """The facts of IKEv1 handshakes in their clear messages, by row."""
    rows = np.flatnonzero(protocol == Protocol.IKEV1).tolist()
    if not rows:
        return {}
    messages: dict[int, list[tuple[bool, bytes]]] = {row: [] for row in rows}
    # of handshakes that differ only in cookies, as those of a flood do, one is parsed
    known: dict[tuple[tuple[bool, bytes], ...], Phase1Facts] = {}
    for row in np.flatnonzero(state.datagrams.is_ikev1).tolist():
        data = state.get_clear_ikev1(row)
        handshake = int(state.association.handshake[row])
        if data is not None and handshake in messages:  # one of IKEv2 may have been refused with IKEv1
            messages[handshake].append((bool(state.association.from_initiator[row]), data))
    facts: dict[int, Phase1Facts] = {}
    while messages:
        handshake, sent = messages.popitem()
        key = tuple((from_initiator, data[2 * SPI_BYTES :]) for from_initiator, data in sent)
        if key not in known:
            if len(known) >= _MAX_KNOWN:
                known.clear()
            known[key] = auth_methods.extract_phase1_facts(sent)
        facts[handshake] = known[key]
    return facts


def _find_extra_round_trips(state: AnalysisState) -> tuple[dict[int, str], dict[int, list[str]]]:
    """The notifies with which responders asked for another IKE_SA_INIT request, by exchange and by handshake."""
    exchanges = state.exchanges
    init = np.flatnonzero(np.isin(exchanges.exchange_type, INIT_EXCHANGES))
    init = init[exchanges.protocol[init] == Protocol.IKEV2]
    followed = init[:-1][exchanges.handshake[init[1:]] == exchanges.handshake[init[:-1]]]
    if not len(followed):
        return {}, {}
    of_datagram = state.exchange_of_message[state.message_of_datagram]
    rows = np.flatnonzero(np.isin(of_datagram, followed) & state.datagrams.is_response)
    inits = state.inits
    by_exchange: dict[int, str] = {}
    for row, form in zip(rows.tolist(), inits.look_up(inits.form, rows).tolist(), strict=True):
        for notify_type in inits.views[form].notify_types:
            if notify_type in ASKS_AGAIN:
                by_exchange.setdefault(int(of_datagram[row]), ASKS_AGAIN[notify_type])
    by_handshake: dict[int, list[str]] = {}
    for exchange in sorted(by_exchange):
        by_handshake.setdefault(int(exchanges.handshake[exchange]), []).append(by_exchange[exchange])
    return by_exchange, by_handshake


def _find_errors(
    facts: list[InitFacts],
    response_facts: Int64Array,
    phase1: Mapping[int, Phase1Facts],
    hip: "Mapping[int, HipFacts]",
    sources: HandshakeSources,
) -> dict[int, str]:
    """The errors that the capture shows without decryption, by handshake.

    Error notifies of the last IKE_SA_INIT response, of IKEv1's clear messages and of HIP, Access-Reject, and AAA
    servers that did not answer.
    """
    reasons: dict[int, str] = {}
    failing = np.array([fact.error is not None for fact in facts] + [False])
    for row in np.flatnonzero(failing[response_facts]).tolist():
        reasons[row] = facts[response_facts[row]].error or ""
    exchanges = sources.state.exchanges
    reasons |= dict.fromkeys(sources.state.wrong_version.tolist(), NotifyType.INVALID_MAJOR_VERSION.label)
    others: Mapping[int, HipFacts | Phase1Facts] = {**_select_unfinished_phase1(phase1, exchanges), **hip}
    for row, fact in others.items():
        if fact.error is not None:
            reasons[row] = fact.error
    for row, exchanged in sources.pairs.items():
        if any(pair.response_view and pair.response_view.code == RadiusCode.ACCESS_REJECT for pair in exchanged):
            reasons[row] = ACCESS_REJECT
    return reasons | dict.fromkeys(find_aaa_timeouts(sources.pairs, exchanges), AAA_SILENT)


def _find_wanted_requests(facts: list[InitFacts], response_facts: Int64Array) -> dict[int, str]:
    """The notify of the last IKE_SA_INIT response by which the responder asked for another request, by handshake."""
    wanted = np.array([fact.wanted is not None for fact in facts] + [False])
    return {row: facts[response_facts[row]].wanted or "" for row in np.flatnonzero(wanted[response_facts]).tolist()}


def _select_reasons(
    sources: HandshakeSources,
    errors: Mapping[int, str],
    wanted_requests: Mapping[int, str],
    outcome: UInt8Array,
    rekeyed: BoolArray,
) -> dict[int, str]:
    """The reasons of handshakes: of failed ones from decrypted contents, or else from `errors`.

    Those of half-open and cut ones are in `wanted_requests`, or INVALID_SPI.
    """
    proved = {row: proof.reason for row, proof in sources.proofs.items() if proof.reason is not None}
    failed = {row: text for row, text in {**errors, **proved}.items() if outcome[row] == Outcome.FAILED}
    unfinished = (Outcome.HALF_OPEN, Outcome.CUT)
    about_esp = dict.fromkeys(sources.state.about_esp.tolist(), NotifyType.INVALID_SPI.label)
    stopped = {row: text for row, text in {**wanted_requests, **about_esp}.items() if outcome[row] in unfinished}
    return failed | stopped | dict.fromkeys(np.flatnonzero(rekeyed).tolist(), REKEYED)


def _select_unfinished_phase1(phase1: Mapping[int, Phase1Facts], exchanges: ExchangeColumns) -> dict[int, Phase1Facts]:
    """Keep the IKEv1 handshakes without an answered quick mode, and those whose error is not that of an ESP packet.

    A host may send INVALID-SPI for an ESP packet, with any cookies and outside of all exchanges.
    """
    if not phase1:
        return {}
    from ikeanalyze.wire.registries.ikev1_notifies import Ikev1NotifyType

    of_esp = Ikev1NotifyType.INVALID_SPI.label
    quick = (exchanges.protocol == Protocol.IKEV1) & (exchanges.exchange_type == _QUICK_MODE)
    agreed = set(exchanges.handshake[quick & (exchanges.response_messages > 0)].tolist())
    begun = set(exchanges.handshake[exchanges.set_up].tolist())
    return {row: fact for row, fact in phase1.items() if row not in agreed and (row in begun or fact.error != of_esp)}


def _collect_evidence(
    sources: HandshakeSources, head: Int64Array, refused: Iterable[int], one_sided: npt.NDArray[np.int8]
) -> Evidence:
    """Collect the evidence for `decide_outcome`.

    Args:
        sources: the results of the previous steps.
        head: row of the first datagram of each handshake.
        refused: handshakes with an error in clear messages, or of the AAA server.
        one_sided: as in `HandshakeColumns`.
    """
    state, count = sources.state, sources.state.association.count
    datagrams, proofs = state.datagrams, sources.proofs

    def marked(rows: Iterable[int]) -> BoolArray:
        mask = np.zeros(count, np.bool_)
        mask[list(rows)] = True
        return mask

    undone = marked(row for row, proof in proofs.items() if proof.undone)
    shown = collect_exchange_evidence(state, sources.answers, sources.pairs, undone)
    return Evidence(
        proved_failed=marked(row for row, proof in proofs.items() if proof.outcome is Outcome.FAILED),
        proved_established=marked(row for row, proof in proofs.items() if proof.outcome is Outcome.ESTABLISHED),
        refused=marked(refused),
        begun=shown.begun | (datagrams.is_ikev1[head] & (datagrams.spi_r[head] == 0)),
        one_sided=one_sided >= 0,
        hole=shown.hole,
        last_unanswered=shown.last_unanswered,
        last_repeated=shown.last_repeated,
        finished=shown.finished,
        asked_again=shown.asked_again,
        waited_ns=_measure_waits(state),
    )


def _measure_waits(state: AnalysisState) -> Int64Array:
    """From the last message of each set-up to the end of the capture, in ns; 0 without set-up. (handshakes,)"""
    last_ns = find_last_times(state)
    return np.where(last_ns == UNKNOWN, 0, state.last_ns[state.capture] - last_ns)


def _classify_nat(
    state: AnalysisState,
    request: Int64Array,
    response: Int64Array,
    endpoints: HandshakeEndpoints,
    phase1: Mapping[int, Phase1Facts],
) -> npt.NDArray[np.int8]:
    """The sides behind a NAT, from clear messages and translated endpoints: index into `nat.WORDS`. (handshakes,)

    `request` and `response` are the places of the last ones among the IKE_SA_INIT messages, -1: none.
    """
    inits, association = state.inits, state.association
    known = {*state.translated, *state.translated.values()}
    end = endpoints.initiator << np.uint64(16) | endpoints.initiator_port
    translated = np.where(np.isin(end, np.fromiter(known, np.uint64, len(known))), 1, -1).astype(np.int8)
    sender, receiver = inits.sender_differs, inits.receiver_differs
    initiator = np.maximum(inits.take(sender, request), inits.take(receiver, response))
    initiator = np.maximum(initiator, translated)
    responder = np.maximum(inits.take(receiver, request), inits.take(sender, response))
    # hashes of the initiator are those of the sender in requests, and of the receiver in responses
    hidden = [np.zeros(association.count, np.bool_), np.zeros(association.count, np.bool_)]
    for places, sides in ((request, (sender, receiver)), (response, (receiver, sender))):
        truncated = _are_truncated(inits, places)
        for of_side, differs in zip(hidden, sides, strict=True):
            of_side |= truncated & (inits.take(differs, places) < 0)
    truncated_phase1 = [row for row, facts in phase1.items() if facts.request.truncated or facts.response.truncated]
    for of_side in hidden:
        of_side[truncated_phase1] = True
    of_phase1 = read_phase1_nat(state.datagrams, association, state.get_clear_ikev1, state.addresses)
    return classify_nat(
        np.maximum(initiator, of_phase1[0]), np.maximum(responder, of_phase1[1]), (hidden[0], hidden[1])
    )


def _are_truncated(inits: InitMessages, places: Int64Array) -> BoolArray:
    """Whether the capture has only the beginning of the messages at these places; not of place -1."""
    truncated = np.array([*(view.is_truncated for view in inits.views), False], np.bool_)
    return truncated[inits.take(inits.form, places)]


def _find_auth_methods(
    sources: HandshakeSources, phase1: Mapping[int, Phase1Facts], hip: "Mapping[int, HipFacts]"
) -> tuple[list[AuthMethods], Int64Array]:
    """The authentication methods, and for each handshake an index into them or -1 (unknown).

    They come from decrypted payloads, RADIUS, HIP and IKEv1's proposal, or else are guessed from the messages' sizes.
    """
    count = sources.state.association.count
    exchanges = sources.state.exchanges
    sums = sum_auth_exchanges(exchanges, count)
    asked, answered = (
        sums[f"{sent}_bytes"] / np.maximum(sums[f"{sent}_messages"], 1) for sent in ("request", "response")
    )
    # the sizes of messages that were decrypted before are others
    decrypted = sources.state.messages.handshake[sources.state.decrypted_requests]
    rounds = sums["exchanges"]
    if len(decrypted):
        rounds = rounds.copy()
        rounds[decrypted] = 0
    methods, auth = auth_methods.guess_auths(rounds, asked, answered)

    known = {row: fact.auth for row, fact in phase1.items() if fact.auth is not None}
    known |= {row: fact.auth for row, fact in hip.items() if fact.auth is not None}
    for row, pairs in sources.pairs.items():
        if row in phase1 and phase1[row].auth is not None:
            continue
        known[row] = AuthMethods("eap", None, _get_eap_method(pairs), guessed=False)
    known |= {row: proof.auth for row, proof in sources.proofs.items() if proof.auth is not None}
    places: dict[AuthMethods, int] = {}
    for row, method in known.items():
        place = places.setdefault(method, len(methods))
        if place == len(methods):
            methods.append(method)
        auth[row] = place
    return methods, auth


def sum_auth_exchanges(exchanges: ExchangeColumns, count: int) -> dict[str, Int64Array]:
    """The number of IKE_AUTH exchanges of each handshake, and their messages and bytes. (handshakes,) each"""
    if core.compiled is not None:
        return core.compiled.sum_auth_exchanges(exchanges, count)
    rows = (exchanges.exchange_type == int(ExchangeType.IKE_AUTH)) & (exchanges.protocol == Protocol.IKEV2)
    handshake = exchanges.handshake[rows]
    names = ("request_messages", "request_bytes", "response_messages", "response_bytes")
    return {
        "exchanges": np.bincount(handshake, minlength=count),
        **{
            # far below 2**53, where float64 weights are exact
            name: np.bincount(handshake, getattr(exchanges, name)[rows], minlength=count).astype(np.int64)
            for name in names
        },
    }


def _get_eap_method(pairs: Sequence[RadiusExchange]) -> str | None:
    """The method of the EAP messages in RADIUS packets."""
    from ikeanalyze.wire.eap.packet import get_eap_method  # here, because few captures have RADIUS

    eap = [view.eap_message for pair in pairs for view in (pair.view, pair.response_view) if view is not None]
    return get_eap_method([message for message in eap if message])

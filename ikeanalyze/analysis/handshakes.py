"""Exchanges to handshakes: one row per IKE SA, with everything that its clear messages and their sizes and times tell."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.association import ASKS_AGAIN, IKE_SA_INIT, IKE_SESSION_RESUME, Association
from ikeanalyze.analysis.conversation import Conversation
from ikeanalyze.analysis.exchanges import UNKNOWN, Exchanges, unheard
from ikeanalyze.analysis.hip_types import I1_R1, I2_R2, NOTIFY
from ikeanalyze.analysis.methods import (
    AuthMethods,
    InitFacts,
    Phase1Facts,
    guess_auths,
    init_facts,
    phase1_facts,
    proposal_facts,
)
from ikeanalyze.analysis.nat import describe, read_phase1_nat
from ikeanalyze.analysis.outcome import Evidence, Outcome, decide
from ikeanalyze.analysis.radius import RadiusPair, ended_by_silence
from ikeanalyze.analysis.timing import AaaTimes, Breakdown, Vantage, break_down, pairs_of_hosts, vantages
from ikeanalyze.analysis.units import Units
from ikeanalyze.capture.columns import BoolArray, Float64Array, Int64Array, UInt8Array, UInt64Array
from ikeanalyze.capture.datagrams import Protocol
from ikeanalyze.wire.eap import method_of

if TYPE_CHECKING:
    from ikeanalyze.analysis.hip_facts import HipFacts
    from ikeanalyze.analysis.insides import Inside, Insides
    from ikeanalyze.analysis.rekeying import Successor


_IKE_AUTH: Final = 35
_GSA_AUTH: Final = 39
_MAIN_MODE: Final = 2
_AGGRESSIVE: Final = 4
_QUICK_MODE: Final = 32
_IKEV1_INFORMATIONAL: Final = 5
#: First payload of an IKE_SA_INIT response that refuses.
_NOTIFY: Final = 41
_ACCESS_REJECT: Final = 3
#: Reason of a handshake that is none: the IKE SA replaced another one.
REKEYED: Final = "REKEYED"
_ACCESS_CHALLENGE: Final = 11
#: Reason of a handshake whose AAA server did not answer, however often it was asked, until the responder ended it.
AAA_SILENT: Final = "AAA server silent"


@dataclass(slots=True)
class Handshakes:
    """Columns of one length, one row per handshake, in order of their first units."""

    start_ns: Int64Array  # of the first unit
    protocol: UInt8Array
    spi_i: UInt64Array
    spi_r: UInt64Array
    initiator: UInt64Array  # address codes
    initiator_port: npt.NDArray[np.uint16]
    responder: UInt64Array
    responder_port: npt.NDArray[np.uint16]
    outcome: UInt8Array
    reason: dict[int, str]
    vantage: UInt8Array
    breakdown: Breakdown
    rtt_given: bool
    one_sided: npt.NDArray[np.int8]  # 0: initiator's messages alone, 1: responder's, -1: both
    nat: npt.NDArray[np.int8]  # index into nat.WORDS
    #: Facts of the clear messages: an index into `facts` for the request and the response of IKE_SA_INIT, -1: not seen.
    request_form: Int64Array
    response_form: Int64Array
    facts: list[InitFacts]
    phase1: dict[int, Phase1Facts]
    auths: list[AuthMethods]
    auth: Int64Array  # index into `auths`, -1: not known
    extra_round_trips: dict[int, list[str]]
    extra_round_trip_of_exchange: dict[int, str]
    pairs: dict[int, list[RadiusPair]] = field(default_factory=dict)
    replaces: dict[int, int] = field(default_factory=dict)  # rows of the IKE SAs that some took over from
    hits: Mapping[int, tuple[bytes, bytes]] = field(default_factory=dict)  # of HIP, see Conversation
    inside: "Mapping[int, Inside] | None" = None  # what decrypted messages tell, by row; None: no keys were given

    def __len__(self) -> int:
        return len(self.start_ns)


def make_handshakes(
    conversation: Conversation,
    pairs: list[RadiusPair],
    aaa: AaaTimes,
    vantage: Vantage | None,
    rtt_ns: int | None,
    insides: "Insides | None" = None,
) -> Handshakes:
    """The handshakes of a capture.

    `aaa` is the time that each exchange waited for the AAA server; `insides` what decrypted messages
    tell.
    """
    inside = {} if insides is None else insides.of
    units, association = conversation.units, conversation.association
    count = association.count
    head = np.zeros(count, np.int64)
    head[association.handshake[::-1]] = np.arange(len(units))[::-1]
    first_is_initiators = association.from_initiator[head]
    protocol = units.protocol[head]
    initiator = np.where(first_is_initiators, units.source[head], units.destination[head])
    responder = np.where(first_is_initiators, units.destination[head], units.source[head])
    initiator_port = np.where(first_is_initiators, units.source_port[head], units.destination_port[head])
    responder_port = np.where(first_is_initiators, units.destination_port[head], units.source_port[head])

    request, response = _last_inits(units, association, count)
    # a REDIRECT may have led from one gateway, and one initiator SPI, to another: the last one counts
    redirected = request >= 0
    responder = np.where(redirected, units.destination[request], responder)
    responder_port = np.where(redirected, units.destination_port[request], responder_port)
    inits = conversation.inits
    request_form, response_form = inits.forms(request), inits.forms(response)
    facts = [init_facts(view) for view in inits.inits.views]
    own_pairs: dict[int, list[RadiusPair]] = {}
    for pair in pairs:
        if pair.handshake is not None:
            own_pairs.setdefault(pair.handshake, []).append(pair)
    phase1 = _phase1(conversation, protocol)
    hip = _hip(conversation)
    extra_of_exchange, extra = _extra_round_trips(conversation)
    # what a further request followed was not the end; nor was an error once IKEv1's quick mode had been answered
    final_form = np.where(_followed(conversation, request, response), -1, response_form)
    agreed = _agreed(conversation.exchanges, count)
    unsettled = {row: fact for row, fact in phase1.items() if not agreed[row]}
    reason = _reasons(facts, final_form, unsettled, own_pairs)
    reason.update({row: fact.error for row, fact in hip.items() if fact.error is not None})
    reason.update(dict.fromkeys(ended_by_silence(own_pairs, conversation.exchanges), AAA_SILENT))
    evidence = _evidence(conversation, head, reason, own_pairs, inside)
    outcome = decide(evidence)
    reason.update({row: one.proof.reason for row, one in inside.items() if one.proof.reason is not None})
    whole = (outcome == Outcome.COMPLETED) | (outcome == Outcome.ESTABLISHED)
    whole &= evidence.begun & ~evidence.hole  # what proves success may be all that the capture has

    auths, auth = _auth(conversation, count, own_pairs, phase1, hip, inside)
    side = vantages(association.handshake, association.from_initiator, units.ttl, count, vantage)
    hosts = pairs_of_hosts(initiator, responder)
    breakdown = break_down(conversation.exchanges, whole, side, hosts, aaa, rtt_ns)
    spi_i = units.spi_i[np.where(request >= 0, request, head)]
    spi_r = _responder_spis(units, association, count)
    replaces: dict[int, int] = {}
    for row, (before, successor) in _replaced(insides, conversation.capture, spi_i, spi_r).items():
        replaces[row] = before
        # made and proved by what its predecessor's messages say
        outcome[row] = Outcome.ESTABLISHED
        request_form[row] = response_form[row] = len(facts)
        facts.append(proposal_facts(successor.offered, successor.chosen))
    for row, fact in hip.items():
        request_form[row], response_form[row] = len(facts), len(facts) + 1
        facts += [fact.request, fact.response]
    return Handshakes(
        start_ns=units.first_ns[head],
        protocol=protocol,
        spi_i=spi_i,
        spi_r=spi_r,
        initiator=initiator,
        initiator_port=initiator_port,
        responder=responder,
        responder_port=responder_port,
        outcome=outcome,
        reason={
            **{row: text for row, text in reason.items() if outcome[row] == Outcome.FAILED},
            **dict.fromkeys([*_rekeyed(conversation.exchanges, outcome), *replaces], REKEYED),
        },
        vantage=side,
        breakdown=breakdown,
        rtt_given=rtt_ns is not None,
        one_sided=_one_sided(units, association, count),
        nat=_nat(conversation, request, response, _translated(conversation, initiator, initiator_port)),
        request_form=request_form,
        response_form=response_form,
        facts=facts,
        phase1=phase1,
        auths=auths,
        auth=auth,
        extra_round_trips=extra,
        extra_round_trip_of_exchange=extra_of_exchange,
        pairs=own_pairs,
        replaces=replaces,
        hits=conversation.hits,
        inside=None if insides is None else insides.of,
    )


def _replaced(
    insides: "Insides | None",
    capture: Int64Array,
    spi_i: UInt64Array,
    spi_r: UInt64Array,
) -> "dict[int, tuple[int, Successor]]":
    """By row: the handshake whose IKE SA each one replaced, and what was agreed on."""
    known = {} if insides is None else insides.successor_of(capture)
    if not known:
        return {}
    rows = np.flatnonzero(np.isin(spi_i, np.fromiter((one for _, one, _ in known), np.uint64, len(known))))
    keys = zip(capture[rows].tolist(), spi_i[rows].tolist(), spi_r[rows].tolist(), strict=True)
    return {row: known[key] for row, key in zip(rows.tolist(), keys, strict=True) if key in known}


def _last_inits(units: Units, association: Association, count: int) -> tuple[Int64Array, Int64Array]:
    """Rows of each handshake's last IKE_SA_INIT request and response, -1: none."""
    init = (units.exchange_type == IKE_SA_INIT) | (units.exchange_type == IKE_SESSION_RESUME)
    init &= ~units.is_ikev1
    request, response = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    rows = np.flatnonzero(init & ~units.is_response)
    request[association.handshake[rows]] = rows
    rows = np.flatnonzero(init & units.is_response)
    response[association.handshake[rows]] = rows
    # a refusal that comes late does not undo the answer
    rows = rows[units.next_payload[rows] != _NOTIFY]
    response[association.handshake[rows]] = rows
    return request, response


def _followed(conversation: Conversation, request: Int64Array, response: Int64Array) -> BoolArray:
    """Whether another request followed the last response, so that this was not the end."""
    exchange = conversation.exchange_of_message[conversation.message_of_unit]
    if not len(exchange):
        return np.zeros(len(request), np.bool_)
    return (request >= 0) & (response >= 0) & (exchange[request] > exchange[response])


def _responder_spis(units: Units, association: Association, count: int) -> UInt64Array:
    """The responder's SPI: that of the protected messages, else the last one that it answered with."""
    spi_r = np.zeros(count, np.uint64)
    known = units.spi_r != 0
    init = (units.exchange_type == IKE_SA_INIT) | (units.exchange_type == IKE_SESSION_RESUME)
    for some in (known & init, known & ~init):
        spi_r[association.handshake[some]] = units.spi_r[some]
    return spi_r


def _one_sided(units: Units, association: Association, count: int) -> npt.NDArray[np.int8]:
    """Whose messages alone are in the capture, though the other side must have sent some."""
    initiators = np.bincount(association.handshake[association.from_initiator], minlength=count)
    responders = np.bincount(association.handshake[~association.from_initiator], minlength=count)
    # whoever knows the responder's SPI, or is beyond I1, has got a message
    known = (units.spi_r != 0) | ((units.protocol == Protocol.HIP) & (units.exchange_type != I1_R1))
    answered = np.bincount(association.handshake[known], minlength=count) > 0
    result = np.full(count, -1, np.int8)
    result[(responders == 0) & answered] = 0
    result[(initiators == 0) & (responders > 0)] = 1
    return result


def _hip(conversation: Conversation) -> "Mapping[int, HipFacts]":
    """What the packets of HIP tell."""
    if not conversation.hits:
        return {}
    # what most captures do without
    from ikeanalyze.analysis.hip_facts import hip_facts

    return hip_facts(conversation)


def _phase1(conversation: Conversation, protocol: UInt8Array) -> dict[int, Phase1Facts]:
    """What the clear messages of IKEv1 tell."""
    wanted = set(np.flatnonzero(protocol == Protocol.IKEV1).tolist())
    if not wanted:
        return {}
    units, clear = conversation.units, conversation.clear
    messages: dict[int, list[tuple[bool, bytes]]] = {one: [] for one in wanted}
    for row in np.flatnonzero(units.is_ikev1).tolist():
        data = clear.get(int(units.unit[row]))
        if data is not None:
            handshake = int(conversation.association.handshake[row])
            messages[handshake].append((bool(conversation.association.from_initiator[row]), data))
    return {handshake: phase1_facts(some) for handshake, some in messages.items()}


def _extra_round_trips(conversation: Conversation) -> tuple[dict[int, str], dict[int, list[str]]]:
    """IKE_SA_INIT exchanges that the responder answered by asking for another request, by exchange and by handshake."""
    exchanges = conversation.exchanges
    init = np.flatnonzero(np.isin(exchanges.exchange_type, (IKE_SA_INIT, IKE_SESSION_RESUME)))
    init = init[exchanges.protocol[init] == Protocol.IKEV2]
    followed = init[:-1][exchanges.handshake[init[1:]] == exchanges.handshake[init[:-1]]]
    if not len(followed):
        return {}, {}
    of_unit = conversation.exchange_of_message[conversation.message_of_unit]
    rows = np.flatnonzero(np.isin(of_unit, followed) & conversation.units.is_response)
    inits = conversation.inits
    by_exchange: dict[int, str] = {}
    for row, form in zip(rows.tolist(), inits.forms(rows).tolist(), strict=True):
        for kind, _ in inits.inits.views[form].notifies:
            if kind in ASKS_AGAIN:
                by_exchange.setdefault(int(of_unit[row]), ASKS_AGAIN[kind])
    by_handshake: dict[int, list[str]] = {}
    for exchange in sorted(by_exchange):
        by_handshake.setdefault(int(exchanges.handshake[exchange]), []).append(by_exchange[exchange])
    return by_exchange, by_handshake


def _reasons(
    facts: list[InitFacts],
    response_form: Int64Array,
    phase1: dict[int, Phase1Facts],
    pairs: dict[int, list[RadiusPair]],
) -> dict[int, str]:
    """Error notifies of the last IKE_SA_INIT response or of IKEv1's clear messages, and Access-Reject, by handshake."""
    reasons: dict[int, str] = {}
    failing = np.array([fact.error is not None for fact in facts] + [False])
    for row in np.flatnonzero(failing[response_form]).tolist():
        reasons[row] = facts[response_form[row]].error or ""
    for row, fact in phase1.items():
        if fact.error is not None:
            reasons[row] = fact.error
    for row, some in pairs.items():
        if any(pair.response_view is not None and pair.response_view.code == _ACCESS_REJECT for pair in some):
            reasons[row] = "Access-Reject"
    return reasons


def _rekeyed(exchanges: Exchanges, outcome: UInt8Array) -> list[int]:
    """IKE SAs that took over from another one (RFC 7296, 2.18): message ID 0 is not their IKE_SA_INIT's."""
    inits = np.isin(exchanges.exchange_type, (IKE_SA_INIT, IKE_SESSION_RESUME))
    first = exchanges.initiator_asked & (exchanges.message_id == 0) & ~inits & (exchanges.protocol == Protocol.IKEV2)
    handshakes = np.setdiff1d(exchanges.handshake[first], exchanges.handshake[exchanges.set_up])
    return [row for row in handshakes.tolist() if outcome[row] == Outcome.CUT]


def _agreed(exchanges: Exchanges, count: int) -> BoolArray:
    """Which IKEv1 handshakes have an answered quick mode."""
    quick = (exchanges.protocol == Protocol.IKEV1) & (exchanges.exchange_type == _QUICK_MODE)
    quick &= exchanges.response_messages > 0
    return np.bincount(exchanges.handshake[quick], minlength=count) > 0


def _evidence(
    conversation: Conversation,
    head: Int64Array,
    reason: dict[int, str],
    pairs: dict[int, list[RadiusPair]],
    inside: "Mapping[int, Inside]",
) -> Evidence:
    units, exchanges = conversation.units, conversation.exchanges
    count = len(head)

    def any_of(rows: BoolArray) -> BoolArray:
        return np.bincount(exchanges.handshake[rows], minlength=count) > 0

    v1 = exchanges.protocol == Protocol.IKEV1
    kind, attempt = exchanges.exchange_type, exchanges.attempt
    asked, answered = exchanges.request_messages > 0, exchanges.response_messages > 0
    # the third message of IKEv1's aggressive and quick mode is not answered
    closing = v1 & np.isin(kind, (_AGGRESSIVE, _QUICK_MODE)) & (attempt > 0)
    unanswered = exchanges.set_up & asked & ~answered & ~closing
    # the responder may ask too while an IKE SA of IKEv1 is set up (XAuth); informational messages are never answered
    never = v1 & (kind == _IKEV1_INFORMATIONAL)
    never |= (exchanges.protocol == Protocol.HIP) & (kind == NOTIFY)
    requests = np.flatnonzero((exchanges.initiator_asked | exchanges.set_up) & asked & ~never)
    is_last = np.zeros(len(exchanges), np.bool_)
    last = np.ones(len(requests), np.bool_)
    last[:-1] = exchanges.handshake[requests[1:]] != exchanges.handshake[requests[:-1]]
    is_last[requests[last]] = True

    begun_v2 = ~v1 & np.isin(kind, (IKE_SA_INIT, IKE_SESSION_RESUME, I1_R1)) & asked & exchanges.set_up
    begun = any_of(begun_v2) | (units.is_ikev1[head] & (units.spi_r[head] == 0))
    auth_v2 = ~v1 & np.isin(kind, (_IKE_AUTH, _GSA_AUTH, I2_R2)) & answered & exchanges.set_up
    done_v1 = v1 & (((kind == _MAIN_MODE) & (attempt >= 2) & answered) | ((kind == _AGGRESSIVE) & (attempt >= 1)))
    open_last = unanswered & is_last
    candidates = is_last & exchanges.set_up & asked & answered
    open_last |= unheard(conversation.messages, exchanges, conversation.exchange_of_message, candidates)
    # the initiator owes the third message of aggressive and quick mode
    owing = v1 & np.isin(kind, (_AGGRESSIVE, _QUICK_MODE)) & (attempt == 0) & answered & exchanges.set_up & is_last
    quick = v1 & (kind == _QUICK_MODE) & exchanges.set_up
    half_agreed = any_of(quick) & ~any_of(quick & (attempt > 0))
    last_sent = np.full(count, UNKNOWN)
    last_sent[exchanges.handshake[open_last]] = (exchanges.request_ns + exchanges.wait_ns)[open_last]
    refused = np.zeros(count, np.bool_)
    refused[list(reason)] = True
    aaa_open = np.zeros(count, np.bool_)
    for row, some in pairs.items():
        last_view = some[-1].response_view
        aaa_open[row] = last_view is not None and last_view.code == _ACCESS_CHALLENGE

    def proved(outcome: Outcome) -> BoolArray:
        found = np.zeros(count, np.bool_)
        found[[row for row, one in inside.items() if one.proof.outcome is outcome]] = True
        return found

    undone = np.zeros(count, np.bool_)
    undone[[row for row, one in inside.items() if one.proof.undone]] = True
    return Evidence(
        proved_failed=proved(Outcome.FAILED),
        proved_established=proved(Outcome.ESTABLISHED),
        undone=undone,
        refused=refused,
        begun=begun,
        hole=any_of(unanswered & ~is_last) | any_of(exchanges.set_up & ~asked),
        aaa_open=aaa_open,
        last_unanswered=any_of(open_last | owing),
        last_repeated=any_of(
            (open_last & (exchanges.request_messages > 1)) | (owing & (exchanges.response_messages > 1))
        ),
        waited_ns=np.where(last_sent == UNKNOWN, 0, conversation.last_ns[conversation.capture] - last_sent),
        finished=any_of(auth_v2) | (any_of(done_v1) & ~half_agreed),
    )


def _translated(conversation: Conversation, address: UInt64Array, port: npt.NDArray[np.uint16]) -> npt.NDArray[np.int8]:
    """1 where the capture has seen a NAT change the initiator's endpoint, else -1."""
    known = {*conversation.translated, *conversation.translated.values()}
    end = address << np.uint64(16) | port
    return np.where(np.isin(end, np.fromiter(known, np.uint64, len(known))), 1, -1).astype(np.int8)


def _nat(
    conversation: Conversation, request: Int64Array, response: Int64Array, translated: npt.NDArray[np.int8]
) -> npt.NDArray[np.int8]:
    """Who is behind a NAT, by the clear messages: index into nat.WORDS for each handshake."""
    inits, association = conversation.inits, conversation.association
    initiator = np.maximum(inits.sender_differs(request), inits.receiver_differs(response))
    initiator = np.maximum(initiator, translated)
    responder = np.maximum(inits.receiver_differs(request), inits.sender_differs(response))
    who = association.handshake, association.from_initiator
    old = read_phase1_nat(conversation.units, *who, conversation.clear, conversation.addresses, association.count)
    return describe(np.maximum(initiator, old[0]), np.maximum(responder, old[1]))


def _auth(
    conversation: Conversation,
    count: int,
    pairs: dict[int, list[RadiusPair]],
    phase1: dict[int, Phase1Facts],
    hip: "Mapping[int, HipFacts]",
    inside: "Mapping[int, Inside]",
) -> tuple[list[AuthMethods], Int64Array]:
    """How the peers authenticated: read from decrypted payloads, RADIUS, HIP and IKEv1's proposal, guessed from sizes and
    counts elsewhere.

    Distinct methods, and for each handshake an index into them, -1: not known.
    """
    exchanges = conversation.exchanges
    rows = (exchanges.exchange_type == _IKE_AUTH) & (exchanges.protocol == Protocol.IKEV2)
    rounds = np.bincount(exchanges.handshake[rows], minlength=count)

    def per_message(size: Int64Array, sent: Int64Array) -> Float64Array:
        together = np.bincount(exchanges.handshake[rows], size[rows].astype(np.float64), minlength=count)
        return together / np.maximum(np.bincount(exchanges.handshake[rows], sent[rows], minlength=count), 1)

    asked = per_message(exchanges.request_bytes, exchanges.request_messages)
    answered = per_message(exchanges.response_bytes, exchanges.response_messages)
    methods, auth = guess_auths(rounds, asked, answered)

    def know(row: int, one: AuthMethods) -> None:
        auth[row] = len(methods)
        methods.append(one)

    read = {row: fact.auth for row, fact in phase1.items()} | {row: fact.auth for row, fact in hip.items()}
    for row, method in read.items():
        if method is not None:
            know(row, method)
    for row, some in pairs.items():
        if row in phase1 and phase1[row].auth is not None:
            continue
        eap = [view.eap_message for pair in some for view in (pair.view, pair.response_view) if view is not None]
        know(row, AuthMethods("eap", None, method_of([message for message in eap if message]), guessed=False))
    for row, one in inside.items():
        if one.proof.auth is not None:
            know(row, one.proof.auth)
    return methods, auth

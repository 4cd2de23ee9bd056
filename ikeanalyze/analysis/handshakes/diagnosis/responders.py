"""What the other handshakes of a capture show: what a responder accepted, whether its port 4500 works, whether the
capture has this port, and whether the initiator went to another gateway.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import numpy as np
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.analysis.handshakes.auth_methods import ChosenProposal
from ikeanalyze.analysis.handshakes.handshakes import HandshakeColumns
from ikeanalyze.analysis.handshakes.outcome import Outcome
from ikeanalyze.analysis.messages.capture_facts import CaptureFacts, Rows, SharedFact
from ikeanalyze.analysis.messages.redirects import MAX_REDIRECT_NS
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array, sort_distinct
from ikeanalyze.capture.decode.ip import format_address_code
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.ikev2.message import InitMessage
from ikeanalyze.wire.ikev2.notify_data import parse_redirect
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

NAT_PORT: Final = 4500  # UDP encapsulation of RFC 3948

#: Outcomes of handshakes that rules about responders concern.
_CONCERNED: Final = (int(Outcome.FAILED), int(Outcome.UNANSWERED))


class ResponderFacts(Struct, frozen=True):
    """Facts about the responder of each handshake, from all handshakes of its capture. (handshakes,) each"""

    on_4500: BoolArray  # it sent something from UDP port 4500; False if no handshake failed or was unanswered
    accepted: list[str | None]  # the proposal that it accepted first; None: none, or no handshake failed
    has_port_4500: BoolArray  # the capture has an IKE message on UDP port 4500; True if no handshake is half-open
    redirected: BoolArray  # the initiator then told another gateway that this responder had redirected it


def find_responder_facts(
    handshakes: HandshakeColumns, state: AnalysisState, facts: CaptureFacts, rows: Int64Array
) -> ResponderFacts:
    """The facts about the responders of these rows; they are shared with other parts of the capture.

    Address codes include the number of the capture, where several are analysed together.
    """
    active = facts.share(SharedFact.RESPONDERS_ON_4500, lambda: _find_active_responders(handshakes, state))
    accepted = facts.share(SharedFact.ACCEPTED_PROPOSALS, lambda: _find_accepted_proposals(handshakes))
    has_port = _find_captures_of_port(handshakes, state, facts, rows)
    redirects = facts.share(SharedFact.REDIRECTED_SET_UPS, lambda: _find_redirected_set_ups(handshakes, state))
    redirects = _find_redirected_set_ups(handshakes, state) if redirects is None else redirects
    redirected = _find_redirected(handshakes, state, redirects, rows)
    if not np.isin(handshakes.outcome[rows], _CONCERNED).any():
        return ResponderFacts(np.zeros(len(rows), np.bool_), [None] * len(rows), has_port, redirected)
    active = _find_active_responders(handshakes, state) if active is None else active
    accepted = _find_accepted_proposals(handshakes) if accepted is None else accepted
    texts = dict(zip(accepted["responder"].tolist(), accepted["proposal"].tolist(), strict=True))
    responders = handshakes.ends.responder[rows]
    on_4500 = np.isin(responders, active["responder"])
    return ResponderFacts(on_4500, [texts.get(code) for code in responders.tolist()], has_port, redirected)


def _find_redirected_set_ups(handshakes: HandshakeColumns, state: AnalysisState) -> Rows:
    """The handshakes whose IKE_SA_INIT request says that another gateway redirected the initiator to this responder:
    initiator, begin, and the other gateway as text.
    """
    inits, gateways = state.inits, _find_gateways(state.inits.views)
    form, rows = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if gateways:
        form = inits.look_up(inits.form, state.summary.request)
        rows = np.flatnonzero(np.isin(form, list(gateways)))
    return {
        "initiator": handshakes.ends.initiator[rows],
        "start_ns": handshakes.start_ns[rows],
        "gateway": np.array([gateways[number] for number in form[rows].tolist()], np.str_),
    }


def _find_gateways(views: Sequence[InitMessage]) -> dict[int, str]:
    """The gateways in REDIRECTED_FROM (RFC 5685, section 7.3), by form of IKE_SA_INIT message."""
    gateways: dict[int, str] = {}
    for form, view in enumerate(views):
        for kind, data in view.notifies:
            if kind == NotifyType.REDIRECTED_FROM:
                with suppress(WireError):
                    gateways[form] = parse_redirect(data).gateway
    return gateways


def _find_redirected(
    handshakes: HandshakeColumns, state: AnalysisState, redirects: Rows, rows: Int64Array
) -> BoolArray:
    """Which of the handshakes (rows) are followed by one that tells that their responder had redirected it."""
    result = np.zeros(len(rows), np.bool_)
    followed: dict[tuple[int, str], list[int]] = {}
    columns = (redirects[name].tolist() for name in ("initiator", "start_ns", "gateway"))
    for initiator, start_ns, gateway in zip(*columns, strict=True):
        followed.setdefault((initiator, gateway), []).append(start_ns)
    if not followed:
        return result
    initiators = np.fromiter({initiator for initiator, _ in followed}, np.uint64)
    for place in np.flatnonzero(np.isin(handshakes.ends.initiator[rows], initiators)).tolist():
        row = int(rows[place])
        gateway = format_address_code(int(handshakes.ends.responder[row]), state.addresses)
        starts = followed.get((int(handshakes.ends.initiator[row]), gateway), ())
        since = [start_ns - int(handshakes.start_ns[row]) for start_ns in starts]
        result[place] = any(0 < time <= MAX_REDIRECT_NS for time in since)
    return result


def _find_captures_of_port(
    handshakes: HandshakeColumns, state: AnalysisState, facts: CaptureFacts, rows: Int64Array
) -> BoolArray:
    """Whether the captures of these handshakes have an IKE message on UDP port 4500; True if none is half-open."""
    if not facts.partial and not (handshakes.outcome[rows] == int(Outcome.HALF_OPEN)).any():
        return np.ones(len(rows), np.bool_)
    datagrams = state.datagrams
    on_port = (datagrams.source_port == NAT_PORT) | (datagrams.destination_port == NAT_PORT)
    if facts.partial:  # of a single capture
        count = facts.total(SharedFact.PORT_4500, count=int(on_port.sum()))["count"]
        return np.full(len(rows), count > 0)
    captures = sort_distinct(state.capture[state.association.handshake[on_port]])
    return np.isin(state.capture[rows], captures)


def _find_active_responders(handshakes: HandshakeColumns, state: AnalysisState) -> Rows:
    """The responders that sent something from port 4500."""
    active = find_handshakes_on_port(state, NAT_PORT)
    return {"responder": sort_distinct(handshakes.ends.responder[active])}


def find_handshakes_on_port(state: AnalysisState, port: int) -> BoolArray:
    """The handshakes whose responder sent something from this port. (handshakes,)"""
    association, source_port = state.association, state.datagrams.source_port
    if core.compiled is not None:
        return core.compiled.find_responders_on_port(association, source_port, port, association.count)
    sent = (source_port == port) & ~association.from_initiator
    active = np.zeros(association.count, np.bool_)
    active[association.handshake[sent]] = True
    return active


def _find_accepted_proposals(handshakes: HandshakeColumns) -> Rows:
    """The proposal that each responder accepted first."""
    texts = np.array([*(_describe(form.chosen) for form in handshakes.facts), ""], dtype=np.str_)
    rows = np.flatnonzero((texts != "")[handshakes.response_facts] & ~handshakes.rekeyed)
    _, rank = np.unique(texts, return_inverse=True)
    rows = rows[np.lexsort((rank[handshakes.response_facts[rows]], handshakes.start_ns[rows]))]
    responder, first = np.unique(handshakes.ends.responder[rows], return_index=True)
    rows = rows[first]
    return {
        "responder": responder,
        "start_ns": handshakes.start_ns[rows],
        "proposal": texts[handshakes.response_facts[rows]],
    }


def _describe(chosen: ChosenProposal | None) -> str:
    """A chosen proposal as proposals are described that are offered."""
    if chosen is None:
        return ""
    names = [chosen.encryption, chosen.integrity, chosen.prf, chosen.key_exchange]
    names += [f"ADDKE{slot}:{method}" for slot, method, _ in chosen.additional]
    return "/".join(name for name in names if name)

"""Handshakes that were sent on to another gateway (RFC 5685, 3).

A gateway that answers IKE_SA_INIT with N(REDIRECT) makes the initiator begin again elsewhere, with
N(REDIRECTED_FROM) in its new request and, in most stacks, with a new SPI. For whoever waits for the IKE SA
that is one handshake with an extra round trip.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from ikeanalyze.analysis.association import SaAssociation
from ikeanalyze.analysis.units import Datagrams
from ikeanalyze.wire.ikev2.message import parse_init
from ikeanalyze.wire.registries.ikev2 import ExchangeType, NotifyType, PayloadType

#: An initiator goes to the new gateway at once; after this time it is another attempt.
_WITHIN_NS: Final = 60_000_000_000


def follow_redirects(units: Datagrams, association: SaAssociation, clear: Mapping[int, bytes]) -> SaAssociation:
    """Join each handshake that a REDIRECT ended with the one that followed it."""
    init = (units.exchange_type == int(ExchangeType.IKE_SA_INIT)) & ~units.is_ikev1
    # the response that redirects has no SA payload: its first payload is the notify
    answers = np.flatnonzero(init & units.is_response & (units.next_payload == int(PayloadType.NOTIFY)))
    redirects = [row for row in answers.tolist() if _has(clear, units, row, NotifyType.REDIRECT)]
    if not redirects:
        return association
    label = np.arange(association.count)
    requests = np.flatnonzero(init & ~units.is_response)
    for row in redirects:
        when, initiator = int(units.first_ns[row]), units.destination[row]
        ours = int(association.handshake[row])
        later = requests[(units.source[requests] == initiator) & (units.first_ns[requests] >= when)]
        for other in later.tolist():
            theirs = int(association.handshake[other])
            if int(units.first_ns[other]) - when > _WITHIN_NS:
                break
            if theirs != ours and _has(clear, units, other, NotifyType.REDIRECTED_FROM):
                label[label == label[theirs]] = label[ours]
                break
    # what is joined takes the number of its first part; the others move up
    kept, renumbered = np.unique(label, return_inverse=True)
    return SaAssociation(renumbered[association.handshake], association.from_initiator, len(kept))


def _has(clear: Mapping[int, bytes], units: Datagrams, row: int, kind: int) -> bool:
    view = parse_init(clear.get(int(units.unit[row]), b""))
    return any(notify == kind for notify, _ in view.notifies)

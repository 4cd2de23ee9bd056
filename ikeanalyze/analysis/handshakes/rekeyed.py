"""Find the IKE SAs that replaced another one (RFC 7296, section 2.18). They are not handshakes.

An IKE SA replaced another one if the CREATE_CHILD_SA exchange that created it was decrypted (see `rekey_exchanges`).
Without keys, its message IDs show it, since a new IKE SA counts from 0 and has no IKE_SA_INIT:

- the initiator's message ID 0 is in the capture, before its others, and is not IKE_SA_INIT; or
- the responder's message ID 0 is, no request of the initiator is, and another IKE SA of the same two hosts had a
  CREATE_CHILD_SA exchange before. Without that exchange, the set-up may have been before the capture began, because
  the responder's requests count from 0 in every IKE SA.

A message in the clear shows no IKE SA: INVALID_SPI, about an ESP packet, has message ID 0 and any SPIs (section 1.5).
Message ID 0 after others synchronises the message IDs of an older IKE SA (RFC 6311, section 4.1).
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from ikeanalyze.analysis.exchanges.exchanges import ExchangeColumns
from ikeanalyze.analysis.messages.capture_facts import WHOLE_CAPTURE, CaptureFacts, SharedFact
from ikeanalyze.capture.arrays import BoolArray, Int32Array, Int64Array, UInt64Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.registries.ikev2 import INIT_EXCHANGES, ExchangeType

_CREATE_CHILD_SA: Final = int(ExchangeType.CREATE_CHILD_SA)


def find_rekeyed_ike_sas(
    exchanges: ExchangeColumns,
    initiator: UInt64Array,
    responder: UInt64Array,
    decrypted: Iterable[int],
    in_clear: Int32Array,
    facts: CaptureFacts = WHOLE_CAPTURE,
) -> BoolArray:
    """Return which IKE SAs replaced another one. (handshakes,)

    Args:
        exchanges: the exchanges of all handshakes.
        initiator: address code of each initiator. (handshakes,)
        responder: address code of each responder. (handshakes,)
        decrypted: rows of the IKE SAs that replaced another one according to decrypted payloads.
        in_clear: rows of exchanges with a message in the clear, which is none of a rekeyed IKE SA.
        facts: the facts of the whole capture.
    """
    first = (exchanges.protocol == Protocol.IKEV2) & (exchanges.message_id == 0)
    first &= ~np.isin(exchanges.exchange_type, INIT_EXCHANGES)
    first[in_clear] = False
    if first.any():
        first &= ~_find_later_requests(exchanges, in_clear)
    rekeyed = np.zeros(len(initiator), np.bool_)
    rekeyed[exchanges.handshake[first]] = True
    rekeyed[exchanges.handshake[exchanges.set_up]] = False
    by_initiator = exchanges.initiator_asked
    doubtful = rekeyed.copy()
    doubtful[exchanges.handshake[first & by_initiator]] = False
    rekeyed &= ~doubtful
    doubtful[exchanges.handshake[by_initiator]] = False
    ends = np.stack([initiator, responder], axis=1)
    rekeyed[_find_successors(exchanges, ends, np.flatnonzero(doubtful), facts)] = True
    rekeyed[list(decrypted)] = True
    return rekeyed


def _find_later_requests(exchanges: ExchangeColumns, in_clear: Int32Array) -> BoolArray:
    """Which exchanges began after another one of the same side of their IKE SA. (exchanges,)"""
    later = np.zeros(len(exchanges), np.bool_)
    counts = np.ones(len(exchanges), np.bool_)
    counts[in_clear] = False
    for side in (True, False):
        rows = np.flatnonzero(counts & (exchanges.initiator_asked == side))
        handshake = exchanges.handshake[rows]
        later[rows[1:][handshake[1:] == handshake[:-1]]] = True
    return later


def _find_successors(exchanges: ExchangeColumns, ends: UInt64Array, rows: Int64Array, facts: CaptureFacts) -> list[int]:
    """The handshakes among `rows` that began after a CREATE_CHILD_SA response between the same hosts.

    `ends` are the addresses of each handshake. (handshakes, 2)
    """
    if not len(rows) and not facts.partial:
        return []
    created = (exchanges.exchange_type == _CREATE_CHILD_SA) & (exchanges.protocol == Protocol.IKEV2)
    created &= exchanges.response_messages > 0
    hosts_of_created, response_ns = ends[exchanges.handshake[created]], exchanges.response_ns[created]
    shared = facts.share(
        SharedFact.CREATED_SAS,
        lambda: {"initiator": hosts_of_created[:, 0], "responder": hosts_of_created[:, 1], "ns": response_ns},
        needed=len(rows) > 0,
    )
    if not len(rows):
        return []
    if shared is not None:
        hosts_of_created = np.stack([shared["initiator"], shared["responder"]], axis=1)
        response_ns = shared["ns"]
    first_ns: dict[frozenset[int], int] = {}
    for pair, ns in zip(hosts_of_created.tolist(), response_ns.tolist(), strict=True):
        hosts = frozenset(pair)
        first_ns[hosts] = min(ns, first_ns.get(hosts, ns))
    # exchanges are ordered by handshake and time
    began_ns = exchanges.start_ns[np.searchsorted(exchanges.handshake, rows.astype(np.int32))].tolist()
    hosts_of_rows = map(frozenset, ends[rows].tolist())
    return [
        row
        for row, ns, hosts in zip(rows.tolist(), began_ns, hosts_of_rows, strict=True)
        if first_ns.get(hosts, ns) < ns
    ]

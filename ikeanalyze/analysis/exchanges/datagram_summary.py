"""What the datagrams of each handshake tell about it, before they are grouped into messages."""

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.analysis.exchanges.hip_exchange_types import I1_R1
from ikeanalyze.analysis.messages.association import SaAssociation, is_ikev2_init
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.capture.arrays import Int64Array, UInt64Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.registries.ikev2 import PayloadType


class DatagramSummary(Struct, frozen=True):
    """What the datagrams of each handshake tell about it. (handshakes,) each"""

    request: Int64Array  # row of the last IKE_SA_INIT request, -1: none
    response: Int64Array  # the same of the response
    spi_r: UInt64Array
    one_sided: npt.NDArray[np.int8]  # as in `HandshakeColumns`


def summarise_datagrams(datagrams: Datagrams, association: SaAssociation) -> DatagramSummary:
    """Summarise the datagrams of each handshake."""
    count = association.count
    if core.compiled is not None:
        return DatagramSummary(**core.compiled.summarise_datagrams(datagrams, association, count))
    request, response = _find_last_inits(datagrams, association, count)
    spi_r = _get_responder_spis(datagrams, association, count)
    return DatagramSummary(request, response, spi_r, _find_one_sided(datagrams, association, count))


def _find_last_inits(datagrams: Datagrams, association: SaAssociation, count: int) -> tuple[Int64Array, Int64Array]:
    """Rows of each handshake's last IKE_SA_INIT request and response, -1: none."""
    init = is_ikev2_init(datagrams) & ~datagrams.is_ikev1
    request, response = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    rows = np.flatnonzero(init & ~datagrams.is_response)
    request[association.handshake[rows]] = rows
    rows = np.flatnonzero(init & datagrams.is_response)
    response[association.handshake[rows]] = rows
    # a late refusal does not undo an accepting response
    rows = rows[datagrams.next_payload[rows] != int(PayloadType.NOTIFY)]
    response[association.handshake[rows]] = rows
    return request, response


def _get_responder_spis(datagrams: Datagrams, association: SaAssociation, count: int) -> UInt64Array:
    """The responder's SPI: that of the encrypted messages, or else of its last response. (handshakes,)"""
    spi_r = np.zeros(count, np.uint64)
    known = datagrams.spi_r != 0
    init = is_ikev2_init(datagrams)
    for rows in (known & init, known & ~init):
        spi_r[association.handshake[rows]] = datagrams.spi_r[rows]
    return spi_r


def _find_one_sided(datagrams: Datagrams, association: SaAssociation, count: int) -> npt.NDArray[np.int8]:
    """The only side whose messages are in the capture, although the other side sent some too (`one_sided`)."""
    initiators = np.bincount(association.handshake[association.from_initiator], minlength=count)
    responders = np.bincount(association.handshake, minlength=count) - initiators
    # the responder's SPI, or a HIP packet after I1, shows that the other side has sent a message
    known = (datagrams.spi_r != 0) | ((datagrams.protocol == Protocol.HIP) & (datagrams.exchange_type != I1_R1))
    answered = np.zeros(count, np.bool_)
    answered[association.handshake[known]] = True
    result = np.full(count, -1, np.int8)
    result[(responders == 0) & answered] = 0
    result[(initiators == 0) & (responders > 0)] = 1
    return result

"""The intermediate results of the analysis that several steps use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ikeanalyze.analysis.exchanges.exchanges import ExchangeColumns
from ikeanalyze.analysis.exchanges.init_messages import InitMessages
from ikeanalyze.analysis.messages.association import SaAssociation
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.capture.arrays import BoolArray, Int64Array
from ikeanalyze.capture.buffers import MessageBytes


@dataclass(frozen=True, slots=True)
class AnalysisState:
    """The IKE and HIP traffic of one or several captures, grouped into datagrams, messages and exchanges."""

    datagrams: Datagrams
    association: SaAssociation
    messages: MessageColumns
    message_of_datagram: Int64Array
    exchanges: ExchangeColumns
    exchange_of_message: Int64Array
    inits: InitMessages
    clear: MessageBytes
    addresses: Sequence[bytes]  # IPv6 addresses of the address codes
    capture: Int64Array  # number of the capture that each handshake is in, rising
    incomplete: BoolArray  # which datagrams lack IP fragments or TCP segments. (datagrams,)
    last_ns: Int64Array  # of each capture: the time of its last packet
    translated: Mapping[int, int]  # endpoints of initiators that a NAT changed within the capture (see `duplicates`)
    hits: Mapping[int, tuple[bytes, bytes]]  # of the handshakes of HIP: the initiator's and the responder's HIT

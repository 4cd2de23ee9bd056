"""The intermediate results of the analysis that several steps use."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ikeanalyze.analysis.exchanges.datagram_summary import DatagramSummary
from ikeanalyze.analysis.exchanges.exchanges import ExchangeColumns
from ikeanalyze.analysis.exchanges.init_messages import InitMessages
from ikeanalyze.analysis.messages.association import SaAssociation
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.analysis.messages.ikev1_fragments import ReassembledMessage
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.capture.arrays import BoolArray, Int32Array, Int64Array
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.wire.registries.ikev1 import Ikev1PayloadType


class AnalysisState(Struct, frozen=True):
    """The IKE and HIP traffic of one or several captures, grouped into datagrams, messages and exchanges."""

    datagrams: Datagrams
    association: SaAssociation
    summary: DatagramSummary
    messages: MessageColumns
    message_of_datagram: Int32Array
    exchanges: ExchangeColumns
    exchange_of_message: Int32Array
    inits: InitMessages
    clear: MessageBytes
    reassembled: Mapping[int, ReassembledMessage]  # clear messages of IKEv1 in fragments (see `ikev1_fragments`)
    addresses: Sequence[bytes]  # IPv6 addresses of the address codes
    capture: Int64Array  # number of the capture that each handshake is in, rising
    lacking_fragments: Int64Array  # rows of the first transmissions of messages that lack fragments (RFC 7383)
    in_clear: Int64Array  # rows of messages in the clear that should be encrypted (see `unprotected`), rising
    decrypted_requests: Int64Array  # rows of IKE_AUTH requests that were decrypted before they were captured, rising
    about_esp: Int64Array  # handshakes that consist of INVALID_SPI outside of an IKE SA alone, rising
    wrong_version: Int64Array  # handshakes that consist of a request and refusals of its version, rising
    unprotected: BoolArray  # which exchanges have such a response, and no encrypted one. (exchanges,)
    incomplete: BoolArray  # which datagrams lack IP fragments or TCP segments. (datagrams,)
    undelivered: BoolArray  # which of them lack IP fragments, except for those of IKEv1. (datagrams,)
    last_ns: Int64Array  # of each capture: the time of its last packet
    translated: Mapping[int, int]  # endpoints of initiators that a NAT changed within the capture (see `duplicates`)
    hits: Mapping[int, tuple[bytes, bytes]]  # of the handshakes of HIP: the initiator's and the responder's HIT

    def get_clear_ikev1(self, row: int) -> bytes | None:
        """The clear IKEv1 message in this row of the datagrams; one in fragments is in the row that completes it."""
        reassembled = self.reassembled.get(row)
        if reassembled is not None:
            return reassembled.data
        if self.datagrams.next_payload[row] == int(Ikev1PayloadType.FRAGMENT):
            return None
        return self.clear.get(int(self.datagrams.datagram[row]))

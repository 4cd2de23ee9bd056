"""How long a link of limited rate took to transmit the messages of exchanges.

A frame is recorded when it enters the link at its sender, or when it has left it at its receiver. So an interval
between two messages at a capture point contains more than the delay of the path: the time that the link takes to
transmit the frames in between, one after another, as frames of one direction wait for each other. On slow links this
exceeds both the delay and the work of the hosts. It is computed for recordings of the lab, whose manifest has the
rates.
"""

import numpy as np
from msgspec import Struct

from ikeanalyze.analysis.exchanges.answers import AnsweredTransmissions
from ikeanalyze.analysis.exchanges.capture_point import LinkRates
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array


class TransmissionTimes(Struct, frozen=True):
    """Times in ns that the link took for the transmissions that count; 0: its rate is unlimited. (exchanges,) each"""

    request_ns: Int64Array  # for all frames of the request that was answered
    request_begin_ns: Int64Array  # for the first frame of the first transmission of the request
    response_ns: Int64Array  # for all frames of the response that ended the exchange


def compute_transmission_times(
    state: AnalysisState, answers: AnsweredTransmissions, rates: LinkRates
) -> TransmissionTimes:
    """The transmission times of the messages of each exchange."""
    messages, exchange = state.messages, state.exchange_of_message
    byte_ns = np.where(messages.from_initiator, rates.up_ns[messages.handshake], rates.down_ns[messages.handshake])
    # datagrams are in order of time, messages are numbered by their datagrams
    first_datagram = np.full(len(messages), len(state.datagrams))
    np.minimum.at(first_datagram, state.message_of_datagram, np.arange(len(state.datagrams)))
    first_bytes = np.minimum(state.datagrams.bytes[first_datagram], rates.frame_bytes[messages.handshake])
    whole, begin = messages.bytes * byte_ns, first_bytes * byte_ns
    is_request = ~messages.response

    def pick(rows: BoolArray, values: object) -> Int64Array:
        picked = np.zeros(len(state.exchanges), np.int64)
        picked[exchange[rows]] = np.rint(np.asarray(values)[rows])
        return picked

    return TransmissionTimes(
        request_ns=pick(is_request & (messages.first_ns == answers.answered_ns[exchange]), whole),
        request_begin_ns=pick(is_request & (messages.first_ns == state.exchanges.request_ns[exchange]), begin),
        response_ns=pick(messages.response & (messages.last_ns == answers.end_ns[exchange]), whole),
    )

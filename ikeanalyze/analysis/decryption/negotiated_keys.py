"""What each IKE SA of a capture negotiated for its keys, from the messages that set it up."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct, structs

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.analysis.decryption.rekey_exchanges import read_rekey_exchanges
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.crypto.algorithms import IkeSuite, get_suite
from ikeanalyze.wire.header import FLAG_RESPONSE
from ikeanalyze.wire.ikev2.message import InitMessage, parse_init
from ikeanalyze.wire.ikev2.payloads import parse_notify
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import LIBRESWAN_USE_PPK_INT, NotifyType

_LIFETIME_BYTES: Final = 4  # before the ticket in TICKET_LT_OPAQUE
#: A responder announces one of them if it accepts a PPK in IKE_INTERMEDIATE.
_PPK_INT_NOTIFIES: Final = frozenset((NotifyType.USE_PPK_INT, LIBRESWAN_USE_PPK_INT))


class NegotiatedKeys(Struct, frozen=True):
    """Key material parameters of one IKE SA, from the messages that set it up."""

    suite: IkeSuite | None
    nonces: bytes | None
    additional: int | None  # additional key exchanges in IKE_INTERMEDIATE; None: unknown
    accepts_ppk: bool = False  # the responder accepts a PPK in IKE_INTERMEDIATE (RFC 9867)


UNKNOWN_KEYS = NegotiatedKeys(None, None, None)


class NegotiatedKeysLookup:
    """Finds out what each IKE SA negotiated, from the parsed form of its IKE_SA_INIT messages."""

    def __init__(self, state: AnalysisState) -> None:
        self._state = state
        inits, handshake = state.inits, state.association.handshake
        # all messages of a form have a nonce, or none has
        has_nonce = np.array([view.nonce is not None for view in inits.views], np.bool_)[inits.form]
        is_response = state.datagrams.flags[inits.rows] & FLAG_RESPONSE != 0
        #: The last message with a nonce of each handshake, by whether it is a response: index into `inits`; -1: none.
        self._last: dict[bool, list[int]] = {}
        for response in (False, True):
            chosen = np.flatnonzero(has_nonce & (is_response == response))
            last = np.full(state.association.count, -1)
            last[handshake[inits.rows[chosen]]] = chosen
            self._last[response] = last.tolist()
        answered = np.flatnonzero(last >= 0)
        is_resumed = state.datagrams.exchange_type[inits.rows[last[answered]]] == ExchangeType.IKE_SESSION_RESUME
        #: Handshakes that ended their negotiation with IKE_SESSION_RESUME, which names no algorithms.
        self.resumed: frozenset[int] = frozenset(answered[is_resumed].tolist())
        self._form: list[int] = inits.form.tolist()
        self._of_form: dict[int, NegotiatedKeys] = {}  # by form of the response, without nonces
        self._rekeyed: dict[tuple[int, int, int], NegotiatedKeys] = {}  # by capture and SPIs
        self._tickets: dict[tuple[int, bytes], IkeSuite] = {}  # by capture and ticket

    def add_rekeyed_sas(self, capture: int, contents: Sequence[DecodedMessage]) -> None:
        """Add the IKE SAs that replace the one of these messages."""
        for sa in read_rekey_exchanges(sorted(contents, key=lambda content: (content.exchange, content.response))):
            self._rekeyed[capture, sa.spi_i, sa.spi_r] = NegotiatedKeys(get_suite(sa.chosen), sa.nonces, 0)

    def add_tickets(self, capture: int, suite: IkeSuite | None, contents: Iterable[DecodedMessage]) -> None:
        """Add the tickets that the IKE SA of these messages was given (RFC 5723); `suite`: what it negotiated."""
        if suite is not None:
            self._tickets |= {(capture, ticket): suite for ticket in list_given_tickets(contents)}

    def get(self, handshake: int, row: int, *, with_nonces: bool = True) -> NegotiatedKeys:
        """From the last IKE_SA_INIT request and response of the capture; `row`: the row of a datagram with both SPIs.

        A resumed IKE SA has the algorithms of the one that was given its ticket (RFC 5723, section 5), if
        `add_tickets` has added it.

        `with_nonces`: also read the nonces, which takes longer.
        """
        state, response, request = self._state, self._last[True][handshake], self._last[False][handshake]
        if response < 0:
            key = int(state.capture[handshake]), int(state.datagrams.spi_i[row]), int(state.datagrams.spi_r[row])
            return self._rekeyed.get(key) or UNKNOWN_KEYS
        form = self._form[response]
        negotiated = self._of_form.get(form)
        if negotiated is None:
            negotiated = self._of_form[form] = _get_negotiated_keys(state.inits.views[form])
        if request >= 0 and self._tickets and handshake in self.resumed:
            capture = int(state.capture[handshake])
            returned = self._read_init(int(state.inits.rows[request])).list_notify_data(NotifyType.TICKET_OPAQUE)
            suites = (self._tickets.get((capture, ticket)) for ticket in returned)
            negotiated = structs.replace(negotiated, suite=next(filter(None, suites), None))
        if with_nonces and request >= 0:
            ni, nr = (self._read_init(int(state.inits.rows[init])).nonce for init in (request, response))
            if ni and nr:
                return structs.replace(negotiated, nonces=ni + nr)
        return negotiated

    def get_all(self, handshakes: Sequence[int], rows: Sequence[int], *, with_nonces: bool) -> list[NegotiatedKeys]:
        """`get` of each handshake."""
        result: list[NegotiatedKeys] = []
        responses, forms, of_form = self._last[True], self._form, self._of_form
        for handshake, row in zip(handshakes, rows, strict=True):
            response = responses[handshake]
            # most handshakes have a form that another one has
            negotiated = None if with_nonces or response < 0 else of_form.get(forms[response])
            result.append(negotiated or self.get(handshake, row, with_nonces=with_nonces))
        return result

    def _read_init(self, row: int) -> InitMessage:
        return parse_init(self._state.clear.get(int(self._state.datagrams.datagram[row])) or b"")


def _get_negotiated_keys(response: InitMessage) -> NegotiatedKeys:
    """What the responder chose, without nonces."""
    additional = [] if response.chosen is None else response.chosen.list_additional_key_exchanges()
    return NegotiatedKeys(
        get_suite(response.chosen),
        None,
        len({slot for slot, _ in additional}),
        accepts_ppk=not _PPK_INT_NOTIFIES.isdisjoint(response.notify_types),
    )


def list_given_tickets(contents: Iterable[DecodedMessage]) -> list[bytes]:
    """The tickets in these messages, with which the IKE SA can be resumed (RFC 5723, section 7)."""
    return [
        notify.data[_LIFETIME_BYTES:]
        for content in contents
        if content.encrypted
        for notify in content.parse_bodies(PayloadType.NOTIFY, parse_notify)
        if notify.type == NotifyType.TICKET_LT_OPAQUE
    ]

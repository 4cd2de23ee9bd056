"""Summarises a responder's message as far as possible without keys, and compares two summaries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ikeanalyze.wire.header import HEADER, Header, parse_header
from ikeanalyze.wire.ikev2.describe import describe_payloads
from ikeanalyze.wire.ikev2.message import parse_fragment_header, parse_init, parse_payloads
from ikeanalyze.wire.payload_chain import ENCRYPTED_TYPES
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import ExchangeType
from ikeanalyze.wire.registries.ikev2_notifies import FIRST_STATUS, NotifyType
from ikeanalyze.wire.registries.ikev2_transforms import KeyExchangeMethod

#: Status notifies that ask for another request.
_REDIRECTING_NOTIFIES: Final = frozenset({NotifyType.COOKIE, NotifyType.REDIRECT})

ACCEPTED: Final = "accepted"
ENCRYPTED: Final = "encrypted"


@dataclass(frozen=True, slots=True)
class ResponseSummary:
    """One message of a responder."""

    exchange: str  # name of the exchange type
    message_id: int
    response: bool
    kind: str  # ACCEPTED (a proposal was chosen), ENCRYPTED, "clear", or the name of a notify
    proposal: str | None  # the chosen one; None: not readable
    key_exchange: str | None  # method of the KE payload
    notifies: tuple[str, ...]  # names, in order
    payloads: tuple[str, ...]  # a short description of each
    fragments: int | None  # total; None: not fragmented
    bytes: int  # of the IKE message (or this fragment of it)


def summarise_response(data: bytes) -> ResponseSummary | None:
    """Summarise a message; None if it is not an IKEv2 message. Never raises."""
    header = parse_ikev2_header(data)
    if header is None:
        return None
    fragment_header = parse_fragment_header(data)
    init = parse_init(data)
    chain = parse_payloads(data).payloads
    notifies = [kind for kind, _ in init.notifies]
    refusals = [kind for kind in notifies if kind < FIRST_STATUS or kind in _REDIRECTING_NOTIFIES]
    if refusals:
        kind = format_notify_type(refusals[0])
    elif init.chosen is not None:
        kind = ACCEPTED
    else:
        kind = ENCRYPTED if any(payload.type in ENCRYPTED_TYPES for payload in chain) else "clear"
    return ResponseSummary(
        exchange=get_name(ExchangeType, header.exchange_type),
        message_id=header.message_id,
        response=header.response,
        kind=kind,
        proposal=None if init.chosen is None else init.chosen.describe(),
        key_exchange=None if init.ke_method is None else get_name(KeyExchangeMethod, init.ke_method),
        notifies=tuple(format_notify_type(kind) for kind in notifies),
        payloads=tuple(describe_payloads(chain)),
        fragments=None if fragment_header is None else fragment_header[1],
        bytes=header.length,
    )


def format_notify_type(kind: int) -> str:
    """Return the name of a notify message type, or its class and number: error notify 8888, status notify 40960."""
    name = get_name(NotifyType, kind)
    if name != str(kind):
        return name
    return f"{'error' if kind < FIRST_STATUS else 'status'} notify {kind}"


def parse_ikev2_header(data: bytes) -> Header | None:
    """Parse the header of an IKEv2 message; None if it or its length is invalid."""
    if len(data) < HEADER.size:
        return None
    header = parse_header(data)
    return header if header.major_version == 2 and header.length == len(data) else None


def compare_responses(recorded: ResponseSummary | None, live: ResponseSummary | None) -> tuple[str, ...]:
    """Return the differences, a line each, without values that change in every run such as nonces and cookies."""
    if recorded is None or live is None:
        return () if recorded is live else ("no answer recorded" if recorded is None else "no answer",)
    lines = []
    for name, recorded_value, live_value in (
        ("exchange", recorded.exchange, live.exchange),
        ("answer", recorded.kind, live.kind),
        ("proposal", recorded.proposal, live.proposal),
        ("key exchange", recorded.key_exchange, live.key_exchange),
        ("fragments", recorded.fragments, live.fragments),
    ):
        if recorded_value != live_value:
            lines.append(f"{name}: {_format_value(recorded_value)} recorded, {_format_value(live_value)} now")
    lines += _list_missing(recorded.notifies, live.notifies, "only recorded")
    lines += _list_missing(live.notifies, recorded.notifies, "only now")
    if recorded.kind == live.kind == ENCRYPTED and recorded.bytes != live.bytes:
        lines.append(f"bytes: {recorded.bytes:,} recorded, {live.bytes:,} now")
    return tuple(lines)


def _list_missing(names: Sequence[str], others: Sequence[str], label: str) -> list[str]:
    missing = ", ".join(dict.fromkeys(name for name in names if name not in others))
    return [f"{label}: {missing}"] if missing else []


def _format_value(value: object) -> str:
    return "none" if value is None else str(value)

"""What a responder answers, as far as that can be read without keys, and what differs from another answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ikeanalyze.wire.header import HEADER, Header, parse_header
from ikeanalyze.wire.ikev2.describe import describe_payloads
from ikeanalyze.wire.ikev2.message import parse_fragment_header, parse_init, parse_payloads
from ikeanalyze.wire.payload_chain import ENCRYPTED_TYPES
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import ExchangeType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.registries.ikev2_transforms import KeyExchangeMethod

#: Notifies below are errors (RFC 7296, 3.10.1).
FIRST_STATUS: Final = 16384
#: Status notifies by which a responder asks for another request instead of going on.
_INSTEAD: Final = frozenset({NotifyType.COOKIE, NotifyType.REDIRECT})

ACCEPTED: Final = "accepted"
ENCRYPTED: Final = "encrypted"


@dataclass(frozen=True, slots=True)
class ResponseSummary:
    """One message of a responder."""

    exchange: str  # name of the exchange type
    message_id: int
    response: bool
    kind: str  # ACCEPTED (a proposal was chosen), ENCRYPTED, "clear", or the notify that came instead
    proposal: str | None  # the chosen one; None: none is readable
    key_exchange: str | None  # method of the KE payload
    notifies: tuple[str, ...]  # names, in order
    payloads: tuple[str, ...]  # in a few words each
    fragments: int | None  # total; None: not fragmented
    bytes: int  # of the IKE message (or this fragment of it)


def summarise_response(data: bytes) -> ResponseSummary | None:
    """What a message says; None: it is no IKEv2 message. Never raises."""
    header = parse_ikev2_header(data)
    if header is None:
        return None
    cut = parse_fragment_header(data)
    init = parse_init(data)
    chain = parse_payloads(data).payloads
    notifies = [kind for kind, _ in init.notifies]
    instead = [kind for kind in notifies if kind < FIRST_STATUS or kind in _INSTEAD]
    if instead:
        kind = get_notify_name(instead[0])
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
        notifies=tuple(get_notify_name(kind) for kind in notifies),
        payloads=tuple(describe_payloads(chain)),
        fragments=None if cut is None else cut[1],
        bytes=header.length,
    )


def get_notify_name(kind: int) -> str:
    """Name of a notify; of one that has none its number, and what it is: error notify 8888, status notify 40960."""
    name = get_name(NotifyType, kind)
    if name != str(kind):
        return name
    return f"{'error' if kind < FIRST_STATUS else 'status'} notify {kind}"


def parse_ikev2_header(data: bytes) -> Header | None:
    """The header of an IKEv2 message that is as long as it says; None: it is none."""
    if len(data) < HEADER.size:
        return None
    header = parse_header(data)
    return header if header.major_version == 2 and header.length == len(data) else None


def compare_responses(recorded: ResponseSummary | None, live: ResponseSummary | None) -> tuple[str, ...]:
    """What differs, in a line each; what changes from run to run anyway (nonces, cookies, lengths of a random) is left out."""
    if recorded is None or live is None:
        return () if recorded is live else ("no answer recorded" if recorded is None else "no answer",)
    lines = []
    for name, before, now in (
        ("exchange", recorded.exchange, live.exchange),
        ("answer", recorded.kind, live.kind),
        ("proposal", recorded.proposal, live.proposal),
        ("key exchange", recorded.key_exchange, live.key_exchange),
        ("fragments", recorded.fragments, live.fragments),
    ):
        if before != now:
            lines.append(f"{name}: {_shown(before)} recorded, {_shown(now)} now")
    lines += _only(recorded.notifies, live.notifies, "only recorded")
    lines += _only(live.notifies, recorded.notifies, "only now")
    if recorded.kind == live.kind == ENCRYPTED and recorded.bytes != live.bytes:
        lines.append(f"bytes: {recorded.bytes:,} recorded, {live.bytes:,} now")
    return tuple(lines)


def _only(these: Sequence[str], those: Sequence[str], where: str) -> list[str]:
    names = ", ".join(dict.fromkeys(name for name in these if name not in those))
    return [f"{where}: {names}"] if names else []


def _shown(value: object) -> str:
    return "none" if value is None else str(value)

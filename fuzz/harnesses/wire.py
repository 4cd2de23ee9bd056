"""The parsers of `wire`: IKEv2, IKEv1, HIP, RADIUS, EAP, X.509 and identities.

The first byte selects the parser, so that coverage guides the mutations of one format at a time. Parsers are documented
to never raise, except for `WireError` where it is caught here; their texts are printable, and their size is in
proportion to the input.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random
from typing import Final

from fuzz.harness import Harness
from fuzz.mutators.binary import mutate_bytes
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.eap.methods import describe_eap, parse_eap_message
from ikeanalyze.wire.eap.packet import get_eap_method
from ikeanalyze.wire.header import HEADER
from ikeanalyze.wire.hip.packet import check_hip_packet, is_checksum_valid, parse_hip
from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev1.describe import describe_ikev1_payloads
from ikeanalyze.wire.ikev1.message import parse_ikev1_fragment, parse_ikev1_payloads, parse_phase1_message
from ikeanalyze.wire.ikev1.proposals import parse_ikev1_sa
from ikeanalyze.wire.ikev2.checks import check_payload_chain
from ikeanalyze.wire.ikev2.describe import describe_payloads
from ikeanalyze.wire.ikev2.encode import encode_chain
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads, parse_fragment_header, parse_init, parse_payloads
from ikeanalyze.wire.ikev2.payloads import Certificate
from ikeanalyze.wire.payload_chain import ENCRYPTED_TYPES, PAYLOAD_HEADER, PayloadChain
from ikeanalyze.wire.radius import parse_radius
from ikeanalyze.wire.registries.ikev2 import PayloadType
from ikeanalyze.wire.x509.certificates import check_certificate, decode_certificate
from ikeanalyze.wire.x509.names import format_distinguished_name, format_general_name

#: Characters of all descriptions of a chain, per payload.
_MAX_TEXT: Final = 700
_MAX_FINDINGS: Final = 50


def _check_printable(texts: Iterable[str]) -> None:
    for text in texts:
        assert text.isprintable(), repr(text)


def _check_chain(chain: PayloadChain, start: int, size: int) -> None:
    """`start`, `size`: where the chain begins in its message, and bytes of the message."""
    place = start
    for payload in chain.payloads:
        assert payload.offset == place, "payloads are not contiguous"
        place += PAYLOAD_HEADER.size + len(payload.body)
    assert place <= max(size, start), "payloads have more bytes than the message"
    texts = describe_payloads(chain)
    for response in (None, True):
        check = check_payload_chain(chain, response=response, method=36)
        assert len(check.payloads) == len(texts) == len(chain.payloads)
        assert len(check.findings) <= _MAX_FINDINGS
        _check_printable(check.findings)
    assert sum(map(len, texts)) <= _MAX_TEXT * len(texts)
    _check_printable(texts)
    _check_printable(describe_ikev1_payloads(chain))


def _run_message(data: bytes) -> None:
    """IKEv2: two parsers of the same bytes agree."""
    chain = parse_payloads(data)
    if len(data) >= HEADER.size:
        _check_chain(chain, HEADER.size, len(data))
    init = parse_init(data)
    if init.error is None:
        assert chain.error is None
    if chain.error is None:
        notifies = sum(payload.type == PayloadType.NOTIFY for payload in chain.payloads)
        assert len(init.notifies) <= notifies
    fragment = parse_fragment_header(data)
    if chain.error is None and fragment is not None:
        last = chain.payloads[-1]
        assert last.type == PayloadType.SKF
        assert last.body[:4] == b"".join(number.to_bytes(2) for number in fragment)


def _run_inner_chain(data: bytes) -> None:
    """Decrypted payloads, after the type of the first one; what was parsed is the same after encoding."""
    first, chain_data = data[0] if data else 0, data[1:]
    chain = parse_decrypted_payloads(chain_data, first)
    _check_chain(chain, 0, len(chain_data))
    payloads = [(payload.type, payload.body) for payload in chain.payloads]
    encoded_first, encoded = encode_chain(payloads)
    again = parse_decrypted_payloads(encoded, encoded_first)
    if not any(kind in ENCRYPTED_TYPES for kind, _ in payloads):
        assert again.error is None
    assert [(payload.type, payload.body) for payload in again.payloads] == payloads


def _run_ikev1(data: bytes) -> None:
    chain = parse_ikev1_payloads(data)
    _check_printable(describe_ikev1_payloads(chain))
    parse_ikev1_fragment(data)
    message = parse_phase1_message(data)
    for transform in message.transforms:
        _check_printable([transform.describe()])


def _run_ikev1_bodies(data: bytes) -> None:
    chain = parse_decrypted_payloads(data[1:], data[0] if data else 0)
    _check_printable(describe_ikev1_payloads(chain))
    sa = parse_ikev1_sa(data[1:])
    _check_printable(proposal.describe() for proposal in sa.proposals)
    _check_printable(transform.describe() for transform in sa.transforms)


def _run_hip(data: bytes) -> None:
    packet = parse_hip(data)
    is_checksum_valid(data, bytes(4), bytes(16))
    if packet is not None:
        assert len(packet.describe()) == len(packet.parameters)
        assert sum(parameter.bytes + 4 for parameter in packet.parameters) <= len(data)
        _check_printable(packet.describe())
        _check_printable(check_hip_packet(packet))


def _run_radius(data: bytes) -> None:
    packet = parse_radius(data)
    if packet.eap_message is not None:
        assert len(packet.eap_message) < len(data)
        _run_eap(packet.eap_message)


def _run_eap(data: bytes) -> None:
    message = parse_eap_message(data)
    if message is not None:
        _check_printable([describe_eap(message), message.error or ""])
    _check_printable([get_eap_method([data, data[1:], data]) or ""])


def _run_names(data: bytes) -> None:
    for format_name in (format_distinguished_name, format_general_name):
        with suppress(WireError):
            _check_printable([format_name(data)])


def _run_identity(data: bytes) -> None:
    _check_printable([format_identity(data[0] if data else 0, data[1:]) or ""])


def _run_certificate(data: bytes) -> None:
    certificate = Certificate(data[0] if data else 0, data[1:])
    parsed = decode_certificate(certificate)
    _check_printable([parsed.name, parsed.error or "", check_certificate(certificate) or ""])
    if parsed.x509 is not None:
        _check_printable([parsed.x509.subject, parsed.x509.key.name])


#: The parsers by the first byte of an input. Reproducers depend on the order: add to the end.
PARSERS: Final[tuple[Callable[[bytes], None], ...]] = (
    _run_message,
    _run_inner_chain,
    _run_ikev1,
    _run_ikev1_bodies,
    _run_hip,
    _run_radius,
    _run_eap,
    _run_names,
    _run_identity,
    _run_certificate,
)


def run(data: bytes) -> None:
    """Parse all bytes but the first with the parser that it selects."""
    if data:
        PARSERS[data[0] % len(PARSERS)](data[1:])


def mutate(data: bytes, rng: Random) -> bytes:
    """Change the bytes after the first, and rarely the parser."""
    parser = bytes([rng.randrange(len(PARSERS))]) if not data or rng.random() < 0.02 else data[:1]
    return parser + mutate_bytes(data[1:], rng)


HARNESS: Final = Harness(run, mutate, max_bytes=4096, share=1.0)

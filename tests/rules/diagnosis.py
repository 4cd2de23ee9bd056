"""Reads the test vectors of diagnosis.toml, and makes the capture of a case."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from zlib import crc32

from tests.craft import MS, Handshake, Trace, ike, udp_packet
from tests.craft.handshake import NAMES
from tests.craft.transport import NON_ESP_MARKER

EXCHANGE_TYPES = {name: number for number, name in NAMES.items()}
#: ENCR_CHACHA20_POLY1305 is 28 (RFC 7634, 2).
CHACHA20 = ike.Proposal([ike.Transform(ike.ENCR, 28), *ike.HYBRID.transforms[1:3]])
PROPOSALS = {"classic": ike.CLASSIC, "hybrid": ike.HYBRID, "chacha20": CHACHA20}
NOTIFIES = {
    "AUTHENTICATION_FAILED": (24, b""),
    "COOKIE": (ike.COOKIE, bytes(range(16))),
    "INVALID_IKE_SPI": (4, b""),
    "INVALID_KE_PAYLOAD": (ike.INVALID_KE_PAYLOAD, b"\0\x14"),
    "INVALID_SYNTAX": (ike.INVALID_SYNTAX, b""),
    "8000": (8000, b""),
    "NO_PROPOSAL_CHOSEN": (ike.NO_PROPOSAL_CHOSEN, b""),
    "REDIRECT": (16407, b"\1\4\xc0\0\2\3"),  # to 192.0.2.3 (RFC 5685, 7.2)
}
#: What an encrypted message has around the plaintext: its headers, and IV, pad length and ICV of AES-GCM.
AROUND = {False: 28 + 4 + 8 + 1 + 16, True: 28 + 8 + 8 + 1 + 16}


@dataclass(frozen=True)
class DiagnosisCase:
    """A case, and its expected diagnosis."""

    name: str
    proposals: str
    accepted: str
    announces: str | None
    nat: bool
    snapshot_length: int | None
    datagrams: tuple[str, ...]
    codes: list[str]
    message: str | None
    frames: list[int] | None
    confidence: str | None
    says: str

    def __str__(self):
        return self.name


@cache
def read_diagnosis_cases() -> list[DiagnosisCase]:
    table = tomllib.loads(Path(__file__).with_name("diagnosis.toml").read_text())
    return [
        DiagnosisCase(
            name=case["name"],
            proposals=case.get("proposals", "classic"),
            accepted=case.get("accepted", case.get("proposals", "classic")),
            announces=case.get("announces"),
            nat=case.get("nat", False),
            snapshot_length=case.get("snapshot_length"),
            datagrams=tuple(case["datagrams"].strip().splitlines()),
            codes=case["codes"],
            message=case.get("message"),
            frames=case.get("frames"),
            confidence=case.get("confidence"),
            says=case.get("says", ""),
        )
        for case in table["case"]
    ]


def make_diagnosis_trace(case: DiagnosisCase) -> Trace:
    """The packets of a case."""
    trace, sa = Trace(), make_handshake(case, case.proposals)
    inits = {
        "offer": sa.init()[0].ike[0],
        "accept": make_handshake(case, case.accepted).init()[1].ike[0],
    }
    for line in case.datagrams:
        time, *words = line.split()
        at = round(float(time) * MS)
        if words == ["end"]:
            trace.ip(at, udp_packet(b"something else", 53, 53))
            continue
        lost = words[-1] == "lost"
        sender, exchange, message_id, kind, fragment, port, *content = words[:-1] if lost else words
        from_initiator, answers = sender == "initiator", kind == "response"
        flags = ike.INITIATOR * from_initiator | ike.RESPONSE * answers
        if content[0] in inits:
            data = inits[content[0]] if len(content) == 1 else vary(sa, inits[content[0]], content[1])
        elif content[0] in NOTIFIES and exchange != "IKE_SA_INIT":
            number, body = NOTIFIES[content[0]]
            clear = [ike.notify(number, body)]
            data = ike.message(sa.spi_i, sa.spi_r, EXCHANGE_TYPES[exchange], flags, int(message_id), clear)
        elif content[0] in NOTIFIES:
            number, body = NOTIFIES[content[0]]
            notify = ike.notify(number, body + b"".join(map(str.encode, content[1:])))
            data = ike.message(sa.spi_i, bytes(8), ike.IKE_SA_INIT, flags, 0, [notify])
        else:
            data = seal(sa, EXCHANGE_TYPES[exchange], flags, int(message_id), fragment, int(content[0]), line)
        marker = NON_ESP_MARKER if port == "4500" else b""
        packets = trace.send(at, marker + data, sport=int(port), dport=int(port), from_initiator=from_initiator)
        if lost:
            trace.drop(packets[1:])
    if case.snapshot_length is not None:
        trace.truncate(case.snapshot_length)
    return trace


def make_handshake(case: DiagnosisCase, proposals: str) -> Handshake:
    """The IKE SA of a case, as a side with these proposals sees it; the SPIs are always the same."""
    notifies = [ike.notify(ike.INTERMEDIATE_EXCHANGE_SUPPORTED)] if case.announces else []
    listed = [PROPOSALS[name] for name in proposals.split(", ")]
    return Handshake(1, proposals=listed, nat=case.nat, notifies=notifies)


def vary(sa: Handshake, request: bytes, number: str) -> bytes:
    """The request with other contents, as after a notify that asks for another one: with one more payload."""
    payloads = [(ike.VENDOR_ID, f"attempt {number}".encode())]
    first, body = ike.chain(payloads)
    # the payload goes first, so that no other has to be changed
    return ike.ike_header(
        sa.spi_i, bytes(8), first, ike.IKE_SA_INIT, ike.INITIATOR, 0, len(request) + len(body)
    ) + bytes([request[16]]) + body[1:] + request[28:]  # fmt: skip


def seal(sa: Handshake, exchange: int, flags: int, message_id: int, fragment: str, size: int, line: str) -> bytes:
    """An encrypted message, or a fragment of one; the same line, apart from its time, gives the same bytes."""
    encryptor = ike.Encryptor(Random(crc32(line.split(maxsplit=1)[1].encode())))
    body = encryptor.body(size - AROUND[fragment != "-"])
    if fragment == "-":
        return ike.encrypted(sa.spi_i, sa.spi_r, exchange, flags, message_id, ike.ID_I, body)
    number, total = map(int, fragment.split("/"))
    return ike.skf(sa.spi_i, sa.spi_r, exchange, flags, message_id, ike.ID_I, [body] * number, total)[-1]

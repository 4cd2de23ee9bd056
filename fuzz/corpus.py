"""Derives the seed corpus of all harnesses from captures/: `python -m fuzz.corpus DIRECTORY`.

The seeds are real messages, captures and key files, cut to the sizes that the harnesses take, and a few made ones.
"""

import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Final

import zstandard

from fuzz.harness import NAMES, load_harness
from fuzz.harnesses import commands, crypto, pipeline, plaintexts, toml
from fuzz.mutators.captures import shorten_capture
from fuzz.parts import join_parts
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.frames import CaptureFrames, read_frames
from ikeanalyze.capture.write.rewrite import rewrite_capture
from ikeanalyze.keys.detect import read_keys
from ikeanalyze.keys.export import build_key_json, build_wireshark_tables
from ikeanalyze.model.prediction.scenarios import FOLDER as LINKS
from ikeanalyze.model.ranking.criteria import SHIPPED as CRITERIA
from ikeanalyze.wire.header import HEADER, parse_header
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads
from ikeanalyze.wire.payload_chain import PayloadChain
from ikeanalyze.wire.radius import parse_radius
from ikeanalyze.wire.registries.hip_parameters import HipParameterType
from ikeanalyze.wire.registries.ikev2 import PayloadType

CAPTURES: Final = Path(__file__).parent.parent / "captures"
#: Bytes of a capture, a log and a file in a seed: longer inputs take longer, and rarely reach more.
_CAPTURE_BYTES: Final = 8000
_LOG_BYTES: Final = 24_000
#: Seeds of a harness with the same first byte, which often selects what is tested.
_MAX_SEEDS: Final = 100
#: Captures from which commands get seeds.
_COMMAND_CAPTURES: Final = ("psk-classic", "eap-md5-radius", "pq-mlkem768-psk", "ikev1-xauth")
_POLICY: Final = b'kind = "table"\nwaits = [0.5, 1, 2, 4]\n'
_CREDENTIALS: Final = (
    b'[local]\nidentity = "initiator.example"\npsk = "0x00112233445566778899"\n[remote]\nidentity = "C=CH, CN=gw"\n'
    b'[eap]\nidentity = "user@example"\npassword = "a password"\n'
)
_CHARON_KEYS: Final = (
    b"Jan  1 00:00:00 08[IKE] SKEYSEED => 32 bytes @ 0x7f0000000000\n"
    b"Jan  1 00:00:00 08[IKE]    0: " + b" ".join([b"AB"] * 16) + b"  ................\n"
)
_HIP_HEADER: Final = bytes((59, 0, 1, 0x21, 0, 0, 0, 0))
_CREDENTIALS_LOADER, _CRITERIA_LOADER, _POLICY_LOADER, _LINK_LOADER, _LAB_LOADER = 4, 3, 2, 1, 0


def find_captures() -> list[Path]:
    """Return the recorded captures."""
    return sorted(path for folder in (CAPTURES, CAPTURES / "lab") for path in folder.glob("*.pcap*"))


def find_key_files(capture: Path) -> list[Path]:
    """Return the key files and logs that were recorded with a capture."""
    stem = capture.name.partition(".pcap")[0]
    return sorted(path for path in capture.parent.glob(f"{stem}.*") if path.name.endswith((".keys.json", ".log.gz")))


def read_key_file(path: Path) -> bytes:
    """Return the beginning of a key file, decompressed."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data)[:_LOG_BYTES]


def _read_short(path: Path) -> bytes:
    return shorten_capture(path.read_bytes(), _CAPTURE_BYTES)


def _make_wire_seeds() -> Iterator[bytes]:
    for path in find_captures():
        frames = read_frames(str(path), spis=None)
        for protocol, message in _iterate_messages(frames):
            yield from _split_message(protocol, message)
        for message in _decrypt(path):
            yield from _split_message(Protocol.IKEV2 if message[17] >> 4 == 2 else Protocol.IKEV1, message)
    yield from _make_hip_seeds()


def _iterate_messages(frames: CaptureFrames) -> Iterator[tuple[int, bytes]]:
    """Yield protocol and bytes of each clear and encrypted message."""
    protocols = dict(zip(frames.columns["datagram"].tolist(), frames.columns["protocol"].tolist(), strict=True))
    for store in (frames.clear, frames.encrypted):
        for datagram in store:
            yield protocols[datagram], store[datagram]


def _decrypt(path: Path) -> list[bytes]:
    """Return the messages that the recorded keys decrypt, without encryption, in the order of the capture."""
    keys = [str(file) for file in find_key_files(path)]
    if not keys:
        return []
    analysis = read_captures(path, ReadOptions(keys=keys, cleartext=True))
    return [analysis.cleartexts[ident].message for ident in sorted(analysis.cleartexts)]


def _split_message(protocol: int, message: bytes) -> Iterator[bytes]:
    """Yield a message and its parts as inputs of the parsers of `wire.PARSERS`."""
    if protocol == Protocol.RADIUS:
        yield b"\5" + message
        eap = parse_radius(message).eap_message
        if eap:
            yield b"\6" + eap
        return
    first = parse_header(message).next_payload
    chain = message[HEADER.size :]
    if protocol == Protocol.IKEV1:
        yield b"\2" + message
        yield bytes([3, first]) + chain
        return
    yield b"\0" + message
    yield bytes([1, first]) + chain
    for payload in parse_decrypted_payloads(chain, first).payloads:
        match payload.type:
            case PayloadType.EAP:
                yield b"\6" + payload.body
            case PayloadType.IDI | PayloadType.IDR:
                yield b"\7" + payload.body[4:]
                yield b"\x08" + payload.body[:1] + payload.body[4:]
            case PayloadType.CERT:
                yield b"\x09" + payload.body


def _make_hip_seeds() -> Iterator[bytes]:
    """Packets of each type, with a parameter of each type; captures/ has no HIP."""
    parameters = b""
    for number in HipParameterType:
        content = bytes(range(20))
        parameters += int(number).to_bytes(2) + len(content).to_bytes(2) + content
        header = bytearray(_HIP_HEADER + bytes(range(32)))
        header[1] = (len(header) + len(parameters)) // 8 - 1
        header[2] = 1 + number % 9
        yield b"\4" + bytes(header) + parameters


def _make_crypto_seeds() -> Iterator[bytes]:
    for suite in range(len(crypto.SUITES)):
        for message in crypto.make_valid_messages(suite):
            yield bytes([0, suite]) + message
        yield bytes([1, suite, PayloadType.NONCE, 0, 1, 0, 1]) + b"\0\0\0\x0c" + bytes(8) + bytes([0, 0, 0, 3])
        yield bytes([5, suite, 36, 36, 32, 32, suite, 12, 255, 255]) + crypto.make_valid_messages(suite)[0]
    yield bytes([2, 0]) + b"".join(bytes([0, number, 0, 3, number, 2]) for number in (1, 3, 2))
    yield bytes([3, 0]) + bytes(range(64))
    for path in find_captures():
        messages = [
            message for protocol, message in _iterate_messages(read_frames(str(path), spis=None)) if protocol == 1
        ]
        if messages:
            nonces = bytes(16)
            yield bytes([4, 0]) + nonces + b"".join(len(message).to_bytes(2) + message for message in messages)
        yield from _make_signature_seeds(_decrypt(path))


def _make_signature_seeds(messages: Sequence[bytes]) -> Iterator[bytes]:
    """The AUTH data and the first certificate of each message that has both."""
    for message in messages:
        bodies = {payload.type: payload.body for payload in reversed(_parse_inner(message).payloads)}
        if PayloadType.AUTH in bodies and PayloadType.CERT in bodies:
            data = bodies[PayloadType.AUTH][4:]
            for method in (0, 1, 4):
                yield bytes([6, method]) + len(data).to_bytes(2) + data + bodies[PayloadType.CERT][1:]


def _parse_inner(message: bytes) -> PayloadChain:
    return parse_decrypted_payloads(message[HEADER.size :], parse_header(message).next_payload)


def _make_reader_seeds() -> Iterator[bytes]:
    for number, path in enumerate(find_captures()):
        data = _read_short(path)
        yield data
        yield _convert_to_pcapng(path)
        if number % 4 == 0:
            yield gzip.compress(data, mtime=0)
            yield zstandard.ZstdCompressor().compress(data)


def _convert_to_pcapng(path: Path) -> bytes:
    """Return the capture as pcapng; a file that is pcapng already is copied."""
    out = BytesIO()
    rewrite_capture(str(path), out, {})
    return shorten_capture(out.getvalue(), _CAPTURE_BYTES)


def _make_key_seeds() -> Iterator[bytes]:
    files = [file for capture in find_captures() for file in find_key_files(capture)]
    for path in files:
        data = read_key_file(path)
        yield data
        if path.suffix == ".json":
            file = read_keys(str(path))
            yield from (
                text.encode() for text in build_wireshark_tables(file.key_sets, file.phase1, file.esp).files.values()
            )
            yield build_key_json(file.key_sets, file.phase1, file.esp).encode()
        else:
            yield from _wrap_log(data)
    yield _CHARON_KEYS
    yield from _wrap_log(_CHARON_KEYS)
    yield b'left right : PSK "a secret"\n: PSK 0x00112233\n: PSK 0sAAECAwQ=\n'
    yield b'"IPv4","192.0.2.1","192.0.2.2","0x00000001","AES-GCM [RFC4106]","0x' + b"00" * 36 + b'","NULL",""\n'


def _wrap_log(log: bytes) -> Iterator[bytes]:
    """A log as Docker and journalctl write it: in JSON, in the export format and with all fields."""
    texts = [line.decode(errors="replace") for line in log[: _LOG_BYTES // 4].splitlines()]
    yield "".join(json.dumps({"log": f"{text}\n", "stream": "stderr"}) + "\n" for text in texts).encode()
    fields = {"GROUP": "IKE", "THREAD": "9", "_PID": "812"}
    yield "".join(json.dumps({"MESSAGE": text} | fields) + "\n" for text in texts).encode()
    yield b"__CURSOR=s=0\nGROUP=IKE\nTHREAD=9\nMESSAGE\n" + len(log).to_bytes(8, "little") + log + b"\n\n"
    cursor = f"s={'0' * 32};i=1;b={'0' * 32};"
    yield "".join(f"Sat 2026-11-21 07:20:56 UTC [{cursor}]\n    MESSAGE={text}\n" for text in texts).encode()


def _make_plaintext_seeds() -> Iterator[bytes]:
    for path in find_captures():
        records: list[plaintexts.PlaintextRecord] = []
        for message in _decrypt(path):
            header = parse_header(message)
            if header.major_version == 2 and len(message) < 2000:
                epoch = 0x80 if any(record.exchange_type == 43 for record in records) else 0
                fragments = 2 if len(message) > 1000 else 0
                records.append(
                    plaintexts.PlaintextRecord(
                        header.exchange_type,
                        header.flags & 0x28 | epoch,
                        header.message_id & 255,
                        header.next_payload,
                        fragments,
                        message[HEADER.size :],
                    )
                )
        if records:
            yield b"".join(record.pack() for record in records[:6])


def _make_pipeline_seeds() -> Iterator[bytes]:
    shorts = []
    for path in find_captures():
        keys = [file for file in find_key_files(path) if file.suffix == ".json"]
        key_data = read_key_file(keys[0]) if keys else b""
        shorts.append(_read_short(path))
        yield join_parts([key_data, _convert_to_pcapng(path)])
    for first in range(0, len(shorts), pipeline.MAX_CAPTURES):
        yield join_parts([b"", *shorts[first : first + pipeline.MAX_CAPTURES]])


def _make_toml_seeds() -> Iterator[bytes]:
    folders = ((_LAB_LOADER, CAPTURES / "scenarios"), (_LINK_LOADER, LINKS), (_CRITERIA_LOADER, CRITERIA))
    for loader, folder in folders:
        for path in sorted(folder.glob("*.toml")):
            yield bytes([loader]) + path.read_bytes()
    for number in range(len(toml.LOADERS)):
        yield bytes([number]) + (_CREDENTIALS if number == _CREDENTIALS_LOADER else _POLICY)


def _make_command_seeds() -> Iterator[bytes]:
    links = sorted(LINKS.glob("*.toml"))
    criteria = sorted(CRITERIA.glob("*.toml"))
    for number, (line, _) in enumerate(commands.COMMANDS):
        for stem in _COMMAND_CAPTURES:
            (path,) = CAPTURES.glob(f"{stem}.pcap*")
            files = find_key_files(path)
            keys = read_key_file(files[-1 if "json" in line else 0]) if files else b""
            text = criteria[0].read_bytes() if line.startswith("rank") else links[0].read_bytes()
            if "policy" in line:
                text = _POLICY
            yield bytes([number]) + join_parts([_read_short(path), keys, text])


_SEEDS: Final = {
    "wire": _make_wire_seeds,
    "crypto": _make_crypto_seeds,
    "keys": _make_key_seeds,
    "readers": _make_reader_seeds,
    "toml": _make_toml_seeds,
    "plaintexts": _make_plaintext_seeds,
    "pipeline": _make_pipeline_seeds,
    "core": _make_pipeline_seeds,
    "commands": _make_command_seeds,
}


def make_seeds(name: str) -> dict[str, bytes]:
    """Return the seeds of a harness by the beginning of their SHA-256.

    Those that are too long are left out, and so are most of those with the same first byte if there are many.
    """
    limit = load_harness(name).max_bytes
    seeds = {sha256(seed).hexdigest()[:16]: seed for seed in _SEEDS[name]() if len(seed) <= limit}
    by_first: dict[bytes, list[str]] = {}
    for stem in sorted(seeds):
        by_first.setdefault(seeds[stem][:1], []).append(stem)
    return {stem: seeds[stem] for stems in by_first.values() for stem in stems[:_MAX_SEEDS]}


def write_corpus(directory: Path) -> None:
    """Write the seeds of each harness to a directory below `directory`."""
    for name in NAMES:
        target = directory / name
        target.mkdir(parents=True, exist_ok=True)
        for stem, seed in make_seeds(name).items():
            (target / stem).write_bytes(seed)


if __name__ == "__main__":
    write_corpus(Path(sys.argv[1]))

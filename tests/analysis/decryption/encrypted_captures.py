"""Captures with encrypted handshakes of every cipher, and all that is read from them."""

from pathlib import Path

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.crypto.algorithms import ENCRYPTION, INTEGRITY
from ikeanalyze.keys.export import build_key_json
from ikeanalyze.keys.key_set import KeySet, Origin
from tests.analysis import encrypted_handshakes
from tests.analysis.encrypted_handshakes import Sa
from tests.craft import Trace, ike
from tests.crypto.key_sizes import select_key_sizes

CIPHERS = [(algorithm, size) for algorithm in ENCRYPTION.values() for size in select_key_sizes(algorithm.key_sizes)]


def list_macs(algorithm):
    """The integrity algorithms of a cipher; None: it is AEAD."""
    return [None] if algorithm.aead else list(INTEGRITY.values())


SUITES = [(algorithm, size, mac) for algorithm, size in CIPHERS for mac in list_macs(algorithm)]
#: Recordings with fragments, losses, rekeying, several additional key exchanges, certificates.
RECORDED = (
    "psk-classic",
    "pq-mlkem768-psk",
    "two-additional",
    "followup",
    "loss20",
    "fragments-dropped_fragment-size-0",
)


def describe(path: Path, keys: Path):
    """All that was read: contents of messages, tables, warnings."""
    contents: list[object] = []
    analysis = read_captures(
        path, ReadOptions(keys=[keys], payloads=True, on_contents=lambda *parts: contents.append(list(parts[2].all)))
    )
    tables = [table.rows() for table in (analysis.messages, analysis.exchanges, analysis.handshakes)]
    return contents, tables, analysis.warnings


def make_handshakes_of_cipher(monkeypatch, algorithm, size) -> dict[str, list[Sa]]:
    """Handshakes with each integrity algorithm, by its name: one capture of all takes a fraction of the time."""
    macs = list_macs(algorithm)
    return {
        mac.name if mac else "AEAD": make_handshakes(monkeypatch, algorithm, size, mac, first=3 * number)
        for number, mac in enumerate(macs)
    }


def make_handshakes(monkeypatch, algorithm, size, mac, count: int = 3, first: int = 0) -> list[Sa]:
    """Handshakes with an additional key exchange, and messages in fragments; `first`: seed of the first one."""
    sizes = size + algorithm.salt, 0 if mac is None else mac.key
    monkeypatch.setitem(encrypted_handshakes.CIPHERS, algorithm.transform, (*sizes, algorithm.iv, "", ""))

    def make_keys(sa: Sa) -> KeySet:
        parts = [sa.rng.randbytes(sizes[number // 2]) for number in range(4)]
        return KeySet(
            origin=Origin("test", None), spi_i=sa.spi_i, spi_r=sa.spi_r, encryption=algorithm.transform,
            integrity=0 if mac is None else mac.transform,
            sk_ei=parts[0], sk_er=parts[1], sk_ai=parts[2], sk_ar=parts[3],
        )  # fmt: skip

    monkeypatch.setattr(Sa, "_keys", make_keys)
    transforms = [
        ike.Transform(ike.ENCR, algorithm.transform, 8 * size),
        *([] if mac is None else [ike.Transform(ike.INTEG, mac.transform)]),
        *(item for item in ike.HYBRID.transforms if item.kind not in (ike.ENCR, ike.INTEG)),
    ]
    return [Sa(seed, proposals=(ike.Proposal(transforms),)) for seed in range(first, first + count)]


def write(folder: Path, sas: list[Sa]) -> tuple[Path, Path]:
    """A capture of all of these handshakes, and their keys."""
    trace, path, keys = Trace(), folder / "capture.pcap", folder / "keys.json"
    for sa in sas:
        trace.play(sa.whole(auth=(2, 1)))
    path.write_bytes(trace.pcap())
    keys.write_text(build_key_json([key_set for sa in sas for key_set in sa.key_sets], (), ()))
    return path, keys

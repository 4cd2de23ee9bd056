"""Recorded captures with their daemons' logs, verified; and the same logs with one bit changed."""

import gzip
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.verification.checks import VerificationCheck
from ikeanalyze.analysis.verification.daemon_log_index import DaemonLogIndex, index_daemon_logs
from ikeanalyze.analysis.verification.ike_sas import IkeSaRecord, collect_ike_sas
from ikeanalyze.analysis.verification.verify import Verification, verify_capture
from ikeanalyze.keys.detect import read_keys
from tests.keys.logs_of import LOGS
from tests.paths import CAPTURES

#: Capture and log of what is recorded with both.
RECORDED = {
    **{
        name: (CAPTURES / f"{name}.{'pcapng' if name == 'eap-md5-radius' else 'pcap'}", f"{name}.charon")
        for name in ("eap-md5-radius", "invalid-ke", "loss20-classic", "pq-mlkem768-psk", "psk-classic")
    },
    "followup": (CAPTURES / "pq-followup-ke.pcap", "charon-6.1-followup.r"),
    "mgr": (LOGS / "charon-6.1-mgr.pcap", "charon-6.1-mgr.i"),
    "rekeys": (LOGS / "charon-5.9.8-rekeys.pcap", "charon-5.9.8-rekeys.i"),
    "eap": (LOGS / "charon-5.9.8-eap.pcap", "charon-5.9.8-eap.r"),
    "rsa": (LOGS / "charon-5.9.8-rsa.pcap", "charon-5.9.8-rsa.i"),
    "wrong-psk": (LOGS / "charon-5.9.8-wrong-psk.pcap", "charon-5.9.8-wrong-psk.r"),
    "libreswan": (LOGS / "charon-5.9.8-libreswan.pcap", "charon-5.9.8-libreswan.r"),
}
_DUMP = re.compile(rb"\] (?:<\S+> )?(.*) => \d+ bytes @")


def capture_of(name: str) -> Path:
    return RECORDED[name][0]


def log_of(name: str) -> Path:
    log = RECORDED[name][1]
    return (CAPTURES if log.endswith(".charon") else LOGS) / f"{log}.log.gz"


def changed_log(name: str, path: Path, label: str, nth: int = 0, byte: int = 0) -> Path:
    """A log that differs in the lowest bit of one byte of the nth dump with a label; 16 bytes are a line."""
    lines = gzip.decompress(log_of(name).read_bytes()).splitlines()
    places = [i for i, line in enumerate(lines) if (m := _DUMP.search(line)) and m[1] == label.encode()]
    at = places[nth] + 1 + byte // 16
    pattern = rb"(.*?\b%d: (?:[0-9A-F]{2} ){%d})([0-9A-F]{2})(.*)" % (byte - byte % 16, byte % 16)
    before, value, after = re.fullmatch(pattern, lines[at]).groups()
    lines[at] = before + b"%02X" % (int(value, 16) ^ 1) + after
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def recorded(name: str, *keys: Path, psk: Path | None = None) -> Verification:
    """A verification with its own log, or with other files."""
    return verify_capture(capture_of(name), keys or (log_of(name),), psk=psk)


def outcomes(checks: Sequence[VerificationCheck]) -> dict[str, Counter[str]]:
    """For each outcome, how many checks of what had it."""
    result: dict[str, Counter[str]] = {}
    for check in checks:
        result.setdefault(check.outcome, Counter())[check.what] += 1
    return result


def failed(verification: Verification) -> list[tuple[str, int | None]]:
    """What failed, with its epoch."""
    return [(check.what, check.epoch) for check in verification.checks if check.outcome == "failed"]


def taken_apart(name: str, *keys: Path) -> tuple[list[IkeSaRecord], DaemonLogIndex]:
    """The IKE SAs of a capture, and what its log says beside keys."""
    files = [read_keys(str(path)) for path in keys or (log_of(name),)]
    result: list[IkeSaRecord] = []

    def look(conversation, encrypted, contents):
        key_sets = [key_set for file in files for key_set in file.key_sets]
        result.extend(collect_ike_sas(conversation, encrypted, contents, key_sets))

    read_captures(capture_of(name), ReadOptions(keys=files, payloads=True, on_contents=look))
    return result, index_daemon_logs(files)

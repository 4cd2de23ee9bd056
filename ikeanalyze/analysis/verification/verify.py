"""Verifies a capture against key files and daemons' logs: ICVs, key schedule, IntAuth, AUTH.

`verify_capture` reads files; `check_ike_sa` checks one IKE SA and does no I/O.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessages
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import AnalysisWarning, CaptureSummary, SkippedFile
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.analysis.verification.agreement_checks import check_agreement
from ikeanalyze.analysis.verification.auth_checks import check_auth_payloads
from ikeanalyze.analysis.verification.checks import VerificationCheck
from ikeanalyze.analysis.verification.daemon_log_index import DaemonLogIndex, index_daemon_logs
from ikeanalyze.analysis.verification.icv_checks import check_icvs
from ikeanalyze.analysis.verification.ike_sas import IkeSaRecord, collect_ike_sas
from ikeanalyze.analysis.verification.int_auth_checks import check_int_auth
from ikeanalyze.analysis.verification.key_checks import check_key_schedule
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.keys.detect import KeyFile, KeyFileError, read_keys
from ikeanalyze.keys.psk import PreSharedKeys, read_psk


@dataclass(frozen=True, slots=True)
class VerifiedHandshake:
    """One IKE SA with its checks, possibly none."""

    id: int  # of the handshake, as in the report
    version: int  # Protocol.IKEV2 or IKEV1
    spi_i: str  # 16 hex digits
    spi_r: str
    replaces: int | None  # id of the handshake whose IKE SA it replaces, if known
    checks: tuple[VerificationCheck, ...]  # in the order ICVs, keys by epoch, IntAuth, AUTH


@dataclass(frozen=True, slots=True)
class Verification:
    """The checks of one capture."""

    handshakes: list[VerifiedHandshake]
    captures: list[CaptureSummary]  # one, or none if it could not be read
    warnings: list[AnalysisWarning] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)  # files that could not be read

    @property
    def checks(self) -> list[VerificationCheck]:
        """The checks of all handshakes."""
        return [check for handshake in self.handshakes for check in handshake.checks]


def verify_capture(
    path: str | Path,
    keys: str | Path | Sequence[str | Path],
    *,
    psk: str | Path | None = None,
    ports: Sequence[int] = (),
    handshake: int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Verification:
    """Check a capture against key files and daemons' logs.

    Args:
        path: path of the capture.
        keys: key files of any kind that `keys.detect` reads; only charon logs have the values that most checks need.
        psk: a file that `keys.psk` reads, for AUTH payloads made with a pre-shared key.
        ports: as in `read_captures`.
        handshake: id of the only handshake to check; the others have no checks. None: check all.
        progress: as in `read_captures`.

    Returns:
        The checks; a capture or key file that cannot be read is in `skipped`.

    Raises:
        PskError: the `psk` file cannot be read.
    """
    secrets = None if psk is None else read_psk(str(psk))
    files: list[KeyFile] = []
    skipped: list[SkippedFile] = []
    for name in [keys] if isinstance(keys, (str, Path)) else keys:
        try:
            files.append(read_keys(str(name)))
        except KeyFileError as error:
            skipped.append(SkippedFile(str(name), str(error).removeprefix(f"{name}: "), keys=True))
    logs = index_daemon_logs(files)
    key_sets = [key_set for file in files for key_set in file.key_sets]
    handshakes: list[VerifiedHandshake] = []

    def verify(state: AnalysisState, encrypted: MessageBytes, contents: DecodedMessages) -> None:
        for sa in collect_ike_sas(state, encrypted, contents, key_sets):
            parent = None if sa.parent is None else sa.parent.handshake + 1
            checks = tuple(check_ike_sa(sa, logs, secrets)) if handshake in (None, sa.handshake + 1) else ()
            handshakes.append(
                VerifiedHandshake(sa.handshake + 1, sa.version, sa.spi_i.hex(), sa.spi_r.hex(), parent, checks)
            )

    analysis = read_captures(
        path, ReadOptions(ports=ports, keys=files, payloads=True, progress=progress, on_contents=verify)
    )
    return Verification(handshakes, analysis.captures, analysis.warnings, skipped + analysis.skipped)


def check_ike_sa(sa: IkeSaRecord, logs: DaemonLogIndex, psk: PreSharedKeys | None) -> Iterator[VerificationCheck]:
    """All checks of one IKE SA, including those that cannot be made, with the reason."""
    yield from check_icvs(sa)
    if sa.version != Protocol.IKEV2:
        return
    yield from check_key_schedule(sa, logs.ppks)
    checks, intermediate = check_int_auth(sa, logs)
    yield from checks
    yield from check_auth_payloads(sa, logs, intermediate, psk)
    yield from check_agreement(sa, logs)

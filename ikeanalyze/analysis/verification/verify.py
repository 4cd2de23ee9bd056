"""Whether what is in a capture follows from what key files and logs say: ICVs, key schedule, IntAuth, AUTH.

`verify_capture` reads files; `check_ike_sa` is what is done with one IKE SA, and does no I/O.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessages
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import AnalysisWarning, CaptureSummary, SkippedFile  # noqa: A004 - the word of the report's schema
from ikeanalyze.analysis.state import AnalysisState
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
    """One IKE SA with its checks; there may be none."""

    id: int  # of the handshake, as the report counts them
    spi_i: str  # 16 hex digits
    spi_r: str
    replaces: int | None  # id of the handshake whose IKE SA it replaces, as far as that is known
    checks: tuple[VerificationCheck, ...]  # in this order: ICVs, keys by epoch, IntAuth, AUTH


@dataclass(frozen=True, slots=True)
class Verification:
    """The checks of one capture."""

    handshakes: list[VerifiedHandshake]
    captures: list[CaptureSummary]  # one, or none if it could not be read
    warnings: list[AnalysisWarning] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)  # files of which nothing could be used

    @property
    def checks(self) -> list[VerificationCheck]:
        """All of them."""
        return [check for one in self.handshakes for check in one.checks]


def verify_capture(
    path: str | Path,
    keys: str | Path | Sequence[str | Path],
    *,
    psk: str | Path | None = None,
    ports: Sequence[int] = (),
    progress: Callable[[int, int | None], None] | None = None,
) -> Verification:
    """Check a capture against key files and daemons' logs.

    `keys`: files of any kind that `keys.files` reads; what the checks need beside keys is in charon logs alone.
    `psk`: a file as `keys.psk` reads it, for AUTH payloads made with a pre-shared key. `ports`, `progress`: as in
    `read_captures.read`. A capture or key file that cannot be read is in `skipped`; a `psk` that cannot raises `PskError`.
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
    key_sets = [one for file in files for one in file.key_sets]
    found: list[VerifiedHandshake] = []

    def look(conversation: AnalysisState, sealed: MessageBytes, contents: DecodedMessages) -> None:
        for sa in collect_ike_sas(conversation, sealed, contents, key_sets):
            parent = None if sa.parent is None else sa.parent.handshake + 1
            checks = tuple(check_ike_sa(sa, logs, secrets))
            found.append(VerifiedHandshake(sa.handshake + 1, sa.spi_i.hex(), sa.spi_r.hex(), parent, checks))

    analysis = read_captures(path, ReadOptions(ports=ports, keys=files, payloads=True, progress=progress, looked=look))
    return Verification(found, analysis.captures, analysis.warnings, skipped + analysis.skipped)


def check_ike_sa(sa: IkeSaRecord, logs: DaemonLogIndex, psk: PreSharedKeys | None) -> Iterator[VerificationCheck]:
    """All checks of one IKE SA; what cannot be made is among them, with what is missing."""
    yield from check_icvs(sa)
    if sa.version != Protocol.IKEV2:
        return
    yield from check_key_schedule(sa, logs.ppks)
    checks, intermediate = check_int_auth(sa, logs)
    yield from checks
    yield from check_auth_payloads(sa, logs, intermediate, psk)

"""Whether what is in a capture follows from what key files and logs say: ICVs, key schedule, IntAuth, AUTH.

`verify` reads files; `checks_of` is what is done with one IKE SA, and does no I/O.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ikeanalyze.analysis.auth_checks import auth_checks
from ikeanalyze.analysis.checks import Check
from ikeanalyze.analysis.contents import Contents
from ikeanalyze.analysis.conversation import Conversation
from ikeanalyze.analysis.icv_checks import icv_checks
from ikeanalyze.analysis.ike_sas import IkeSa, ike_sas
from ikeanalyze.analysis.int_auth_checks import int_auth_checks
from ikeanalyze.analysis.key_checks import key_checks
from ikeanalyze.analysis.logged import Logged, logged
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read
from ikeanalyze.analysis.result import CaptureSummary, Skipped, Warning  # noqa: A004 - the word of the report's schema
from ikeanalyze.capture.datagrams import Protocol
from ikeanalyze.capture.kept import MessageBytes
from ikeanalyze.keys.files import KeyFile, KeyFileError, read_keys
from ikeanalyze.keys.psk import PreSharedKeys, read_psk


@dataclass(frozen=True, slots=True)
class Verified:
    """One IKE SA with its checks; there may be none."""

    id: int  # of the handshake, as the report counts them
    spi_i: str  # 16 hex digits
    spi_r: str
    replaces: int | None  # id of the handshake whose IKE SA it replaces, as far as that is known
    checks: tuple[Check, ...]  # in this order: ICVs, keys by epoch, IntAuth, AUTH


@dataclass(frozen=True, slots=True)
class Verification:
    """The checks of one capture."""

    handshakes: list[Verified]
    captures: list[CaptureSummary]  # one, or none if it could not be read
    warnings: list[Warning] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)  # files of which nothing could be used

    @property
    def checks(self) -> list[Check]:
        """All of them."""
        return [check for one in self.handshakes for check in one.checks]


def verify(
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
    `read.read`. A capture or key file that cannot be read is in `skipped`; a `psk` that cannot raises `PskError`.
    """
    secrets = None if psk is None else read_psk(str(psk))
    files: list[KeyFile] = []
    skipped: list[Skipped] = []
    for name in [keys] if isinstance(keys, (str, Path)) else keys:
        try:
            files.append(read_keys(str(name)))
        except KeyFileError as error:
            skipped.append(Skipped(str(name), str(error).removeprefix(f"{name}: "), keys=True))
    logs = logged(files)
    key_sets = [one for file in files for one in file.key_sets]
    found: list[Verified] = []

    def look(conversation: Conversation, sealed: MessageBytes, contents: Contents) -> None:
        for sa in ike_sas(conversation, sealed, contents, key_sets):
            parent = None if sa.parent is None else sa.parent.handshake + 1
            checks = tuple(checks_of(sa, logs, secrets))
            found.append(Verified(sa.handshake + 1, sa.spi_i.hex(), sa.spi_r.hex(), parent, checks))

    analysis = read(path, ReadOptions(ports=ports, keys=files, payloads=True, progress=progress, looked=look))
    return Verification(found, analysis.captures, analysis.warnings, skipped + analysis.skipped)


def checks_of(sa: IkeSa, logs: Logged, psk: PreSharedKeys | None) -> Iterator[Check]:
    """All checks of one IKE SA; what cannot be made is among them, with what is missing."""
    yield from icv_checks(sa)
    if sa.version != Protocol.IKEV2:
        return
    yield from key_checks(sa, logs.ppks)
    checks, intermediate = int_auth_checks(sa, logs)
    yield from checks
    yield from auth_checks(sa, logs, intermediate, psk)

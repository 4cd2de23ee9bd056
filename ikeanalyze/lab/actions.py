"""What follows a handshake: ping, rekeying, reauthentication, deletion; each waited for until it is done."""

import sys
import time
from collections.abc import Sequence, Set
from typing import Final

from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.daemon import CommandResult, DaemonIkeSa, IkeDaemon
from ikeanalyze.lab.network.namespaces import run_command
from ikeanalyze.lab.network.topology import INNER, LabNetwork
from ikeanalyze.lab.scenario import ScenarioCase

#: What the last messages of an exchange may take when its result is seen.
_SETTLE_SECONDS: Final = 0.1
#: What an answer to an echo may take beside its way, and what the program that asks may take beside that.
_ECHO_SECONDS: Final = 5.0
_PROGRAM_SECONDS: Final = 10.0
_REKEYING: Final = {"rekey-child": "child", "rekey-ike": "ike", "reauthenticate": "reauth"}


def run_step(step: str, initiator: IkeDaemon, net: LabNetwork, case: ScenarioCase) -> CommandResult:
    """Do one of `scenario.STEPS` with the initiator's SA; how it ended. It may take as long as a handshake of this case."""
    longest = case.settings.timeout_s
    if step == "ping":
        return _ping(net, min(_ECHO_SECONDS + 2 * case.settings.link.way_seconds, longest))
    if step == "delete":
        return initiator.terminate()
    before = _names(initiator)
    attempt = initiator.rekey(_REKEYING[step])
    if not attempt.done:
        return attempt
    deadline = time.monotonic() + longest
    # the daemon answers when it has begun
    while time.monotonic() < deadline:
        time.sleep(_SETTLE_SECONDS)
        if _finished(step, initiator.list_ike_sas(), before):
            time.sleep(_SETTLE_SECONDS)
            return CommandResult(True, None)
    return CommandResult(False, f"not finished after {longest:g} s")


def _finished(step: str, sas: Sequence[DaemonIkeSa], before: Set[str]) -> bool:
    """Whether the new one is there, and has taken the old one's place."""
    if step == "reauthenticate":  # charon keeps IKEv1's old IKE SA, which has no CHILD_SA any more, for 10 s
        return any(sa.established and sa.children and sa.name not in before for sa in sas)
    names = {sa.name for sa in sas} if step == "rekey-ike" else {name for sa in sas for name in sa.children}
    return len(names) == 1 and not names & before


def _ping(net: LabNetwork, seconds: float) -> CommandResult:
    command = [
        sys.executable,
        "-m",
        "ikeanalyze.lab.network.ping",
        INNER["initiator"],
        INNER["responder"],
        f"{seconds:g}",
    ]
    try:
        run_command(net.initiator.command(*command), seconds=seconds + _PROGRAM_SECONDS)
    except LabError:
        return CommandResult(False, "no answer")
    return CommandResult(True, None)


def _names(initiator: IkeDaemon) -> set[str]:
    """What tells its IKE SAs and CHILD_SAs from others."""
    return {name for sa in initiator.list_ike_sas() for name in (sa.name, *sa.children)}

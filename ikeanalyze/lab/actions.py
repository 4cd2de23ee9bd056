"""What the initiator does: start a handshake, then ping, traffic, rekeying, reauthentication, deletion."""

import json
import re
import sys
import time
from collections.abc import Sequence, Set
from typing import Final

import msgspec

from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.daemon import CommandResult, DaemonIkeSa, FurtherChildInitiator, IkeDaemon, PacketInitiator
from ikeanalyze.lab.network.topology import INNER, LabNetwork
from ikeanalyze.lab.network.traffic import TrafficPlan, parse_traffic_step
from ikeanalyze.lab.scenario.case import ScenarioCase

#: Wait for the last messages of an exchange after its result is visible.
_SETTLE_SECONDS: Final = 0.1
#: Timeouts for an echo reply, in addition to the link's delay, and for the program that sends the request.
_ECHO_SECONDS: Final = 5.0
_PROGRAM_SECONDS: Final = 10.0
_ERROR_NOTIFY: Final = re.compile(r"[A-Z][A-Z0-9_]+")
_REKEYING: Final = {"rekey-child": "child", "rekey-ike": "ike", "reauthenticate": "reauth"}


def start_handshake(initiator: IkeDaemon, network: LabNetwork | None, case: ScenarioCase) -> CommandResult:
    """Set up an IKE SA and its Child SA, by a command to the daemon or by a packet for a trap policy.

    `network`: None if the sides are machines over SSH, which send no packets for us.

    Raises:
        LabError: the initiator cannot start by a packet.
    """
    if case.settings.initiator.start == "command":
        return initiator.initiate()
    if network is None:
        raise LabError("initiator.start = trap is not possible with initiator.host")
    if not isinstance(initiator, PacketInitiator):
        raise LabError("initiator.start = trap needs initiator.stack = strongswan")
    command = [sys.executable, "-m", "ikeanalyze.lab.network.trigger", INNER["initiator"], INNER["responder"]]
    return initiator.initiate_by_packet(lambda: int(network.initiator.run(*command)))


def run_step(step: str, initiator: IkeDaemon, network: LabNetwork | None, case: ScenarioCase) -> CommandResult:
    """Do a step with the initiator's SA; return its result, at the latest after the handshake timeout."""
    timeout_s = case.settings.timeout_s
    if network and step == "ping":
        return _ping(network, min(_ECHO_SECONDS + 2 * case.settings.link.max_delay_s, timeout_s))
    if network and step.partition(":")[0] == "traffic":
        return _send_traffic(parse_traffic_step(step), network, case)
    if step == "wrong-network":
        return _ask_for_wrong_network(initiator)
    if step == "delete":
        return initiator.terminate()
    before = _list_names(initiator)
    attempt = initiator.rekey(_REKEYING[step])
    if not attempt.done:
        return attempt
    deadline = time.monotonic() + timeout_s
    # the daemon confirms only the start of the rekeying
    while time.monotonic() < deadline:
        time.sleep(_SETTLE_SECONDS)
        if _is_rekeyed(step, initiator.list_ike_sas(), before):
            time.sleep(_SETTLE_SECONDS)
            return CommandResult(True, None)
    return CommandResult(False, f"not finished after {timeout_s:g} s")


def _is_rekeyed(step: str, sas: Sequence[DaemonIkeSa], before: Set[str]) -> bool:
    """Whether the new SA has replaced the old one."""
    if step == "reauthenticate":  # charon keeps IKEv1's old IKE SA without Child SA for 10 s
        return any(sa.established and sa.children and sa.name not in before for sa in sas)
    names = {sa.name for sa in sas} if step == "rekey-ike" else {name for sa in sas for name in sa.children}
    return len(names) == 1 and not names & before


def _ask_for_wrong_network(initiator: IkeDaemon) -> CommandResult:
    """Ask for a Child SA that the responder has to refuse; done: it did."""
    if not isinstance(initiator, FurtherChildInitiator):
        raise LabError("then: wrong-network needs initiator.stack = strongswan")
    answer = initiator.initiate_further_child()
    time.sleep(_SETTLE_SECONDS)
    if answer.done:
        return CommandResult(False, "the responder accepted it")
    return CommandResult(_ERROR_NOTIFY.fullmatch(answer.why or "") is not None, answer.why)


def _ping(network: LabNetwork, seconds: float) -> CommandResult:
    command = [sys.executable, "-m", "ikeanalyze.lab.network.ping", INNER["initiator"], INNER["responder"]]
    try:
        network.initiator.run(*command, f"{seconds:g}", seconds=seconds + _PROGRAM_SECONDS)
    except LabError:
        return CommandResult(False, "no answer")
    return CommandResult(True, None)


def _send_traffic(plan: TrafficPlan, network: LabNetwork, case: ScenarioCase) -> CommandResult:
    patience = _ECHO_SECONDS + case.settings.link.max_delay_s
    command = [sys.executable, "-m", "ikeanalyze.lab.network.traffic", INNER["initiator"], INNER["responder"]]
    command += [f"/proc/{network.responder.keeper}/ns/net", msgspec.json.encode(plan).decode()]
    limit_s = case.settings.timeout_s
    command += [f"{patience:g}", f"{limit_s:g}"]
    try:
        counts = json.loads(network.initiator.run(*command, seconds=limit_s + _PROGRAM_SECONDS))
    except LabError as error:  # such as no route, because there is no Child SA
        return CommandResult(False, f"not sent: {str(error).rpartition(': ')[2]}")
    silent = [direction for direction, packets in counts.items() if not packets["received"]]
    return CommandResult(not silent, f"nothing arrived {' and '.join(silent)}" if silent else None, counts=counts)


def _list_names(initiator: IkeDaemon) -> set[str]:
    """Return the names of the IKE SAs and Child SAs."""
    return {name for sa in initiator.list_ike_sas() for name in (sa.name, *sa.children)}

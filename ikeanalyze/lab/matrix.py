"""The interoperability matrix: a handshake between every pair of installed stacks, with a PSK and with certificates."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.registry import check_stacks, find_installed, get_stack, list_stacks
from ikeanalyze.lab.run.case_run import run_case
from ikeanalyze.lab.scenario.case import ScenarioCase
from ikeanalyze.lab.scenario.expansion import expand_cases

#: Proposals of a side, the first that its stack supports.
_CLASSICAL: Final = "aes256-sha256-ecp256"
_PROPOSALS: Final = (f"{_CLASSICAL}-ke1_mlkem768,{_CLASSICAL}", _CLASSICAL)
#: Every stack has it for ESP.
_ESP: Final = "aes256-sha512"
_AUTHS: Final = ("psk", "rsa")
_TIMEOUT_S: Final = 10
_COLUMNS: Final = ("initiator", "responder", "authentication", "IKE SA", "Child SA", "key exchange", "reason")


@dataclass(frozen=True, slots=True)
class InteropResult:
    """What two stacks did with each other."""

    initiator: str  # name and version
    responder: str
    auth: str
    ike_sa: str  # which sides established it: "both", "initiator", "responder", "none"
    child_sa: bool | None  # whether the initiator established it; None: not run
    key_exchange: str  # the negotiated methods; "": none
    why: str  # the reason of a failure; "": none

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of a table's row."""
        child = {True: "yes", False: "no", None: ""}[self.child_sa]
        return (self.initiator, self.responder, self.auth, self.ike_sa, child, self.key_exchange, self.why)


def list_installed_names() -> list[str]:
    """Return the installed daemons with their versions, as scenarios name them, such as "strongswan-6.1".

    Raises:
        LabError: a plug-in cannot be loaded.
    """
    names = []
    for stack in list_stacks():
        for installed in stack.find() if stack.is_daemon else ():
            version = ".".join(map(str, installed.numbers[:2]))
            names.append(f"{stack.name}-{version}" if version else stack.name)
    return list(dict.fromkeys(names))


def build_interop_case(initiator: str, responder: str, auth: str) -> ScenarioCase:
    """Return the case of a pair; each side has the best proposals that its stack supports."""
    sides = {"initiator": {"stack": initiator, "auth": auth}, "responder": {"stack": responder, "auth": auth}}
    ike = {
        "proposals": _choose_proposals(initiator, "initiator"),
        "responder_proposals": _choose_proposals(responder, "responder"),
        "esp_proposals": _ESP,
    }
    data = {**sides, "ike": ike, "timeout_s": _TIMEOUT_S}
    return expand_cases(data, "the matrix", f"{initiator}_{responder}_{auth}")[0]


def _choose_proposals(name: str, role: str) -> str:
    for proposals in _PROPOSALS:
        ike = {"proposals": proposals, "responder_proposals": proposals, "esp_proposals": _ESP}
        (case,) = expand_cases({role: {"stack": name}, "ike": ike}, "the matrix", "probe")
        stack = get_stack(case.stack(role))
        if not any(stack.list_conflicts(role, case)) and stack.supports(find_installed(role, case), role, case):
            return proposals
    return _CLASSICAL


def run_matrix(
    names: Sequence[str], out: Path, on_result: Callable[[InteropResult], None] | None = None
) -> list[InteropResult]:
    """Run a handshake between each pair and return the results. `out`: as for `run_case`.

    A pair that cannot be run, or of which a daemon does not start, has a result with the reason.
    """
    results = []
    for auth in _AUTHS:
        for initiator in names:
            for responder in names:
                case = build_interop_case(initiator, responder, auth)
                try:
                    check_stacks(case)
                    manifest = run_case(case, out, iterations=1)
                except LabError as error:
                    result = InteropResult(initiator, responder, auth, "not run", None, "", str(error))
                else:
                    result = summarize_manifest(json.loads(manifest.read_text()))
                results.append(result)
                if on_result:
                    on_result(result)
    return results


def summarize_manifest(manifest: Mapping[str, Any]) -> InteropResult:
    """Return what the manifest of a pair's case tells about its handshake."""
    (handshake,), machine, expected = manifest["handshakes"], manifest["machine"], manifest["expected"]
    responder = bool((expected["responder"] or {}).get("established"))
    sides = {(True, True): "both", (True, False): "initiator", (False, True): "responder", (False, False): "none"}
    return InteropResult(
        initiator=machine["initiator"].partition(" (")[0],
        responder=machine["responder"].partition(" (")[0],
        auth=manifest["scenario"]["initiator.auth"],
        ike_sa=sides[handshake["established"], responder],
        child_sa=handshake["child"],
        key_exchange=_get_key_exchange((expected["initiator"] or expected["responder"] or {}).get("messages", ())),
        why=handshake["why"] or "",
    )


def _get_key_exchange(messages: Sequence[str]) -> str:
    """Return the key exchange methods, which follow from the exchanges after IKE_SA_INIT."""
    exchanges = {message.partition(" ")[0] for message in messages}
    if "IKE_INTERMEDIATE" in exchanges:
        return "ECP-256, ML-KEM-768"
    return "ECP-256" if "IKE_AUTH" in exchanges else ""


def format_matrix(results: Sequence[InteropResult]) -> str:
    """Format results as a Markdown table."""
    rows = [_COLUMNS, tuple("---" for _ in _COLUMNS), *(result.cells for result in results)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)

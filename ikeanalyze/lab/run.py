"""A case from its first namespace to its manifest."""

import platform
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from ikeanalyze.lab import (
    LabError,
    emulation,
    freeradius,
    machine,
    manifest,
    network,
    recording,
    sides,
    strongswan,
)
from ikeanalyze.lab.daemon import Daemon, Usage
from ikeanalyze.lab.manifest import Cost, Handshake, Step
from ikeanalyze.lab.scenario import Case
from ikeanalyze.lab.space import Space, execute
from ikeanalyze.lab.strongswan import Attempt, Charon

#: What is called after each handshake: its number, how many there will be, and how it went.
Tell = Callable[[int, int, Handshake], None]

_SETTLE_SECONDS: Final = 0.1
_ABANDON_SECONDS: Final = 5.0


def run(case: Case, out: Path, *, iterations: int | None = None, tell: Tell | None = None) -> Path:
    """Run a case; where its manifest is. Whatever happens, nothing of it stays in the system.

    Errors:
        LabError: something that it needs is not there, or does not start.
    """
    needs_kem = "mlkem" in case.text("ike.proposals") + case.text("ike.esp_proposals")
    charon = machine.charon(ml_kem=needs_kem)
    server = machine.radius() if case.eap else None
    if case.eap and server is None:
        raise LabError(
            "FreeRADIUS is not on this machine: as root, ikeanalyze lab prepare makes a tree with it"
        )
    kernel_esp = machine.kernel_esp()
    with Space() as space:
        net = network.build(space, case)
        emulators = _links(space, case, net)
        known = sides.credentials(case)
        daemons: dict[str, Daemon] = {}
        if server and net.aaa and known.account and net.aaa_address and net.client_address:
            client_chain = known.chains.get("initiator")
            daemons["aaa"] = freeradius.launch(
                space,
                net.aaa,
                server,
                known.account,
                address=net.aaa_address,
                client=net.client_address,
                chain=known.chains.get("aaa"),
                trusted=client_chain.root if client_chain else None,
            )
        charons: dict[str, Charon] = {}
        for host in (net.responder, net.initiator):
            side = sides.side(host.name, case, net, known)
            timeout = case.number("timeout_s")
            charons[host.name] = strongswan.launch(
                space, host, charon, side, kernel_esp=kernel_esp, timeout=timeout
            )
            daemons[host.name] = charons[host.name].daemon
        interfaces = [network.LINK, network.AAA_LINK] if case.eap else [network.LINK]
        taken = recording.start(space, net.responder, interfaces)
        count = iterations or case.integer("iterations")
        handshakes = []
        for number in range(1, count + 1):
            for _ in range(case.integer("abandoned")):
                _abandon(charons)
            handshakes.append(_handshake(number, case, charons["initiator"], daemons, net))
            if tell:
                tell(number, count, handshakes[-1])
        # what the daemons say when they end is in the capture as well
        for role in ("initiator", "responder"):
            daemons[role].stop()
        capture = taken.stop()
        counts = {name: {"by": one.kind, "frames": one.stop()} for name, one in emulators.items()}
        return manifest.write(
            out,
            case,
            handshakes,
            machine=_machine(charon, server, kernel_esp=kernel_esp),
            links=counts,
            capture=capture,
            logs={role: one.log for role, one in charons.items()},
        )


def _links(space: Space, case: Case, net: network.Network) -> dict[str, emulation.Emulator]:
    drops, netem = machine.receiver_drops(), machine.netem()
    ends = [("link", net.path, ((net.initiator, network.ETHERNET), (net.responder, network.LINK)))]
    if net.aaa and net.aaa_path:
        ends.append(
            ("aaa_link", net.aaa_path, ((net.aaa, network.ETHERNET), (net.responder, network.AAA_LINK)))
        )
    emulators = {}
    for name, path, receivers in ends:
        conditions = emulation.Conditions.of(case, name)
        emulators[name] = emulation.start(space, path, conditions, netem=netem, drops_elsewhere=drops)
        if drops:
            for host, interface in receivers:
                emulation.drop_at(host, interface, conditions)
    return emulators


def _abandon(charons: Mapping[str, Charon]) -> None:
    """Leave the responder with a half-open IKE SA: the initiator forgets it before the response comes."""
    before = len(charons["responder"].sas())
    charons["initiator"].begin()
    deadline = time.monotonic() + _ABANDON_SECONDS
    while len(charons["responder"].sas()) <= before and time.monotonic() < deadline:
        time.sleep(0.005)
    charons["initiator"].forget()


def _handshake(
    number: int, case: Case, initiator: Charon, daemons: Mapping[str, Daemon], net: network.Network
) -> Handshake:
    before = {role: daemon.usage() for role, daemon in daemons.items()}
    began = time.monotonic()
    attempt = initiator.initiate()
    ms = (time.monotonic() - began) * 1e3
    time.sleep(_SETTLE_SECONDS)  # the responder and the AAA server may still be busy with it
    dead = [role for role, daemon in daemons.items() if not daemon.alive]
    if dead:
        raise LabError(f"the daemon of the {dead[0]} ended by itself in handshake {number}")
    costs = {role: _cost(before[role], daemon.usage()) for role, daemon in daemons.items()}
    sas = initiator.sas()
    spis = [_text(sas[-1].get(f"{role}-spi")) for role in ("initiator", "responder")] if sas else [None, None]
    steps = []
    if attempt.done:
        for what in case.steps:
            done = _step(what, initiator, net)
            steps.append(Step(what, done.done, done.why))
    if initiator.sas():
        initiator.terminate()
    if initiator.sas():
        initiator.forget()
    return Handshake(number, attempt.done, attempt.why, ms, spis[0], spis[1], costs, steps)


def _step(what: str, initiator: Charon, net: network.Network) -> Attempt:
    if what == "ping":
        inner = network.INNER
        command = [sys.executable, "-m", "ikeanalyze.lab.echo", inner["initiator"], inner["responder"]]
        try:
            execute(net.initiator.inside(*command))
        except LabError:
            return Attempt(False, "no answer")
        return Attempt(True, None)
    if what == "delete":
        return initiator.terminate()
    before = _names(initiator)
    attempt = initiator.rekey({"rekey-child": "child", "rekey-ike": "ike", "reauthenticate": "reauth"}[what])
    if not attempt.done:
        return attempt
    # vici answers when it has begun
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        time.sleep(0.1)
        now = _names(initiator)
        if now and not now & before:
            time.sleep(_SETTLE_SECONDS)
            return Attempt(True, None)
        if what == "rekey-child" and any(kind == "child" for kind, _ in now - before):
            if len([1 for kind, _ in now if kind == "child"]) == 1:
                return Attempt(True, None)
        elif (
            any(kind == "ike" for kind, _ in now - before)
            and len([1 for kind, _ in now if kind == "ike"]) == 1
        ):
            return Attempt(True, None)
    return Attempt(False, "not finished after 20 s")


def _names(initiator: Charon) -> set[tuple[str, str]]:
    """What tells its IKE SAs and CHILD_SAs from others."""
    found = set()
    for sa in initiator.sas():
        found.add(("ike", f"{_text(sa.get('initiator-spi'))}{_text(sa.get('responder-spi'))}"))
        for child in sa.get("child-sas", {}).values():
            if _text(child.get("state")) == "INSTALLED":
                found.add(("child", str(_text(child.get("spi-in")))))
    return found


def _text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def _cost(before: Usage, after: Usage) -> Cost:
    run = None
    if before.run_ns is not None and after.run_ns is not None:
        run = (after.run_ns - before.run_ns) / 1e6
    return Cost(
        round((after.user_s - before.user_s) * 1e3, 3),
        round((after.system_s - before.system_s) * 1e3, 3),
        run,
        before.rss_bytes,
        after.rss_bytes,
    )


def _machine(charon: machine.Stack, server: machine.Stack | None, *, kernel_esp: bool) -> dict[str, Any]:
    ours = "unknown"
    with suppress(PackageNotFoundError):
        ours = version("ikeanalyze")
    return {
        "date": machine.today(),
        "strongswan": charon.version,
        "freeradius": server.version if server else None,
        "kernel": platform.release(),
        "esp": "kernel" if kernel_esp else "user space",
        "ikeanalyze": ours,
    }

"""A case from its first namespace to its manifest."""

import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Protocol

from ikeanalyze.lab import (
    LabError,
    emulation,
    freeradius,
    libreswan,
    machine,
    manifest,
    network,
    recording,
    sides,
    steps,
    strongswan,
)
from ikeanalyze.lab.daemon import Daemon, Usage
from ikeanalyze.lab.manifest import Cost, Handshake, Step
from ikeanalyze.lab.peer import Attempt, IkeSa, Peer
from ikeanalyze.lab.scenario import Case
from ikeanalyze.lab.space import Host, Space, execute

#: What is called after each handshake: its number, how many there will be, and how it went.
Tell = Callable[[int, int, Handshake], None]

_SETTLE_SECONDS: Final = 0.1
_ABANDON_SECONDS: Final = 5.0
#: How long the end of an IKE SA may take where nobody asked for it: a peer that has deleted it does not answer again.
_END_SECONDS: Final = 2.0
#: What would let the initiator go on: a response of IKE_SA_INIT whose first payload (octet 17 of the message) is SA, not
#: one with a COOKIE, without which the responder makes no IKE SA.
_DEAF: Final = (
    "add table inet abandon\n"
    "add chain inet abandon in { type filter hook input priority 0; }\n"
    "add rule inet abandon in udp sport 500 @th,192,8 33 drop\n"
)


class Runs(Protocol):
    """What has to run as long as its case does."""

    @property
    def alive(self) -> bool:
        """Whether it does."""
        ...


def run(case: Case, out: Path, *, iterations: int | None = None, tell: Tell | None = None) -> Path:
    """Run a case; where its manifest is. Whatever happens, nothing of it stays in the system.

    `out` is there, and the caller's alone (`output.claimed`).

    Errors:
        LabError: something that it needs is not there, or does not start or ends before its time, or the results cannot be
            written. What was recorded before the end is kept all the same, where there is something; the text says where.
    """
    stacks, server = needs(case)
    kernel_esp = machine.kernel_esp()
    ways = {name: emulation.Conditions.of(case, name).way_seconds for name in ("link", "aaa_link")}
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
        peers: dict[str, Peer] = {}
        for host in (net.responder, net.initiator):
            peers[host.name] = _launch(space, host, stacks[host.name], case, net, known, kernel_esp=kernel_esp)
            daemons[host.name] = peers[host.name].daemon
        interfaces = [network.LINK, network.AAA_LINK] if case.eap else [network.LINK]
        taken = recording.start(space, net.responder, interfaces)
        watched: dict[str, Runs] = {"the recording": taken}
        watched |= {f"the emulation of {name}": one for name, one in emulators.items()}
        watched |= {f"the daemon of the {role}": one for role, one in daemons.items()}
        count = iterations or case.integer("iterations")
        handshakes: list[Handshake] = []
        ended: LabError | None = None
        try:
            for number in range(1, count + 1):
                space.check_room()
                # what one handshake left on a slow link is not to delay the next
                emulation.calm(emulators.values(), case.number("timeout_s"))
                for _ in range(case.integer("abandoned")):
                    _abandon(peers, net.initiator, ways["link"])
                handshakes.append(_handshake(number, case, peers["initiator"], daemons, net, watched))
                if tell:
                    tell(number, count, handshakes[-1])
        except LabError as error:
            if not handshakes or not taken.alive:
                raise
            ended = error
        # what the daemons say when they end is in the capture as well, and all that still waits for its turn
        daemons["initiator"].stop()
        time.sleep(ways["link"])
        emulation.calm(emulators.values(), case.number("timeout_s"))
        daemons["responder"].stop()
        emulation.calm(emulators.values(), case.number("timeout_s"))
        space.check_room(at_end=True)
        capture = taken.stop(max(ways.values()))
        counts = {name: {"by": one.kind, "frames": one.stop()} for name, one in emulators.items()}
        written = manifest.write(
            out,
            case,
            handshakes,
            ended=str(ended) if ended else None,
            machine=_machine(stacks, server, kernel_esp=kernel_esp),
            links=counts,
            capture=capture,
            dropped=taken.dropped,
            logs={role: one.log for role, one in peers.items()} | _aaa_log(daemons),
        )
        if ended:
            raise LabError(f"{ended}; what was recorded until then: {written}")
        return written


def needs(case: Case) -> tuple[Mapping[str, machine.Stack], machine.Stack | None]:
    """The stack of each side, and the AAA server where there is one.

    Errors:
        LabError: one of them is not on this machine.
    """
    stacks = {role: _stack(role, case) for role in ("responder", "initiator")}
    server = machine.radius() if case.eap else None
    if case.eap and server is None:
        raise LabError("FreeRADIUS is not on this machine: as root, ikeanalyze lab prepare makes a tree with it")
    return stacks, server


def _stack(role: str, case: Case) -> machine.Stack:
    ml_kem = "mlkem" in case.proposals(role) + case.text("ike.esp_proposals")
    return machine.ike(case.text(f"{role}.stack"), ml_kem=ml_kem, ikev1=case.integer("ike.version") == 1)


def _launch(
    space: Space,
    host: Host,
    stack: machine.Stack,
    case: Case,
    net: network.Network,
    known: sides.Credentials,
    *,
    kernel_esp: bool,
) -> Peer:
    if stack.name == machine.LIBRESWAN:
        return libreswan.launch(space, host, stack, case, net, known)
    side = sides.side(host.name, case, net, known)
    return strongswan.launch(space, host, stack, side, kernel_esp=kernel_esp, timeout=case.number("timeout_s"))


def _aaa_log(daemons: Mapping[str, Daemon]) -> dict[str, Path]:
    return {"aaa": daemons["aaa"].output} if "aaa" in daemons else {}


def _links(space: Space, case: Case, net: network.Network) -> dict[str, emulation.Emulator]:
    drops, netem = machine.receiver_drops(), machine.netem()
    ends = [("link", net.path, ((net.initiator, network.ETHERNET), (net.responder, network.LINK)))]
    if net.aaa and net.aaa_path:
        ends.append(("aaa_link", net.aaa_path, ((net.aaa, network.ETHERNET), (net.responder, network.AAA_LINK))))
    emulators = {}
    for name, path, receivers in ends:
        conditions = emulation.Conditions.of(case, name)
        emulators[name] = emulation.start(space, path, conditions, netem=netem, drops_elsewhere=drops)
        if drops:
            for host, interface in receivers:
                emulation.drop_at(host, interface, conditions)
    return emulators


@contextmanager
def _deaf(host: Host) -> Iterator[None]:
    """Let no response of IKE_SA_INIT reach a host, but for one that asks for a COOKIE."""
    execute(host.inside("nft", "-f", "-"), given=_DEAF)
    try:
        yield
    finally:
        execute(host.inside("nft", "delete", "table", "inet", "abandon"))


def _abandon(peers: Mapping[str, Peer], initiator: Host, way_seconds: float) -> None:
    """Leave the responder with a half-open IKE SA: the initiator forgets it and never gets the response."""
    before = len(peers["responder"].sas())
    # there, and where a COOKIE is asked for, back and there again
    deadline = time.monotonic() + _ABANDON_SECONDS + 3 * way_seconds
    with _deaf(initiator):
        peers["initiator"].begin()
        while len(peers["responder"].sas()) <= before and time.monotonic() < deadline:
            time.sleep(0.005)
        peers["initiator"].forget()


def _handshake(
    number: int,
    case: Case,
    initiator: Peer,
    daemons: Mapping[str, Daemon],
    net: network.Network,
    watched: Mapping[str, Runs],
) -> Handshake:
    before = {role: daemon.usage() for role, daemon in daemons.items()}
    began = time.monotonic()
    attempt = initiator.initiate()
    ms = attempt.ms or (time.monotonic() - began) * 1e3
    time.sleep(_SETTLE_SECONDS)  # the responder and the AAA server may still be busy with it
    _check_alive(watched, number)
    costs = {role: _cost(before[role], daemon.usage()) for role, daemon in daemons.items()}
    sas = initiator.sas()
    youngest = sas[-1] if sas else IkeSa(None, None, established=False, children=())
    established = attempt.done or youngest.established
    taken = []
    for what in case.steps:
        done = steps.take(what, initiator, net, case) if established else Attempt(False, "there is no IKE SA")
        taken.append(Step(what, done.done, done.why))
    if initiator.sas():
        initiator.terminate(_END_SECONDS + 2 * emulation.Conditions.of(case, "link").way_seconds)
    if initiator.sas():
        initiator.forget()
    _check_alive(watched, number)
    return Handshake(
        number=number,
        established=established,
        child=attempt.done,
        why=attempt.why,
        ms=ms,
        spi_i=youngest.spi_i,
        spi_r=youngest.spi_r,
        costs=costs,
        steps=taken,
    )


def _check_alive(watched: Mapping[str, Runs], number: int) -> None:
    for what, one in watched.items():
        if not one.alive:
            raise LabError(f"{what} ended by itself in handshake {number}")


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


def _machine(stacks: Mapping[str, machine.Stack], server: machine.Stack | None, *, kernel_esp: bool) -> dict[str, Any]:
    ours = "unknown"
    with suppress(PackageNotFoundError):
        ours = version("ikeanalyze")
    return {
        "date": machine.today(),
        **{role: str(stacks[role]) for role in ("initiator", "responder")},
        "aaa": str(server) if server else None,
        "kernel": platform.release(),
        "esp": "kernel" if kernel_esp else "user space",
        "ikeanalyze": ours,
    }

"""Find values of a case that contradict each other."""

import itertools
from collections.abc import Iterator

import msgspec

from ikeanalyze.lab.network.traffic import parse_traffic_step
from ikeanalyze.lab.scenario.case import ScenarioCase
from ikeanalyze.lab.scenario.links import DIRECTIONS
from ikeanalyze.lab.scenario.settings import (
    AKA,
    CERTIFICATES,
    EAP,
    OWN_STACK,
    ROLES,
    STRONGSWAN,
    IkeSettings,
    ScenarioSettings,
    get_key_sizes,
)
from ikeanalyze.model.prediction.link import LinkError, LinkModel, validate_link


def find_conflicts(case: ScenarioCase) -> Iterator[str]:
    """Return a sentence for each contradiction, with the keys concerned."""
    checks = (
        *(_find_value_conflicts, _find_version_conflicts, _find_link_conflicts, _find_traffic_conflicts),
        *(_find_keep_conflicts, _find_load_conflicts, _find_ssh_conflicts),
    )
    return itertools.chain.from_iterable(check(case) for check in checks)


def _find_value_conflicts(case: ScenarioCase) -> Iterator[str]:
    """Return key sizes, addresses and credentials that are not possible together."""
    settings = case.settings
    if settings.link.nat and settings.ip_version == 6:
        yield "link.nat needs ip_version = 4"
    if settings.ip_version == 6 and settings.link.mtu < 1280:
        yield "link.mtu: IPv6 needs 1280 or more"
    for role in ROLES:
        side = case.side(role)
        sizes = get_key_sizes(side.auth)
        for key, bits in (("key_bits", side.key_bits), ("authority_bits", side.authority_bits)):
            if bits and bits not in sizes:
                allowed = ", ".join(map(str, sizes))
                yield f"{role}.{key} = {bits} is not allowed with {side.auth}; allowed is one of {allowed}"
    auth = settings.initiator.auth
    if auth == AKA and case.stack("initiator") == STRONGSWAN:
        yield f"initiator.auth = {AKA} needs initiator.stack = {OWN_STACK}: Debian's strongSwan has no USIM"
    for role in ROLES:
        if case.side(role).certificate != "valid" and case.side(role).auth not in (*CERTIFICATES, "eap-tls"):
            yield f"{role}.certificate needs certificates, but {role}.auth = {case.side(role).auth} uses none"
    if settings.initiator.wrong_secret and auth in (*CERTIFICATES, "eap-tls"):
        yield f"initiator.wrong_secret needs a secret, and {auth} has none"


def _find_keep_conflicts(case: ScenarioCase) -> Iterator[str]:
    """Return settings that need a single IKE SA at a time."""
    settings = case.settings
    if settings.keep:
        if settings.then:
            yield "keep is not possible with then: a step does not say which of several IKE SAs it is for"
        if settings.ike.version == 1:
            yield "keep needs ike.version = 2"
        for role in ROLES:
            if case.stack(role) != STRONGSWAN:
                yield f"keep needs {role}.stack = strongswan"


def _find_load_conflicts(case: ScenarioCase) -> Iterator[str]:
    """Return settings that are for one handshake at a time."""
    settings = case.settings
    if settings.initiators == 1:
        return
    if settings.then:
        yield "initiators is not possible with then: a step does not say which of several IKE SAs it is for"
    if settings.retry != "never":
        yield "initiators needs retry = never"
    if settings.initiator.start != "command":
        yield "initiators needs initiator.start = command"
    if settings.ike.version == 1:
        yield "initiators needs ike.version = 2"
    for role in ROLES:
        if case.stack(role) != STRONGSWAN:
            yield f"initiators needs {role}.stack = strongswan"


def _find_ssh_conflicts(case: ScenarioCase) -> Iterator[str]:
    """Return settings that real machines and links do not have."""
    settings = case.settings
    given = [role for role in ROLES if case.side(role).host]
    for role in ROLES:
        side = case.side(role)
        if given and role not in given:
            yield f"{given[0]}.host needs {role}.host as well: both sides are machines over SSH, or neither is"
        for key in ("address", "interface"):
            if getattr(side, key) and not side.host:
                yield f"{role}.{key} needs {role}.host"
        if side.host and side.root and not side.root.startswith("/"):
            yield f"{role}.root with {role}.host is an absolute path on that machine"
    if not given:
        return
    if settings.initiator.host == settings.responder.host:
        yield "initiator.host and responder.host are the same machine"
    defaults = ScenarioSettings()
    for name in ("link", "aaa_link"):
        for field in msgspec.structs.fields(getattr(settings, name)):
            if getattr(getattr(settings, name), field.name) != getattr(getattr(defaults, name), field.name):
                yield f"{name}.{field.name} needs an emulated link; with initiator.host, the link is a real one"
    if case.eap:
        yield f"initiator.auth = {settings.initiator.auth} needs an AAA server, which initiator.host does not have"
    if settings.abandoned:
        yield "abandoned is not possible with initiator.host"
    if settings.initiator.start == "trap":
        yield "initiator.start = trap is not possible with initiator.host"
    for step in settings.then:
        if step.partition(":")[0] in ("ping", "traffic"):
            yield f"then: {step} is not possible with initiator.host"


def _find_version_conflicts(case: ScenarioCase) -> Iterator[str]:
    """Return settings that the IKE version does not have."""
    settings, ike = case.settings, case.settings.ike
    if ike.version == 2:
        if ike.mode != IkeSettings().mode:
            yield "ike.mode needs ike.version = 1"
        if settings.initiator.xauth:
            yield "initiator.xauth needs ike.version = 1"
        return
    auth = settings.initiator.auth
    if auth in EAP:
        yield f"initiator.auth = {auth} needs ike.version = 2"
    if auth != settings.responder.auth:
        yield "with ike.version = 1, initiator.auth and responder.auth are the same"
    for key in ("proposals", "responder_proposals", "esp_proposals"):
        if "ke1_" in getattr(ike, key):
            yield f"ike.{key}: additional key exchanges need ike.version = 2"
    for key, value in (("abandoned", settings.abandoned), ("ike.cookie_threshold", ike.cookie_threshold)):
        if value:
            yield f"{key} needs ike.version = 2"
    if "rekey-ike" in settings.then:
        yield "then: rekey-ike needs ike.version = 2; IKEv1 has reauthenticate"


def _find_link_conflicts(case: ScenarioCase) -> Iterator[str]:
    """Return bursts that the losses of a link cannot have."""
    for name in ("link", "aaa_link"):
        conditions = case.link(name)
        for direction in DIRECTIONS:
            loss = conditions.get_direction(direction).loss
            try:
                if loss and conditions.burst:
                    validate_link(LinkModel(0, loss, burst=conditions.burst))
            except LinkError as error:
                key = "burst_frames" if error.what == "burst" else "burst_loss_percent"
                yield f"{name}.{key}: {error}"


def _find_traffic_conflicts(case: ScenarioCase) -> Iterator[str]:
    """Return invalid traffic, and what a trap policy does not support."""
    settings = case.settings
    for step in settings.then:
        if step.partition(":")[0] != "traffic":
            continue
        try:
            seconds = parse_traffic_step(step).seconds
        except ValueError as error:
            yield f"then: {step}: {error}"
        else:
            if seconds > settings.timeout_s:
                yield f"then: {step}: takes {seconds:g} s, and timeout_s is {settings.timeout_s:g}"
    if settings.initiator.start == "trap" and settings.abandoned:
        yield "abandoned needs initiator.start = command"

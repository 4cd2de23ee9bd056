"""Scenarios: reads and checks TOML files, and expands them into cases.

A scenario has the keys of `ScenarioSettings`, all optional. A list instead of a single value is a dimension of a
matrix; each combination is a `ScenarioCase`.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from ikeanalyze.io.convert import describe_allowed
from ikeanalyze.io.toml import TomlFileError, read_toml
from ikeanalyze.lab import LabError

#: Limits for the cases of a file and the handshakes of a case.
MAX_CASES: Final = 500
MAX_ITERATIONS: Final = 10_000
#: Limits for the characters of a value and of a case's name: file names have at most 255 bytes with suffix.
_MAX_LABEL: Final = 60
_MAX_NAME: Final = 200

CERTIFICATES: Final = ("rsa", "ecdsa")
#: The responder has the initiator's proposals.
SAME: Final = "same"
STRONGSWAN: Final = "strongswan"
#: The sides with an IKE daemon.
ROLES: Final = ("initiator", "responder")
EAP: Final = ("eap-md5", "eap-mschapv2", "eap-tls")
KEY_SIZES: Final = {"rsa": (2048, 3072, 4096), "ecdsa": (256, 384, 521)}

_PROPOSAL: Final = r"[a-z0-9_]+(-[a-z0-9_]+)*(,[a-z0-9_]+(-[a-z0-9_]+)*)*"
_PROPOSAL_FORMAT: Final = "algorithms in strongSwan's words, such as aes256-sha256-ecp256"
StepName = Literal["ping", "rekey-child", "rekey-ike", "reauthenticate", "delete"]
Steps = Annotated[tuple[StepName, ...], Meta(description=f"a list of {', '.join(get_args(StepName))}")]
ProposalText = Annotated[str, Meta(pattern=rf"^(?!{SAME}\Z){_PROPOSAL}\Z", description=_PROPOSAL_FORMAT)]
SameOrProposalText = Annotated[str, Meta(pattern=rf"^{_PROPOSAL}\Z", description=_PROPOSAL_FORMAT)]
StackName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z][a-z0-9_]{0,30}(-[0-9]{1,3}(\.[0-9]{1,3}){0,2})?\Z",
        description="the name of a stack, with or without a version as in strongswan-5.9",
    ),
]
CommandText = Annotated[str, Meta(max_length=4096, description="a command line")]
RootText = Annotated[str, Meta(max_length=4096, description="a path")]
KeyBits = Literal[0, 256, 384, 521, 2048, 3072, 4096]
ChainLength = Annotated[int, Meta(ge=2, le=5)]
Value = str | int | float | bool | tuple[str, ...]


class LabScenarioError(LabError):
    """An invalid scenario; the text has the file, the key and the allowed values."""


class IkeSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How the daemons negotiate and retransmit."""

    version: Annotated[int, Meta(ge=1, le=2)] = 2
    mode: Literal["main", "aggressive"] = "main"
    proposals: ProposalText = "aes256-sha256-ecp256"
    responder_proposals: SameOrProposalText = SAME
    esp_proposals: ProposalText = "aes256-sha256"
    fragment_size: Annotated[int, Meta(ge=0, le=65_535)] = 1280
    retransmit_timeout_s: Annotated[float, Meta(ge=0.05, le=60)] = 4.0
    retransmit_base: Annotated[float, Meta(ge=1, le=10)] = 1.8
    retransmit_tries: Annotated[int, Meta(ge=1, le=50)] = 5
    cookie_threshold: Annotated[int, Meta(ge=0, le=1000)] = 0


class InitiatorSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The initiator's daemon and credentials."""

    stack: StackName = STRONGSWAN
    auth: Literal["psk", "rsa", "ecdsa", "eap-md5", "eap-mschapv2", "eap-tls"] = "psk"
    key_bits: KeyBits = 0
    chain: ChainLength = 2
    wrong_secret: bool = False
    xauth: bool = False
    command: CommandText = ""
    root: RootText = ""


class ResponderSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The responder's daemon and credentials."""

    stack: StackName = STRONGSWAN
    auth: Literal["psk", "rsa", "ecdsa"] = "psk"
    key_bits: KeyBits = 0
    chain: ChainLength = 2
    command: CommandText = ""
    root: RootText = ""


class AaaSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The AAA server's certificate, for EAP-TLS."""

    key_bits: Literal[2048, 3072, 4096] = 2048
    chain: ChainLength = 2


class LinkConditions(Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions of a link, the same in both directions."""

    rtt_ms: Annotated[float, Meta(ge=0, le=10_000)] = 0.0
    jitter_ms: Annotated[float, Meta(ge=0, le=1_000)] = 0.0  # uniform around half the round-trip time
    loss_percent: Annotated[float, Meta(ge=0, le=90)] = 0.0  # of frames, in each direction
    rate_kbps: Annotated[float, Meta(ge=0, le=10_000_000)] = 0.0  # 0: no limit
    mtu: Annotated[int, Meta(ge=576, le=9000)] = 1500
    drop_ip_fragments: bool = False

    @property
    def max_delay_s(self) -> float:
        """Maximum one-way delay of a frame, without serialisation at the link's rate."""
        return (self.rtt_ms / 2 + self.jitter_ms) / 1e3


class NatLinkConditions(LinkConditions, frozen=True):
    """The link between initiator and responder."""

    nat: bool = False


class ScenarioSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a scenario, with their defaults; docs/lab.md explains each of them."""

    iterations: Annotated[int, Meta(ge=1, le=MAX_ITERATIONS)] = 1
    timeout_s: Annotated[float, Meta(ge=1, le=600)] = 60.0
    abandoned: Annotated[int, Meta(ge=0, le=100)] = 0
    ip_version: Literal[4, 6] = 4
    ike: IkeSettings = IkeSettings()
    initiator: InitiatorSettings = InitiatorSettings()
    responder: ResponderSettings = ResponderSettings()
    aaa: AaaSettings = AaaSettings()
    link: NatLinkConditions = NatLinkConditions()
    aaa_link: LinkConditions = LinkConditions()
    then: Steps = ()


@dataclass(frozen=True, slots=True)
class ScenarioKey:
    """A key of a scenario."""

    default: Value
    kind: Any  # type of its value

    @property
    def allowed(self) -> str:
        """The allowed values, for messages and the documentation."""
        return describe_allowed(self.kind)


def _flatten(settings: Struct, prefix: str = "") -> Iterator[tuple[str, ScenarioKey]]:
    """Return the dotted keys of settings with their values."""
    for field in msgspec.structs.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, Struct):
            yield from _flatten(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, ScenarioKey(value, field.type)


#: Every key, by its dotted name.
KEYS: Final[Mapping[str, ScenarioKey]] = dict(_flatten(ScenarioSettings()))


@dataclass(frozen=True, slots=True)
class ScenarioCase:
    """One combination of a scenario's matrix, run with the same daemons into one capture."""

    name: str  # the scenario's name and the values of the matrix dimensions
    settings: ScenarioSettings

    @property
    def values(self) -> dict[str, Value]:
        """The value of each of `KEYS`."""
        return {name: key.default for name, key in _flatten(self.settings)}

    def side(self, role: str) -> InitiatorSettings | ResponderSettings:
        """The settings of the initiator or the responder."""
        return self.settings.initiator if role == "initiator" else self.settings.responder

    def link(self, name: str) -> LinkConditions:
        """The conditions of "link" or "aaa_link"."""
        return self.settings.link if name == "link" else self.settings.aaa_link

    def proposals(self, side: str) -> str:
        """Return the comma-separated IKE proposals of a side."""
        ike = self.settings.ike
        return ike.proposals if side == "initiator" or ike.responder_proposals == SAME else ike.responder_proposals

    def stack(self, side: str) -> str:
        """Return the daemon of a side without version."""
        return self.side(side).stack.partition("-")[0]

    @property
    def eap(self) -> bool:
        """Whether the initiator uses EAP, with an AAA server."""
        return self.settings.initiator.auth in EAP

    def key_bits(self, side: str) -> int:
        """Return the key size of a side with a certificate, by default the smallest."""
        settings = self.side(side)
        return settings.key_bits or _key_sizes(settings.auth)[0]


def load_cases(path: Path) -> list[ScenarioCase]:
    """Return the cases of a scenario file.

    Raises:
        LabScenarioError: the file cannot be read, is not TOML, or has an invalid key or value.
    """
    try:
        return expand_cases(read_toml(str(path)), str(path), path.stem)
    except OSError as error:
        raise LabScenarioError(f"{path}: {error.strerror}") from None
    except TomlFileError as error:
        raise LabScenarioError(f"{path}: {error}") from None
    except RecursionError:
        raise LabScenarioError(f"{path}: tables are nested too deeply") from None


def expand_cases(data: Mapping[str, Any], where: str, name: str) -> list[ScenarioCase]:
    """Return the cases of a scenario that was read from `where`; the first dimension varies slowest."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}", name):
        raise LabScenarioError(f"{where}: the file's name must be of letters, digits, dots and dashes")
    choices: dict[str, list[Value]] = {}
    for key, value in _flatten_tables(data):
        if key not in KEYS:
            near = get_close_matches(key, KEYS, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            siblings = [name for name in KEYS if name.split(".")[0] == key.split(".")[0]]
            raise LabScenarioError(f"{where}: unknown key {key}; {hint}allowed are {', '.join(siblings or KEYS)}")
        if key in choices:  # TOML: a table's key and a quoted key with a dot are different
            raise LabScenarioError(f"{where}: {key} is given twice")
        choices[key] = _values(where, key, value)
    dimensions = [key for key, values in choices.items() if len(values) > 1]
    count = math.prod(len(values) for values in choices.values())
    if count > MAX_CASES:
        raise LabScenarioError(f"{where}: the lists make {count:,} cases; at most {MAX_CASES} are run at once")
    expanded = []
    for product in itertools.product(*choices.values()):
        chosen = dict(zip(choices, product, strict=True))
        label = "_".join(_label(key, chosen[key]) for key in dimensions)
        case = ScenarioCase(f"{name}_{label}" if label else name, _settings(chosen))
        for conflict in itertools.chain(_conflicts(case), _version_conflicts(case)):
            raise LabScenarioError(f"{where}: {conflict}")
        expanded.append(case)
    names = {case.name for case in expanded}
    # long proposals with the same beginning, or many of them
    if len(names) < len(expanded) or max(map(len, names)) > _MAX_NAME:
        numbered = enumerate(expanded, 1)
        return [ScenarioCase(f"{case.name[:_MAX_LABEL]}_{number}", case.settings) for number, case in numbered]
    return expanded


def _flatten_tables(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten_tables(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _settings(values: Mapping[str, Value]) -> ScenarioSettings:
    """Convert checked values by dotted key to settings."""
    tables: dict[str, Any] = {}
    for key, value in values.items():
        table, _, name = key.rpartition(".")
        (tables.setdefault(table, {}) if table else tables)[name] = value
    return msgspec.convert(tables, ScenarioSettings)


def _values(where: str, key: str, value: Any) -> list[Value]:
    """Return the values of a key, several if it is a dimension."""
    # a single value of `then` is a list; a list of lists is a dimension
    is_matrix = isinstance(value, list) and (key != "then" or any(isinstance(part, list) for part in value))
    parts = value if is_matrix else [value]
    if not parts:
        raise LabScenarioError(f"{where}: {key} is an empty list")
    values: list[Value] = []
    for part in parts:
        try:
            converted = msgspec.convert(part, KEYS[key].kind)
        except msgspec.ValidationError:
            problem = f"{key} = {_quoted(part)} is not allowed; allowed is {KEYS[key].allowed}"
            raise LabScenarioError(f"{where}: {problem}") from None
        if converted in values:
            raise LabScenarioError(f"{where}: {key} has {part!r} twice")
        values.append(converted)
    return values


def _quoted(value: Any) -> str:
    """Return the shortened repr of a value."""
    try:
        text = repr(value)
    except ValueError:  # Python does not format thousands of decimal digits
        return "an integer of thousands of digits"
    return text if len(text) <= _MAX_LABEL else f"{text[:_MAX_LABEL]}..."


def _label(key: str, value: Value) -> str:
    """Return the part of a case's name for a value, in characters that are safe in file names."""
    text = "-".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else value
    side, _, last = key.rpartition(".")
    name = last if not side or side in ("ike", "link") else f"{side}-{last}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{name}-{text}".replace("_", "-"))[:_MAX_LABEL]


def _key_sizes(auth: str) -> tuple[int, ...]:
    return KEY_SIZES["ecdsa" if auth == "ecdsa" else "rsa"]


def _conflicts(case: ScenarioCase) -> Iterator[str]:
    """Return values that conflict with each other."""
    settings = case.settings
    if settings.link.nat and settings.ip_version == 6:
        yield "link.nat is for ip_version = 4"
    if settings.ip_version == 6 and settings.link.mtu < 1280:
        yield "link.mtu: IPv6 needs 1280 or more"
    for role in ROLES:
        auth, bits = case.side(role).auth, case.side(role).key_bits
        sizes = _key_sizes(auth)
        if bits and bits not in sizes:
            allowed = ", ".join(map(str, sizes))
            yield f"{role}.key_bits = {bits} is not allowed with {auth}; allowed is one of {allowed}"
    auth = settings.initiator.auth
    if settings.initiator.wrong_secret and auth in (*CERTIFICATES, "eap-tls"):
        yield f"initiator.wrong_secret is for secrets, and {auth} has none"


def _version_conflicts(case: ScenarioCase) -> Iterator[str]:
    """Return settings that the IKE version does not have."""
    settings, ike = case.settings, case.settings.ike
    if ike.version == 2:
        if ike.mode != IkeSettings().mode:
            yield "ike.mode is for ike.version = 1"
        if settings.initiator.xauth:
            yield "initiator.xauth is for ike.version = 1"
        return
    auth = settings.initiator.auth
    if auth in EAP:
        yield f"initiator.auth = {auth} is for ike.version = 2"
    if auth != settings.responder.auth:
        yield "with ike.version = 1, initiator.auth and responder.auth are the same"
    for key in ("proposals", "responder_proposals", "esp_proposals"):
        if "ke1_" in getattr(ike, key):
            yield f"ike.{key}: additional key exchanges are for ike.version = 2"
    for key, value in (("abandoned", settings.abandoned), ("ike.cookie_threshold", ike.cookie_threshold)):
        if value:
            yield f"{key} is for ike.version = 2"
    if "rekey-ike" in settings.then:
        yield "then: rekey-ike is for ike.version = 2; IKEv1 has reauthenticate"

"""Scenarios: reads and checks TOML files, and expands them into cases.

A scenario has the keys of `ScenarioSettings`, all optional. A list instead of a single value is a dimension of a
matrix; each combination is a `ScenarioCase`.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from ikeanalyze.io.convert import describe_allowed
from ikeanalyze.io.lab_manifest import CaptureHost
from ikeanalyze.io.suggestions import suggest_name
from ikeanalyze.io.toml import TomlFileError, parse_toml, read_toml
from ikeanalyze.lab import LabError
from ikeanalyze.lab.network.traffic import parse_traffic_step
from ikeanalyze.model.prediction.link import LinkError, LinkModel, LossBurst, validate_link

#: Limits for the cases of a file and the handshakes of a case.
MAX_CASES: Final = 500
MAX_ITERATIONS: Final = 10_000
#: Limits for the characters of a value and of a case's name: file names have at most 255 bytes with suffix.
_MAX_LABEL: Final = 60
_MAX_NAME: Final = 200

#: The tables of keys that vary together.
_PAIRS: Final = "pairs"
CERTIFICATES: Final = ("rsa", "ecdsa")
#: The responder has the initiator's proposals.
SAME: Final = "same"
STRONGSWAN: Final = "strongswan"
#: Our own initiator.
OWN_STACK: Final = "ikeanalyze"
#: The sides with an IKE daemon.
ROLES: Final = ("initiator", "responder")
#: The method that hostapd serves; FreeRADIUS serves the others.
AKA: Final = "eap-aka"
EAP: Final = ("eap-md5", "eap-mschapv2", "eap-tls", AKA)
KEY_SIZES: Final = {"rsa": (2048, 3072, 4096), "ecdsa": (256, 384, 521)}

_PROPOSAL: Final = r"[a-z0-9_]+(-[a-z0-9_]+)*(,[a-z0-9_]+(-[a-z0-9_]+)*)*"
_PROPOSAL_FORMAT: Final = "algorithms in strongSwan's words, such as aes256-sha256-ecp256"
StepName = Literal["ping", "traffic", "rekey-child", "rekey-ike", "reauthenticate", "delete"]
_TRAFFIC: Final = "traffic:count=1000,size=64,rate=200,direction=both"
Step = Annotated[str, Meta(pattern=rf"^({'|'.join(get_args(StepName))}|traffic:[a-z0-9=,]{{1,80}})\Z")]
Steps = Annotated[
    tuple[Step, ...], Meta(description=f"a list of {', '.join(get_args(StepName))}, the second also as {_TRAFFIC}")
]
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
HostText = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@:+-]{0,254}\Z", description="user@address, or a name of ssh's configuration"
    ),
]
AddressText = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:-]{0,254}\Z", description="an address or a name")]
InterfaceText = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][^\s/]{0,14}\Z", description="the name of an interface")]
CertificateFault = Literal["valid", "expired", "not-yet-valid", "untrusted"]
KeyBits = Literal[0, 256, 384, 521, 2048, 3072, 4096]
Direction = Literal["up", "down"]  # away from the initiator, and towards it
DIRECTIONS: Final[tuple[Direction, ...]] = ("up", "down")
#: Limit for a seed, so that every TOML and JSON parser reads it exactly.
MAX_SEED: Final = (1 << 31) - 1
ChainLength = Annotated[int, Meta(ge=2, le=5)]
Value = str | int | float | bool | tuple[str, ...] | None  # None: not given


class LabScenarioError(LabError):
    """An invalid scenario; the text has the file, the key and the allowed values."""


class IkeSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How the daemons negotiate and retransmit."""

    version: Annotated[int, Meta(ge=1, le=2)] = 2
    mode: Literal["main", "aggressive"] = "main"
    proposals: ProposalText = "aes256-sha256-ecp256"
    responder_proposals: SameOrProposalText = SAME
    esp_proposals: ProposalText = "aes256-sha256"
    responder_esp_proposals: SameOrProposalText = SAME
    fragment_size: Annotated[int, Meta(ge=0, le=65_535)] = 1280
    retransmit_timeout_s: Annotated[float, Meta(ge=0.05, le=60)] = 4.0
    retransmit_base: Annotated[float, Meta(ge=1, le=10)] = 1.8
    retransmit_tries: Annotated[int, Meta(ge=1, le=50)] = 5
    cookie_threshold: Annotated[int, Meta(ge=0, le=1000)] = 0


class InitiatorSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The initiator's daemon and credentials."""

    stack: StackName = STRONGSWAN
    auth: Literal["psk", "rsa", "ecdsa", "eap-md5", "eap-mschapv2", "eap-tls", "eap-aka"] = "psk"
    key_bits: KeyBits = 0
    chain: ChainLength = 2
    authority_bits: KeyBits = 0
    certificate: CertificateFault = "valid"
    wrong_secret: bool = False
    wrong_identity: bool = False
    wrong_network: bool = False
    xauth: bool = False
    command: CommandText = ""
    root: RootText = ""
    start: Literal["command", "trap"] = "command"
    host: HostText = ""
    address: AddressText = ""
    interface: InterfaceText = ""


class ResponderSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The responder's daemon and credentials."""

    stack: StackName = STRONGSWAN
    auth: Literal["psk", "rsa", "ecdsa"] = "psk"
    key_bits: KeyBits = 0
    chain: ChainLength = 2
    command: CommandText = ""
    root: RootText = ""
    authority_bits: KeyBits = 0
    certificate: CertificateFault = "valid"
    host: HostText = ""
    address: AddressText = ""
    interface: InterfaceText = ""


class AaaSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The AAA server's certificate, for EAP-TLS."""

    key_bits: Literal[2048, 3072, 4096] = 2048
    chain: ChainLength = 2
    authority_bits: Literal[0, 2048, 3072, 4096] = 0


@dataclass(frozen=True, slots=True)
class DirectionConditions:
    """Conditions of one direction of a link."""

    delay_ms: float  # without jitter, and without serialisation at the link's rate
    loss: float  # mean share of lost frames
    rate_kbps: float  # 0: no limit


class LinkConditions(Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions of a link. A value of one direction replaces that of both; "up" is away from the initiator."""

    rtt_ms: Annotated[float, Meta(ge=0, le=10_000)] = 0.0
    jitter_ms: Annotated[float, Meta(ge=0, le=1_000)] = 0.0  # uniform around half the round-trip time
    loss_percent: Annotated[float, Meta(ge=0, le=90)] = 0.0  # of frames, in each direction
    rate_kbps: Annotated[float, Meta(ge=0, le=10_000_000)] = 0.0  # 0: no limit
    mtu: Annotated[int, Meta(ge=576, le=9000)] = 1500
    drop_ip_fragments: bool = False
    drop_larger_than: Annotated[int, Meta(ge=0, le=9000)] = 0  # IP packets of more bytes; 0: none
    drop_port: Annotated[int, Meta(ge=0, le=65_535)] = 0  # UDP port of either host; 0: none
    drop_direction: Literal["both", "up", "down"] = "both"  # of all three
    delay_up_ms: Annotated[float, Meta(ge=0, le=10_000)] | None = None
    delay_down_ms: Annotated[float, Meta(ge=0, le=10_000)] | None = None
    loss_up_percent: Annotated[float, Meta(ge=0, le=90)] | None = None
    loss_down_percent: Annotated[float, Meta(ge=0, le=90)] | None = None
    rate_up_kbps: Annotated[float, Meta(ge=0, le=10_000_000)] | None = None
    rate_down_kbps: Annotated[float, Meta(ge=0, le=10_000_000)] | None = None
    burst_frames: Annotated[float, Meta(ge=0, le=10_000)] = 0.0  # mean length; 0: losses are independent
    burst_loss_percent: Annotated[float, Meta(ge=0, le=100)] = 100.0  # of the frames in a burst
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)] = 0  # of the losses; 0: any

    def get_direction(self, direction: Direction) -> DirectionConditions:
        """Return the conditions of a direction."""
        up = direction == "up"
        delay, loss, rate = (
            (self.delay_up_ms, self.loss_up_percent, self.rate_up_kbps)
            if up
            else (self.delay_down_ms, self.loss_down_percent, self.rate_down_kbps)
        )
        return DirectionConditions(
            self.rtt_ms / 2 if delay is None else delay,
            (self.loss_percent if loss is None else loss) / 100,
            self.rate_kbps if rate is None else rate,
        )

    @property
    def loses_frames(self) -> bool:
        """Whether frames are lost by chance."""
        return any(self.get_direction(direction).loss for direction in DIRECTIONS)

    def drops_frames(self, direction: Direction) -> bool:
        """Whether all frames of a kind are dropped in a direction."""
        kinds = self.drop_ip_fragments or self.drop_larger_than or self.drop_port
        return bool(kinds) and self.drop_direction in ("both", direction)

    @property
    def burst(self) -> LossBurst | None:
        """Bursts of losses; None: losses are independent."""
        return LossBurst(self.burst_frames, True, self.burst_loss_percent / 100) if self.burst_frames else None

    @property
    def max_delay_s(self) -> float:
        """Maximum one-way delay of a frame, without serialisation at the link's rate."""
        return (max(self.get_direction(direction).delay_ms for direction in DIRECTIONS) + self.jitter_ms) / 1e3


class NatLinkConditions(LinkConditions, frozen=True):
    """The link between initiator and responder."""

    nat: bool = False


class ScenarioSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a scenario, with their defaults; docs/lab.md explains each of them."""

    iterations: Annotated[int, Meta(ge=1, le=MAX_ITERATIONS)] = 1
    warm_up: Annotated[int, Meta(ge=0, le=100)] = 0
    measure: Literal["keys", "costs"] = "keys"
    retry: Literal["never", "until-established"] = "never"
    keep: bool = False
    initiators: Annotated[int, Meta(ge=1, le=200)] = 1
    timeout_s: Annotated[float, Meta(ge=1, le=600)] = 60.0
    abandoned: Annotated[int, Meta(ge=0, le=100)] = 0
    ip_version: Literal[4, 6] = 4
    capture: Literal["responder", "initiator", "both"] = "responder"
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

    @property
    def logs_keys(self) -> bool:
        """Whether the daemons log keys, which costs them processor time."""
        return self.settings.measure == "keys"

    @property
    def uses_ssh(self) -> bool:
        """Whether the sides are two machines over SSH, and not network namespaces of this machine."""
        return bool(self.settings.initiator.host)

    def with_iterations(self, count: int | None) -> "ScenarioCase":
        """Return the case with this number of iterations; None: unchanged."""
        if count is None:
            return self
        return ScenarioCase(self.name, msgspec.structs.replace(self.settings, iterations=count))

    @property
    def capture_points(self) -> tuple[CaptureHost, ...]:
        """The hosts at which the traffic is captured."""
        point = self.settings.capture
        return ("responder", "initiator") if point == "both" else (point,)

    def side(self, role: str) -> InitiatorSettings | ResponderSettings:
        """The settings of the initiator or the responder."""
        return self.settings.initiator if role == "initiator" else self.settings.responder

    @property
    def link_names(self) -> tuple[str, ...]:
        """The links between the hosts of the case: "link", and with an AAA server "aaa_link"."""
        return ("link", "aaa_link") if self.eap else ("link",)

    def link(self, name: str) -> LinkConditions:
        """The conditions of one of `link_names`."""
        return self.settings.link if name == "link" else self.settings.aaa_link

    def proposals(self, side: str) -> str:
        """Return the comma-separated IKE proposals of a side."""
        ike = self.settings.ike
        return ike.proposals if side == "initiator" or ike.responder_proposals == SAME else ike.responder_proposals

    def esp_proposals(self, side: str) -> str:
        """Return the comma-separated ESP proposals of a side."""
        ike = self.settings.ike
        others = ike.responder_esp_proposals
        return ike.esp_proposals if side == "initiator" or others == SAME else others

    def stack(self, side: str) -> str:
        """Return the daemon of a side without version."""
        return self.side(side).stack.partition("-")[0]

    @property
    def eap(self) -> bool:
        """Whether the initiator uses EAP, with an AAA server."""
        return self.settings.initiator.auth in EAP

    @property
    def certificates_sent(self) -> dict[str, int]:
        """Number of certificates that each host with a certificate sends: all of its chain but the root."""
        sides = [(role, self.side(role)) for role in ("initiator", "responder")]
        chains = {role: side.chain for role, side in sides if side.auth in (*CERTIFICATES, "eap-tls")}
        if self.settings.initiator.auth == "eap-tls":
            chains["aaa"] = self.settings.aaa.chain
        return {host: length - 1 for host, length in chains.items()}

    def key_bits(self, side: str) -> int:
        """Return the key size of a side with a certificate, by default the smallest."""
        settings = self.side(side)
        return settings.key_bits or _get_key_sizes(settings.auth)[0]


def load_cases(path: Path, overrides: Mapping[str, Any] = MappingProxyType({})) -> list[ScenarioCase]:
    """Return the cases of a scenario file, in which values by dotted key replace those of the file.

    Raises:
        LabScenarioError: the file cannot be read, is not TOML, or has an invalid key or value.
    """
    try:
        return expand_cases(_override(read_toml(str(path)), overrides), str(path), path.stem)
    except IsADirectoryError:
        raise LabScenarioError(f"{path}: is a directory; name a scenario in it") from None
    except OSError as error:
        raise LabScenarioError(f"{path}: {error.strerror}") from None
    except TomlFileError as error:
        raise LabScenarioError(f"{path}: {error}") from None
    except RecursionError:
        raise LabScenarioError(f"{path}: tables are nested too deeply") from None


def parse_override(text: str) -> tuple[str, Any]:
    """Split `KEY=VALUE`. The value is that of TOML if it is valid TOML, otherwise the text itself.

    Raises:
        LabScenarioError: there is no `=`, no such key, or the key does not allow the value.
    """
    key, separator, value = text.partition("=")
    if not separator:
        raise LabScenarioError(f"{text}: expected KEY=VALUE, such as responder.stack=libreswan")
    _check_key(text, key, set())
    parsed: Any = value
    with suppress(TomlFileError):
        parsed = parse_toml(f"value = {value}".encode())["value"]
    _convert_values(text, key, parsed)
    return key, parsed


def _override(data: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario with other values of some keys, which vary no longer unless the new value is a list."""
    if not overrides:
        return dict(data)
    tables = {key: value for key, value in _flatten_tables(data) if key not in overrides} | dict(overrides)
    pairs = tables.pop(_PAIRS, None)
    if isinstance(pairs, list) and all(isinstance(table, dict) for table in pairs):
        rest = [{key: value for key, value in _flatten_tables(table) if key not in overrides} for table in pairs]
        # tables that differed in the replaced values only are the same now
        pairs = [table for number, table in enumerate(rest) if table not in rest[:number]]
    return tables | ({_PAIRS: pairs} if pairs and pairs != [{}] else {})


def expand_cases(data: Mapping[str, Any], where: str, name: str) -> list[ScenarioCase]:
    """Return the cases of a scenario that was read from `where`; the first dimension varies slowest.

    Raises:
        LabScenarioError: a key or value is invalid, keys contradict each other, or there are too many cases.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}", name):
        raise LabScenarioError(f"{where}: the file's name must consist of letters, digits, dots and dashes")
    tables = dict(data)
    pairs = tables.pop(_PAIRS, None)
    given: set[str] = set()
    dimensions: list[list[Mapping[str, Value]]] = []
    for key, value in _flatten_tables(tables):
        _check_key(where, key, given)
        dimensions.append([{key: each} for each in _convert_values(where, key, value)])
    if pairs is not None:
        dimensions.append(_read_pairs(where, pairs, given))
    count = math.prod(map(len, dimensions))
    if count > MAX_CASES:
        raise LabScenarioError(f"{where}: the lists make {count:,} cases; at most {MAX_CASES} are run at once")
    varied = [key for choices in dimensions if len(choices) > 1 for key in choices[0]]
    expanded = []
    for product in itertools.product(*dimensions):
        chosen = {key: value for choice in product for key, value in choice.items()}
        label = "_".join(_make_label(key, chosen[key]) for key in varied)
        case = ScenarioCase(f"{name}_{label}" if label else name, _make_settings(chosen))
        checks = (
            *(_find_conflicts, _find_version_conflicts, _find_link_conflicts, _find_traffic_conflicts),
            *(_find_keep_conflicts, _find_load_conflicts, _find_ssh_conflicts),
        )
        for conflict in itertools.chain.from_iterable(check(case) for check in checks):
            raise LabScenarioError(f"{where}: {conflict}")
        expanded.append(case)
    names = {case.name for case in expanded}
    # long proposals with the same beginning, or many of them
    if len(names) < len(expanded) or max(map(len, names)) > _MAX_NAME:
        numbered = enumerate(expanded, 1)
        return [ScenarioCase(f"{case.name[:_MAX_LABEL]}_{number}", case.settings) for number, case in numbered]
    return expanded


def _check_key(where: str, key: str, given: set[str]) -> None:
    """Check that a key exists and is given once, and add it to the given ones."""
    if key not in KEYS:
        siblings = [name for name in KEYS if name.split(".")[0] == key.split(".")[0]]
        raise LabScenarioError(
            f"{where}: unknown key {key}; {suggest_name(key, KEYS)}allowed are {', '.join(siblings or KEYS)}"
        )
    if key in given:  # TOML: a table's key and a quoted key with a dot are different
        raise LabScenarioError(f"{where}: {key} is given twice")
    given.add(key)


def _read_pairs(where: str, pairs: Any, given: set[str]) -> list[Mapping[str, Value]]:
    """Return the values of keys that vary together."""
    if not isinstance(pairs, list) or not pairs or not all(isinstance(table, dict) and table for table in pairs):
        raise LabScenarioError(f"{where}: {_PAIRS} is not a list of tables with keys")
    choices: list[Mapping[str, Value]] = []
    for table in pairs:
        own = set(given)
        choice = {}
        for key, value in _flatten_tables(table):
            _check_key(where, key, own)
            values = _convert_values(where, key, value)
            if len(values) > 1 or (isinstance(value, list) and key != "then"):
                raise LabScenarioError(f"{where}: {_PAIRS}: {key} is a list; a table of {_PAIRS} has single values")
            choice[key] = values[0]
        if choices and set(choice) != set(choices[0]):
            raise LabScenarioError(f"{where}: {_PAIRS}: all tables must have the same keys, {', '.join(choices[0])}")
        if choice in choices:
            raise LabScenarioError(f"{where}: {_PAIRS} has {_quote(choice)} twice")
        choices.append({key: choice[key] for key in choices[0]} if choices else choice)
    return choices


def _flatten_tables(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten_tables(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _make_settings(values: Mapping[str, Value]) -> ScenarioSettings:
    """Convert checked values by dotted key to settings."""
    tables: dict[str, Any] = {}
    for key, value in values.items():
        table, _, name = key.rpartition(".")
        (tables.setdefault(table, {}) if table else tables)[name] = value
    return msgspec.convert(tables, ScenarioSettings)


def _convert_values(where: str, key: str, value: Any) -> list[Value]:
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
            problem = f"{key} = {_quote(part)} is not allowed; allowed is {KEYS[key].allowed}"
            raise LabScenarioError(f"{where}: {problem}") from None
        if converted in values:
            raise LabScenarioError(f"{where}: {key} has {part!r} twice")
        values.append(converted)
    return values


def _quote(value: Any) -> str:
    """Return the shortened repr of a value."""
    try:
        text = repr(value)
    except ValueError:  # Python does not format thousands of decimal digits
        return "an integer of thousands of digits"
    return text if len(text) <= _MAX_LABEL else f"{text[:_MAX_LABEL]}..."


def _make_label(key: str, value: Value) -> str:
    """Return the part of a case's name for a value, in characters that are safe in file names."""
    text = "-".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else value
    side, _, last = key.rpartition(".")
    name = last if not side or side in ("ike", "link") else f"{side}-{last}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{name}-{text}".replace("_", "-"))[:_MAX_LABEL]


def _get_key_sizes(auth: str) -> tuple[int, ...]:
    return KEY_SIZES["ecdsa" if auth == "ecdsa" else "rsa"]


def _find_conflicts(case: ScenarioCase) -> Iterator[str]:
    """Return values that conflict with each other."""
    settings = case.settings
    if settings.link.nat and settings.ip_version == 6:
        yield "link.nat needs ip_version = 4"
    if settings.ip_version == 6 and settings.link.mtu < 1280:
        yield "link.mtu: IPv6 needs 1280 or more"
    for role in ROLES:
        side = case.side(role)
        sizes = _get_key_sizes(side.auth)
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

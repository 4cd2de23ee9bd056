"""The keys of a scenario, with their defaults and the values that they allow; docs/lab.md explains each of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from ikeanalyze.io.convert import describe_allowed
from ikeanalyze.lab.scenario.links import LinkConditions, NatLinkConditions

#: Limit for the handshakes of a case.
MAX_ITERATIONS: Final = 10_000
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
StepName = Literal["ping", "traffic", "rekey-child", "rekey-ike", "reauthenticate", "wrong-network", "delete"]
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
ChainLength = Annotated[int, Meta(ge=2, le=5)]
Value = str | int | float | bool | tuple[str, ...] | None  # None: not given


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


def flatten_settings(settings: Struct, prefix: str = "") -> Iterator[tuple[str, ScenarioKey]]:
    """Return the dotted keys of settings with their values."""
    for field in msgspec.structs.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, Struct):
            yield from flatten_settings(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, ScenarioKey(value, field.type)


#: Every key, by its dotted name.
KEYS: Final[Mapping[str, ScenarioKey]] = dict(flatten_settings(ScenarioSettings()))


def get_key_sizes(auth: str) -> tuple[int, ...]:
    """The allowed key sizes of certificates in bits, the smallest first; `auth`: the method of authentication."""
    return KEY_SIZES["ecdsa" if auth == "ecdsa" else "rsa"]

"""A scenario: who authenticates how, over which links, how often; read from TOML, checked, spread out into cases.

A scenario is a TOML file of the keys in `KEYS`, all of which may be left out. A key whose value is a list where one value is
meant is a dimension of a matrix: the product of all such lists is run, each as a `Case`.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ikeanalyze.io.toml import TomlFileError, read_toml
from ikeanalyze.lab import LabError, proposals

#: Cases that one file may ask for, and handshakes of one case: a slip of the pen must not run for a week.
MOST_CASES: Final = 500
MOST_ITERATIONS: Final = 10_000
#: Characters of one value, and of a case's name: a file's has at most 255 bytes, with what comes after it.
_LONGEST_LABEL: Final = 60
_LONGEST_NAME: Final = 200

CERTIFICATES: Final = ("rsa", "ecdsa")
#: The responder's proposals, where they are the initiator's.
SAME: Final = "same"
STRONGSWAN: Final = "strongswan"
LIBRESWAN: Final = "libreswan"
EAP: Final = ("eap-md5", "eap-mschapv2", "eap-tls")
MODES: Final = ("main", "aggressive")
STEPS: Final = ("ping", "rekey-child", "rekey-ike", "reauthenticate", "delete")
KEY_SIZES: Final = {"rsa": (2048, 3072, 4096), "ecdsa": (256, 384, 521)}
#: The first strongSwan that distributions build without IKEv1.
IKEV1_UNTIL: Final = (6,)
_STACK: Final = re.compile(rf"({STRONGSWAN}|{LIBRESWAN})(-\d{{1,3}}(\.\d{{1,3}}){{0,2}})?")
_PROPOSAL: Final = re.compile(r"[a-z0-9_]+(-[a-z0-9_]+)*(,[a-z0-9_]+(-[a-z0-9_]+)*)*")

Value = str | int | float | bool | tuple[str, ...]


class ScenarioError(LabError):
    """A scenario that cannot be run: the text has the file, the key, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a scenario."""

    default: Value
    #: The value in our form, or None if it is not allowed.
    read: Callable[[Any], Value | None]
    #: What is allowed, for messages and the documentation.
    allowed: str


def _one_of(default: str, *names: str) -> Key:
    return Key(default, lambda value: value if value in names else None, f"one of {', '.join(names)}")


def _number(default: float, least: float, most: float) -> Key:
    def read(value: Any) -> float | None:
        right = isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
        return float(value) if right else None

    return Key(float(default), read, f"a number from {least:g} to {most:,.10g}")


def _integer(default: int, least: int, most: int) -> Key:
    def read(value: Any) -> int | None:
        right = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return value if right else None

    return Key(default, read, f"an integer from {least:,} to {most:,}")


def _choice(default: int, *numbers: int) -> Key:
    def read(value: Any) -> int | None:
        right = isinstance(value, int) and not isinstance(value, bool) and value in numbers
        return value if right else None

    return Key(default, read, f"one of {', '.join(map(str, numbers))}")


def _flag() -> Key:
    return Key(False, lambda value: value if isinstance(value, bool) else None, "true or false")


def _proposal(default: str) -> Key:
    def read(value: Any) -> str | None:
        right = isinstance(value, str) and _PROPOSAL.fullmatch(value) and (value != SAME or default == SAME)
        return value if right else None

    return Key(default, read, "algorithms in strongSwan's words, such as aes256-sha256-ecp256")


def _stack() -> Key:
    def read(value: Any) -> str | None:
        return value if isinstance(value, str) and _STACK.fullmatch(value) else None

    return Key(STRONGSWAN, read, "strongswan or libreswan, with or without a version as in strongswan-5.9")


def _steps() -> Key:
    def read(value: Any) -> tuple[str, ...] | None:
        right = isinstance(value, list) and all(step in STEPS for step in value)
        return tuple(value) if right else None

    return Key((), read, f"a list of {', '.join(STEPS)}")


def _link(prefix: str) -> dict[str, Key]:
    return {
        f"{prefix}.rtt_ms": _number(0, 0, 10_000),
        f"{prefix}.jitter_ms": _number(0, 0, 1_000),
        f"{prefix}.loss_percent": _number(0, 0, 90),
        f"{prefix}.rate_kbps": _number(0, 0, 10_000_000),
        f"{prefix}.mtu": _integer(1500, 576, 9000),
        f"{prefix}.drop_ip_fragments": _flag(),
    }


#: Every key, by its dotted name.
KEYS: Final[Mapping[str, Key]] = {
    "iterations": _integer(1, 1, MOST_ITERATIONS),
    "timeout_s": _number(60, 1, 600),
    "abandoned": _integer(0, 0, 100),
    "ip_version": _choice(4, 4, 6),
    "ike.version": _integer(2, 1, 2),
    "ike.mode": _one_of("main", *MODES),
    "ike.proposals": _proposal("aes256-sha256-ecp256"),
    "ike.responder_proposals": _proposal(SAME),
    "ike.esp_proposals": _proposal("aes256-sha256"),
    "ike.fragment_size": _integer(1280, 0, 65_535),
    "ike.retransmit_timeout_s": _number(4.0, 0.05, 60),
    "ike.retransmit_base": _number(1.8, 1, 10),
    "ike.retransmit_tries": _integer(5, 1, 50),
    "ike.cookie_threshold": _integer(0, 0, 1000),
    "initiator.stack": _stack(),
    "initiator.auth": _one_of("psk", "psk", *CERTIFICATES, *EAP),
    "initiator.key_bits": _choice(0, 0, *KEY_SIZES["ecdsa"], *KEY_SIZES["rsa"]),
    "initiator.chain": _integer(2, 2, 5),
    "initiator.wrong_secret": _flag(),
    "initiator.xauth": _flag(),
    "responder.stack": _stack(),
    "responder.auth": _one_of("psk", "psk", *CERTIFICATES),
    "responder.key_bits": _choice(0, 0, *KEY_SIZES["ecdsa"], *KEY_SIZES["rsa"]),
    "responder.chain": _integer(2, 2, 5),
    "aaa.key_bits": _choice(2048, *KEY_SIZES["rsa"]),
    "aaa.chain": _integer(2, 2, 5),
    **_link("link"),
    "link.nat": _flag(),
    **_link("aaa_link"),
    "then": _steps(),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One point of a scenario's matrix: what is run at once, with the same daemons, into one capture."""

    #: The scenario's name, and the values that tell this case from its siblings.
    name: str
    #: A value for each of `KEYS`.
    values: Mapping[str, Value]

    def text(self, key: str) -> str:
        """The value of a key that has words for values."""
        return str(self.values[key])

    def number(self, key: str) -> float:
        """The value of a key that has numbers for values."""
        value = self.values[key]
        assert isinstance(value, int | float), key
        return float(value)

    def integer(self, key: str) -> int:
        """The value of a key that counts."""
        return int(self.number(key))

    def flag(self, key: str) -> bool:
        """Whether a key is set."""
        return self.values[key] is True

    @property
    def steps(self) -> tuple[str, ...]:
        """What follows each handshake, in this order."""
        steps = self.values["then"]
        assert isinstance(steps, tuple)
        return steps

    def proposals(self, side: str) -> str:
        """The IKE proposals of a side, with commas between them."""
        theirs = self.text("ike.responder_proposals")
        return self.text("ike.proposals") if side == "initiator" or theirs == SAME else theirs

    def stack(self, side: str) -> str:
        """The kind of daemon of a side, whatever its version."""
        return self.text(f"{side}.stack").partition("-")[0]

    @property
    def eap(self) -> bool:
        """Whether the initiator authenticates with EAP, so that there is an AAA server."""
        return self.text("initiator.auth") in EAP

    def key_bits(self, side: str) -> int:
        """The key size of a side with a certificate: its own, or the smallest of its kind."""
        auth = self.text(f"{side}.auth")
        sizes = KEY_SIZES["ecdsa" if auth == "ecdsa" else "rsa"]
        return self.integer(f"{side}.key_bits") or sizes[0]

    def differing(self) -> dict[str, Value]:
        """The values that are not the default."""
        return {key: value for key, value in self.values.items() if value != KEYS[key].default}


def load(path: Path) -> list[Case]:
    """The cases of a scenario's file.

    Errors:
        ScenarioError: the file cannot be read, is no TOML, or asks for what there is not.
    """
    try:
        return cases(read_toml(str(path)), str(path), path.stem)
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except TomlFileError as error:
        raise ScenarioError(f"{path}: {error}") from None
    except RecursionError:
        raise ScenarioError(f"{path}: tables inside each other, too many of them") from None


def cases(data: Mapping[str, Any], where: str, name: str) -> list[Case]:
    """The cases of a scenario that was read from `where`; the matrix' first key varies slowest."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}", name):
        raise ScenarioError(f"{where}: the file's name must be of letters, digits, dots and dashes")
    choices: dict[str, list[Value]] = {}
    for key, value in _flat(data):
        if key not in KEYS:
            near = ", ".join(known for known in KEYS if known.split(".")[0] == key.split(".")[0])
            raise ScenarioError(f"{where}: there is no key {key}; there are {near or ', '.join(KEYS)}")
        if key in choices:  # a table's, and one with a dot in quotes: TOML takes these for two
            raise ScenarioError(f"{where}: {key} is there twice")
        choices[key] = _values(where, key, value)
    dimensions = [key for key, values in choices.items() if len(values) > 1]
    count = 1
    for key in dimensions:
        count *= len(choices[key])
    if count > MOST_CASES:
        raise ScenarioError(f"{where}: the lists make {count:,} cases; at most {MOST_CASES} are run at once")
    found = []
    for product in itertools.product(*choices.values()):
        chosen = dict(zip(choices, product, strict=True))
        label = "_".join(_label(key, chosen[key]) for key in dimensions)
        case = Case(
            f"{name}_{label}" if label else name,
            {key: chosen.get(key, known.default) for key, known in KEYS.items()},
        )
        _check(where, case)
        found.append(case)
    names = {case.name for case in found}
    # long proposals that begin alike, or many of them
    if len(names) < len(found) or max(map(len, names)) > _LONGEST_NAME:
        found = [Case(f"{case.name[:_LONGEST_LABEL]}_{number}", case.values) for number, case in enumerate(found, 1)]
    return found


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _values(where: str, key: str, value: Any) -> list[Value]:
    known = KEYS[key]
    # a list is what `then` has for a value; there a list of lists is the matrix
    several = isinstance(value, list) and (key != "then" or any(isinstance(part, list) for part in value))
    parts = value if several else [value]
    if not parts:
        raise ScenarioError(f"{where}: {key} is an empty list")
    found: list[Value] = []
    for part in parts:
        read = known.read(part)
        if read is None:
            raise ScenarioError(f"{where}: {key} = {_quoted(part)} is not allowed; allowed is {known.allowed}")
        if read in found:
            raise ScenarioError(f"{where}: {key} has {part!r} twice")
        found.append(read)
    return found


def _quoted(value: Any) -> str:
    """What stands in the file, as far as one line has room for it."""
    try:
        text = repr(value)
    except ValueError:  # Python reads thousands of digits in hexadecimal, but does not write them in decimal
        return "an integer of thousands of digits"
    return text if len(text) <= _LONGEST_LABEL else f"{text[:_LONGEST_LABEL]}..."


def _label(key: str, value: Value) -> str:
    """What tells a case from its siblings: the key, and the value in letters that are safe in a file's name."""
    text = "-".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else value
    side, _, last = key.rpartition(".")
    name = last if not side or side in ("ike", "link") else f"{side}-{last}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{name}-{text}".replace("_", "-"))[:_LONGEST_LABEL]


def _check(where: str, case: Case) -> None:
    """What no key can tell for itself."""
    if case.flag("link.nat") and case.integer("ip_version") == 6:
        raise ScenarioError(f"{where}: link.nat is for ip_version = 4")
    if case.integer("ip_version") == 6 and case.integer("link.mtu") < 1280:
        raise ScenarioError(f"{where}: link.mtu: IPv6 needs 1280 or more")
    for side in ("initiator", "responder"):
        auth, bits = case.text(f"{side}.auth"), case.integer(f"{side}.key_bits")
        sizes = KEY_SIZES["ecdsa" if auth == "ecdsa" else "rsa"]
        if bits and bits not in sizes:
            raise ScenarioError(
                f"{where}: {side}.key_bits = {bits} is not allowed with {auth}; allowed is one of "
                f"{', '.join(map(str, sizes))}"
            )
    auth = case.text("initiator.auth")
    if case.flag("initiator.wrong_secret") and auth in (*CERTIFICATES, "eap-tls"):
        raise ScenarioError(f"{where}: initiator.wrong_secret is for secrets, and {auth} has none")
    _check_version(where, case)
    _check_stacks(where, case)


def _check_version(where: str, case: Case) -> None:
    """What one version of IKE alone has."""
    if case.integer("ike.version") == 2:
        for key in ("ike.mode", "initiator.xauth"):
            if case.values[key] != KEYS[key].default:
                raise ScenarioError(f"{where}: {key} is for ike.version = 1")
        return
    for side in ("initiator", "responder"):
        if case.stack(side) == LIBRESWAN:
            raise ScenarioError(f"{where}: {side}.stack = libreswan is for ike.version = 2 here")
        stack = case.text(f"{side}.stack")
        version = stack.partition("-")[2]
        if version and tuple(map(int, version.split("."))) >= IKEV1_UNTIL:
            raise ScenarioError(f"{where}: {side}.stack = {stack} is for ike.version = 2: it is built without IKEv1")
    auth = case.text("initiator.auth")
    if auth in EAP:
        raise ScenarioError(f"{where}: initiator.auth = {auth} is for ike.version = 2")
    if auth != case.text("responder.auth"):
        raise ScenarioError(f"{where}: with ike.version = 1, initiator.auth and responder.auth are the same")
    for key in ("ike.proposals", "ike.responder_proposals", "ike.esp_proposals"):
        if "ke1_" in case.text(key):
            raise ScenarioError(f"{where}: {key}: additional key exchanges are for ike.version = 2")
    for key in ("abandoned", "ike.cookie_threshold"):
        if case.integer(key):
            raise ScenarioError(f"{where}: {key} is for ike.version = 2")
    if "rekey-ike" in case.steps:
        raise ScenarioError(f"{where}: then: rekey-ike is for ike.version = 2; IKEv1 has reauthenticate")


def _check_stacks(where: str, case: Case) -> None:
    """What libreswan cannot, or is not asked for here."""
    sides = [one for one in ("initiator", "responder") if case.stack(one) == LIBRESWAN]
    for side in sides:
        if case.eap:
            auth = case.text("initiator.auth")
            raise ScenarioError(f"{where}: initiator.auth = {auth} is for strongSwan on both sides")
        for asked in (case.proposals(side), case.text("ike.esp_proposals")):
            try:
                proposals.libreswan(asked)
            except ValueError as error:
                raise ScenarioError(f"{where}: {side}.stack = libreswan: {error}") from None
    if "responder" in sides and case.integer("ike.cookie_threshold"):
        raise ScenarioError(f"{where}: ike.cookie_threshold needs responder.stack = strongswan")
    if "initiator" in sides and case.integer("abandoned"):
        raise ScenarioError(f"{where}: abandoned needs initiator.stack = strongswan")
    for side in sides:
        for step in case.steps:
            if step not in ("ping", "delete"):
                raise ScenarioError(f"{where}: then: {step} needs {side}.stack = strongswan")

"""A case: one combination of the values of a scenario."""

from dataclasses import dataclass

import msgspec

from ikeanalyze.io.lab_manifest import CaptureHost
from ikeanalyze.lab.scenario.links import LinkConditions
from ikeanalyze.lab.scenario.settings import (
    CERTIFICATES,
    EAP,
    SAME,
    InitiatorSettings,
    ResponderSettings,
    ScenarioSettings,
    Value,
    flatten_settings,
    get_key_sizes,
)


@dataclass(frozen=True, slots=True)
class ScenarioCase:
    """One combination of a scenario's matrix, run with the same daemons into one capture."""

    name: str  # the scenario's name and the values of the matrix dimensions
    settings: ScenarioSettings

    @property
    def values(self) -> dict[str, Value]:
        """The value of each of `KEYS`."""
        return {name: key.default for name, key in flatten_settings(self.settings)}

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
        return settings.key_bits or get_key_sizes(settings.auth)[0]

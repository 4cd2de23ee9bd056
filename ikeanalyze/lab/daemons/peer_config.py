"""Secrets and certificates of both sides of a case, and strongSwan's configuration of a side."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ikeanalyze.lab.daemons.aka.subscriber import AkaSubscriber, make_subscriber
from ikeanalyze.lab.daemons.certificates import CertificateChain, make_certificate_chain
from ikeanalyze.lab.daemons.daemon import NAME
from ikeanalyze.lab.daemons.freeradius import PORT, RadiusAccount
from ikeanalyze.lab.network.topology import INNER, CaseAddresses
from ikeanalyze.lab.scenario.case import ScenarioCase
from ikeanalyze.lab.scenario.settings import AKA, CERTIFICATES

#: Identities by role.
IDENTITY: Final = {"initiator": "initiator.lab", "responder": "responder.lab", "aaa": "aaa.lab"}
#: An identity that the responder does not know, and a network that it does not protect.
STRANGER: Final = "stranger.lab"
OTHER_NETWORK: Final = "10.3.0.0/24"
#: The Child SA of the initiator for that network, which the step `wrong-network` asks for.
FURTHER_CHILD: Final = "further"
OTHER: Final = {"initiator": "responder", "responder": "initiator"}


Settings = Mapping[str, "str | Settings"]


@dataclass(frozen=True, slots=True)
class StrongswanConfig:
    """Configuration of one side."""

    role: str  # "initiator" or "responder"
    settings: Settings = field(repr=False)  # sections of strongswan.conf under charon, in addition to the common ones
    loads: tuple[tuple[str, dict[str, Any]], ...] = field(repr=False)  # vici commands and contents, with secrets


@dataclass(frozen=True, slots=True)
class CaseCredentials:
    """Secrets and certificates of a case, made for each case."""

    psk: str = field(repr=False)
    chains: dict[str, CertificateChain]  # by host
    account: RadiusAccount | None  # for the AAA server; None: no AAA server
    xauth: str | None = field(repr=False)  # password of the initiator for XAuth; None: no XAuth
    subscriber: AkaSubscriber | None = None  # for EAP-AKA; its account has no password


def make_credentials(case: ScenarioCase) -> CaseCredentials:
    """Make the credentials that a case needs."""
    chains = {}
    for side in ("initiator", "responder"):
        auth = case.side(side).auth
        if auth in CERTIFICATES or auth == "eap-tls":
            kind = "ecdsa" if auth == "ecdsa" else "rsa"
            chains[side] = make_certificate_chain(
                kind,
                case.key_bits(side),
                case.side(side).chain,
                get_identity(side, case),
                authority_bits=case.side(side).authority_bits,
                fault=case.side(side).certificate,
            )
    account = subscriber = None
    if case.settings.initiator.auth == AKA:
        subscriber = make_subscriber()
        account = RadiusAccount(subscriber.identity, "", secrets.token_hex(16), AKA)
    elif case.eap:
        method, aaa = case.settings.initiator.auth, case.settings.aaa
        account = RadiusAccount(IDENTITY["initiator"], secrets.token_hex(8), secrets.token_hex(16), method)
        if method == "eap-tls":
            chains["aaa"] = make_certificate_chain(
                "rsa", aaa.key_bits, aaa.chain, IDENTITY["aaa"], authority_bits=aaa.authority_bits
            )
    xauth = secrets.token_hex(8) if case.settings.initiator.xauth else None
    return CaseCredentials(secrets.token_hex(16), chains, account, xauth, subscriber)


def get_identity(role: str, case: ScenarioCase) -> str:
    """Return the identity of a side; the responder does not know the initiator's if the case requires it."""
    return STRANGER if role == "initiator" and case.settings.initiator.wrong_identity else IDENTITY[role]


def get_network(role: str, of: str, case: ScenarioCase) -> str:
    """Return the network of the side `of` in the traffic selectors of `role`; a wrong one if the case requires it."""
    wrong = role == "initiator" and of == "responder" and case.settings.initiator.wrong_network
    return OTHER_NETWORK if wrong else f"{INNER[of]}/32"


def get_psk(role: str, case: ScenarioCase, credentials: CaseCredentials) -> str:
    """Return the pre-shared key of a side, a wrong one if the case requires it."""
    use_wrong = role == "initiator" and case.settings.initiator.wrong_secret
    return secrets.token_hex(16) if use_wrong and case.settings.initiator.auth == "psk" else credentials.psk


def build_side_config(
    role: str,
    case: ScenarioCase,
    network: CaseAddresses,
    credentials: CaseCredentials,
    *,
    always_send_cert: bool = False,
) -> StrongswanConfig:
    """Return the strongSwan configuration of one side. `always_send_cert`: also to a peer that sends no CERTREQ."""
    initiator, ike = role == "initiator", case.settings.ike
    auth, peer_auth = case.side(role).auth, case.side(OTHER[role]).auth
    loads: list[tuple[str, dict[str, Any]]] = []
    local: dict[str, Any] = {"auth": _get_method(auth), "id": get_identity(role, case)}
    remote: dict[str, Any] = {"auth": _get_method(peer_auth), "id": IDENTITY[OTHER[role]]}
    if role in credentials.chains:
        local["certs"] = [credentials.chains[role].end]
        loads += build_certificate_loads(credentials.chains[role], "ecdsa" if auth == "ecdsa" else "rsa")
    if "psk" in (auth, peer_auth):
        owners = [get_identity(role, case), IDENTITY[OTHER[role]]]
        loads.append(("load_shared", {"type": "IKE", "data": get_psk(role, case, credentials), "owners": owners}))
    if peer_auth in CERTIFICATES:
        remote["cacerts"] = [credentials.chains[OTHER[role]].root]
    settings: dict[str, Any] = {
        "fragment_size": str(ike.fragment_size),
        "retransmit_timeout": f"{ike.retransmit_timeout_s:g}",
        "retransmit_base": f"{ike.retransmit_base:g}",
        "retransmit_tries": str(ike.retransmit_tries),
    }
    if initiator and "wrong-network" in case.settings.then:
        settings["reuse_ikesa"] = "yes"  # otherwise a further Child SA begins with a new IKE SA
    if ike.cookie_threshold:
        settings["cookie_threshold"] = str(ike.cookie_threshold)
    account = credentials.account
    if account is not None and initiator:
        local["eap_id"] = account.user
        if account.method == "eap-tls":
            local["aaa_id"] = IDENTITY["aaa"]
            loads.append(("load_cert", {"type": "X509", "flag": "CA", "data": credentials.chains["aaa"].root}))
        else:
            password = secrets.token_hex(8) if case.settings.initiator.wrong_secret else account.password
            loads.append(("load_shared", {"type": "EAP", "data": password, "owners": [account.user]}))
    if account is not None and not initiator:
        remote["auth"] = "eap-radius"
        if credentials.subscriber is None:
            remote["eap_id"] = "%any"
        else:  # without an EAP identity request, as in 3GPP networks: the IKE identity is the permanent identity
            remote["id"] = credentials.subscriber.identity
        server = {"address": str(network.aaa_address), "secret": account.secret, "auth_port": str(PORT)}
        settings["plugins"] = {"eap-radius": {"servers": {"aaa": server}}}
    connection = _build_connection(role, case, network, local, remote)
    if credentials.xauth is not None:
        loads.append(("load_shared", {"type": "XAUTH", "data": credentials.xauth, "owners": [IDENTITY["initiator"]]}))
        xauth = {"auth": "xauth"} | ({"xauth_id": IDENTITY["initiator"]} if initiator else {})
        connection["local-xauth" if initiator else "remote-xauth"] = xauth
    if always_send_cert:
        connection["send_cert"] = "always"
    if ike.mode == "aggressive":
        connection["aggressive"] = "yes"
        # charon requires this, since aggressive mode allows offline attacks on the PSK
        settings["i_dont_care_about_security_and_use_aggressive_mode_psk"] = "yes"
    loads.append(("load_conn", {NAME: connection}))
    return StrongswanConfig(role, settings, tuple(loads))


def _get_method(auth: str) -> str:
    return "pubkey" if auth in CERTIFICATES else auth


def _build_connection(
    role: str, case: ScenarioCase, network: CaseAddresses, local: dict[str, Any], remote: dict[str, Any]
) -> dict[str, Any]:
    child: dict[str, Any] = {
        "local_ts": [get_network(role, role, case)],
        "remote_ts": [get_network(role, OTHER[role], case)],
        "esp_proposals": case.esp_proposals(role).split(","),
        "rekey_time": "0",
    }
    connection: dict[str, Any] = {
        "version": str(case.settings.ike.version),
        "proposals": case.proposals(role).split(","),
        "fragmentation": "yes" if case.settings.ike.fragment_size else "no",
        "mobike": "no",
        "unique": "never",
        "rekey_time": "0",
        "dpd_delay": "0",
        "local": local,
        "remote": remote,
        "children": {NAME: child},
    }
    if role == "initiator":
        if "wrong-network" in case.settings.then:
            connection["children"][FURTHER_CHILD] = child | {"remote_ts": [OTHER_NETWORK]}
        if case.settings.initiator.start == "trap":
            child["start_action"] = "trap"
        connection["local_addrs"] = [network.initiator_address]
        connection["remote_addrs"] = [network.responder_address]
        connection["keyingtries"] = "1"
    else:
        connection["local_addrs"] = [network.responder_address]
    return connection


def build_certificate_loads(chain: CertificateChain, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the vici commands that load a side's key and intermediate certificates."""
    authorities = [("load_cert", {"type": "X509", "flag": "CA", "data": pem}) for pem in chain.intermediates]
    return [("load_key", {"type": "any" if kind == "ecdsa" else "rsa", "data": chain.key}), *authorities]

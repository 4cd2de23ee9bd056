from pathlib import Path

import pytest
from cryptography import x509

from ikeanalyze.lab.daemons import peer_config
from ikeanalyze.lab.network.namespaces import Netns
from ikeanalyze.lab.network.topology import LabNetwork
from ikeanalyze.lab.scenario.expansion import expand_cases

HOSTS = [Netns(name, 1, Path("/nowhere")) for name in ("initiator", "responder", "path", "aaa", "aaa-path")]
NET = LabNetwork(*HOSTS, "192.0.2.1", "192.0.2.2", "203.0.113.2", "203.0.113.1")


def both(**data):
    """What the two sides of a case are told: settings and messages of vici, by command."""
    case = expand_cases(data, "x", "x")[0]
    credentials = peer_config.make_credentials(case)
    reported = {}
    for role in ("initiator", "responder"):
        side = peer_config.build_side_config(role, case, NET, credentials)
        reported[role] = side, {}
        for command, content in side.loads:
            reported[role][1].setdefault(command, []).append(content)
        assert side.loads[-1][0] == "load_conn"  # when all that it needs is there
    return credentials, reported


def connection(loads: dict) -> dict:
    (content,) = loads["load_conn"]
    return content["lab"]


def test_a_pre_shared_key_is_the_same_on_both_sides_and_another_in_each_case():
    credentials, reported = both()
    for _, loads in reported.values():
        (shared,) = loads["load_shared"]
        assert (shared["type"], shared["data"]) == ("IKE", credentials.psk)
        assert connection(loads)["local"]["auth"] == "psk"
    assert both()[0].psk != credentials.psk


def test_a_wrong_secret_is_the_initiators():
    credentials, reported = both(initiator={"wrong_secret": True})
    (ours,), (theirs,) = (loads["load_shared"] for _, loads in reported.values())
    assert theirs["data"] == credentials.psk
    assert ours["data"] != credentials.psk
    credentials, reported = both(initiator={"auth": "eap-md5", "wrong_secret": True})
    passwords = [item["data"] for item in reported["initiator"][1]["load_shared"] if item["type"] == "EAP"]
    assert passwords
    assert passwords != [credentials.account.password]


def test_a_wrong_identity_or_network_is_the_initiators():
    _, right = both()
    _, wrong = both(initiator={"wrong_identity": True, "wrong_network": True})
    assert connection(wrong["responder"][1]) == connection(right["responder"][1])
    ours = connection(wrong["initiator"][1])
    assert ours["local"]["id"] != connection(right["responder"][1])["remote"]["id"]
    assert ours["children"]["lab"]["remote_ts"] != connection(right["responder"][1])["children"]["lab"]["local_ts"]


def test_the_responder_may_have_other_proposals_for_esp():
    _, reported = both(ike={"esp_proposals": "aes256-sha256", "responder_esp_proposals": "aes128gcm16,aes256gcm16"})
    proposals = [connection(loads)["children"]["lab"]["esp_proposals"] for _, loads in reported.values()]
    assert proposals == [["aes256-sha256"], ["aes128gcm16", "aes256gcm16"]]


def test_certificates_go_with_their_authorities_and_the_other_sides_root_is_trusted():
    credentials, reported = both(initiator={"auth": "ecdsa", "chain": 4}, responder={"auth": "rsa"})
    _, loads = reported["initiator"]
    assert len(loads["load_cert"]) == 2  # the two between end entity and root
    assert connection(loads)["local"]["certs"] == [credentials.chains["initiator"].end]
    assert connection(loads)["remote"]["cacerts"] == [credentials.chains["responder"].root]
    names = x509.load_pem_x509_certificate(connection(loads)["local"]["certs"][0].encode())
    assert "CN=initiator.lab" in names.subject.rfc4514_string()


def test_eap_needs_an_account_that_the_responder_asks_the_aaa_server_about():
    credentials, reported = both(initiator={"auth": "eap-tls"})
    settings = reported["responder"][0].settings
    server = settings["plugins"]["eap-radius"]["servers"]["aaa"]
    assert (server["address"], server["secret"]) == ("203.0.113.2", credentials.account.secret)
    assert connection(reported["responder"][1])["remote"]["auth"] == "eap-radius"
    assert connection(reported["initiator"][1])["local"]["aaa_id"] == "aaa.lab"
    assert set(credentials.chains) == {"initiator", "aaa"}


def test_both_sides_of_ikev1_load_the_psk_and_xauth_secret():
    credentials, reported = both(ike={"version": 1, "mode": "aggressive"}, initiator={"xauth": True})
    for role, section in (("initiator", "local-xauth"), ("responder", "remote-xauth")):
        side, loads = reported[role]
        told_connection = connection(loads)
        assert (told_connection["version"], told_connection["aggressive"]) == ("1", "yes")
        assert told_connection[section]["auth"] == "xauth"
        assert {item["type"]: item["data"] for item in loads["load_shared"]} == {
            "IKE": credentials.psk,
            "XAUTH": credentials.xauth,
        }
        assert side.settings["i_dont_care_about_security_and_use_aggressive_mode_psk"] == "yes"


def test_each_side_has_its_proposals():
    _, reported = both(
        ike={
            "proposals": "aes256-sha256-ecp256,aes128-sha256-ecp256",
            "responder_proposals": "aes128-sha1-modp2048",
        }
    )
    assert connection(reported["initiator"][1])["proposals"] == ["aes256-sha256-ecp256", "aes128-sha256-ecp256"]
    assert connection(reported["responder"][1])["proposals"] == ["aes128-sha1-modp2048"]


@pytest.mark.parametrize(
    "data",
    [
        {"initiator": {"auth": "eap-md5"}},
        {"initiator": {"auth": "rsa"}, "responder": {"auth": "rsa"}},
        {"ike": {"version": 1}, "initiator": {"xauth": True}},
    ],
)
def test_nothing_shows_a_secret(data):
    credentials, reported = both(**data)
    shown = repr(
        (
            credentials,
            reported["initiator"][0],
            reported["responder"][0],
            credentials.account,
            list(credentials.chains.values()),
        )
    )
    secrets = [credentials.psk, credentials.xauth, *(chain.key for chain in credentials.chains.values())]
    if credentials.account:
        secrets += [credentials.account.password, credentials.account.secret]
    assert not any(secret in shown for secret in secrets if secret)


def test_the_initiator_has_a_child_sa_for_another_network_if_a_step_asks_for_it():
    """In the IKE SA that exists: charon sets up a new one for it otherwise."""
    _, reported = both(then=["wrong-network"])
    assert connection(reported["initiator"][1])["children"]["further"]["remote_ts"] == ["10.3.0.0/24"]
    assert reported["initiator"][0].settings["reuse_ikesa"] == "yes"
    assert list(connection(reported["responder"][1])["children"]) == ["lab"]
    assert "reuse_ikesa" not in reported["responder"][0].settings

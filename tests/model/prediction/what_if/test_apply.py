"""Changed handshakes against recordings of daemons that really sent the changed messages."""

from functools import cache

import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.model.prediction.extract import extract_flow
from ikeanalyze.model.prediction.link import LinkModel
from ikeanalyze.model.prediction.predict import TransmissionConfig, predict_handshake
from ikeanalyze.model.prediction.what_if.apply import apply_changes
from ikeanalyze.model.prediction.what_if.changes import (
    ChainChange,
    ChangeError,
    HandshakeChanges,
    PayloadChange,
    parse_kem,
    parse_signature,
)
from ikeanalyze.model.retransmission_policy import StrongswanTimers
from tests.paths import CAPTURES

MLKEM = "mlkem_proposals-aes256gcm16-prfsha{}-{}-ke1-mlkem{}"


@cache
def recorded(name, *, keys=True):
    path = CAPTURES / "lab" / f"{name}.pcapng"
    key_files = [CAPTURES / "lab" / f"{name}.keys.json"] if keys else []
    options = ReadOptions(keys=key_files, payloads=True, payload_sizes=True)
    return extract_flow(read_captures(str(path), options), str(path))


def sizes(exchange):
    return [[part.ike_bytes for part in message.parts] for message in (exchange.request, exchange.response)]


def get_exchanges(flow, type_):
    return [exchange for exchange in flow.exchanges if exchange.type == type_]


def change(name, **changes):
    return apply_changes(recorded(name), HandshakeChanges(**changes))


@pytest.mark.parametrize(
    ("level", "other"), [(512, MLKEM.format(256, "x25519", 512)), (1024, MLKEM.format(512, "ecp521", 1024))]
)
def test_another_kem_has_the_messages_of_a_daemon_that_uses_it(level, other):
    changed = change("mlkem768-psk", kem=parse_kem(f"ml-kem-{level}"))
    (intermediate,) = get_exchanges(changed, "IKE_INTERMEDIATE")
    (daemon,) = get_exchanges(recorded(other), "IKE_INTERMEDIATE")
    assert sizes(intermediate) == sizes(daemon)
    assert [part.frames for part in intermediate.request.parts] == [part.frames for part in daemon.request.parts]


def test_an_added_kem_has_the_messages_of_a_daemon_that_adds_it():
    changed = change("mlkem768-psk", added_kems=(parse_kem("ml-kem-1024"),))
    daemon = recorded("two-additional-768-1024")
    assert [exchange.name for exchange in changed.exchanges] == [exchange.name for exchange in daemon.exchanges]
    for ours, theirs in zip(changed.exchanges, daemon.exchanges, strict=True):
        if ours.type == "IKE_INTERMEDIATE":
            assert sizes(ours) == sizes(theirs)


def test_a_first_added_kem_announces_ike_intermediate():
    plain, changed = recorded("psk"), change("psk", added_kems=(parse_kem("ml-kem-768"),))
    # a transform and a notify payload without data, 8 bytes each (RFC 7296, sections 3.3.2 and 3.10)
    for before, after in zip(sizes(plain.exchanges[0]), sizes(changed.exchanges[0]), strict=True):
        assert after[0] == before[0] + 16
    assert [exchange.name for exchange in changed.exchanges] == ["IKE_SA_INIT 0", "IKE_INTERMEDIATE 1", "IKE_AUTH 2"]
    # the rest stays
    assert sizes(changed.exchanges[2]) == sizes(plain.exchanges[1])
    # no keys are needed
    flow = apply_changes(recorded("psk", keys=False), HandshakeChanges(added_kems=(parse_kem("ml-kem-768"),)))
    assert sizes(flow.exchanges[1]) == sizes(changed.exchanges[1])


def test_without_additional_key_exchange_the_kem_is_in_ike_sa_init():
    plain, changed = recorded("psk"), change("psk", kem=parse_kem("ml-kem-768"))
    # ECP-256 has 64 bytes (RFC 5903)
    (request, response), (old_request, old_response) = sizes(changed.exchanges[0]), sizes(plain.exchanges[0])
    assert request[0] - old_request[0] == 1184 - 64
    assert response[0] - old_response[0] == 1088 - 64
    # RFC 7383 does not fragment IKE_SA_INIT: 1,568 bytes of an encapsulation key become IP fragments
    larger = change("psk", kem=parse_kem("ml-kem-1024")).exchanges[0].request
    assert [len(part.frames) for part in larger.parts] == [2]


def test_signatures_change_auth_and_certificates_of_both_sides():
    changed = change("ecdsa", signature=parse_signature("ml-dsa-65"))
    auth = changed.exchanges[1]
    for message in (auth.request, auth.response):
        by_name = {payload.name: payload for payload in message.payloads}
        # RFC 7427, section 3: a length of one byte, an AlgorithmIdentifier of 13 bytes (RFC 9881), the signature
        assert by_name["AUTH"].data_bytes == 1 + 13 + 3309
        assert by_name["CERT"].data_bytes > 1952 + 3309
        # 1,280 bytes with IP and UDP headers, the non-ESP marker not used here
        assert len(message.parts) > 6
        assert max(part.ike_bytes for part in message.parts) <= 1280 - 28
    assert sizes(changed.exchanges[0]) == sizes(recorded("ecdsa").exchanges[0])
    # only the gateway signs; the initiator has a password
    one_sided = change("eap-mschapv2", signature=parse_signature("ml-dsa-44"))
    plain = recorded("eap-mschapv2")
    for before, after in zip(plain.exchanges, one_sided.exchanges, strict=True):
        assert sizes(before)[0] == sizes(after)[0]


def test_replaced_payloads_have_the_size():
    plain = recorded("ecdsa").exchanges[1]
    changed = change("ecdsa", replaced=(PayloadChange("No", 64), PayloadChange("AUTH", 500, "responder"))).exchanges
    # strongSwan's nonces have 32 bytes
    assert [
        new[0] - old[0] for new, old in zip(sizes(changed[0]), sizes(recorded("ecdsa").exchanges[0]), strict=True)
    ] == [
        32,
        32,
    ]
    assert sizes(changed[1])[0] == sizes(plain)[0]
    (auth,) = [payload.data_bytes for payload in plain.response.payloads if payload.name == "AUTH"]
    # AES-CBC pads to 16 bytes
    assert sizes(changed[1])[1][0] - sizes(plain)[1][0] == pytest.approx(500 - auth, abs=15)


def test_the_same_size_changes_nothing():
    plain = recorded("mlkem768-psk")
    changed = change("mlkem768-psk", kem=parse_kem("ml-kem-768"), replaced=(PayloadChange("No", 32),))
    assert [sizes(exchange) for exchange in changed.exchanges] == [sizes(exchange) for exchange in plain.exchanges]
    assert changed.bytes == plain.bytes


def test_chains_are_longer_or_shorter():
    def count(flow):
        return [
            sum(payload.name == "CERT" for payload in message.payloads)
            for message in (flow.exchanges[1].request, flow.exchanges[1].response)
        ]

    # chain = 3: the certificate and one of an intermediate authority are sent; the peer has the root
    assert count(recorded("rsa-chain3")) == [2, 2]
    assert count(change("rsa-chain3", chains=(ChainChange(4),))) == [4, 4]
    assert count(change("rsa-chain3", chains=(ChainChange(1, "responder"),))) == [2, 1]


def test_payloads_are_added_where_certificates_are_or_the_side_authenticates():
    changed = change("ecdsa", added=(PayloadChange("CERT", 1000),))
    assert sum(payload.name == "CERT" for payload in changed.exchanges[1].request.payloads) == 2
    # without certificates they go where the side authenticates
    changed = change("mlkem768-psk", added=(PayloadChange("CERT", 1000, "responder"),))
    plain = recorded("mlkem768-psk")
    assert sizes(changed.exchanges[2])[0] == sizes(plain.exchanges[2])[0]
    # generic header 4, encoding 1
    assert sizes(changed.exchanges[2])[1][0] == sizes(plain.exchanges[2])[1][0] + 1005


@pytest.mark.parametrize(
    ("name", "changes", "problem"),
    [
        ("psk", {"signature": parse_signature("ml-dsa-65")}, "no side authenticates with a signature"),
        ("psk", {"chains": (ChainChange(2),)}, "no certificates are sent"),
        ("psk", {"replaced": (PayloadChange("CERT", 9),)}, "no message has a CERT payload"),
        ("psk", {"added": (PayloadChange("EAP", 9, "initiator"),)}, "no message of the initiator has a EAP payload"),
        ("ikev1_mode-main", {"kem": parse_kem("ml-kem-768")}, "only IKEv2 handshakes can be changed, not IKEv1"),
    ],
)
def test_changes_without_effect_are_refused(name, changes, problem):
    with pytest.raises(ChangeError, match=problem):
        change(name, **changes)


def test_encrypted_payloads_need_keys():
    flow = recorded("ecdsa", keys=False)
    with pytest.raises(ChangeError, match=r"payloads in IKE_AUTH 1 are unknown.* Name the keys with --keys"):
        apply_changes(flow, HandshakeChanges(signature=parse_signature("ml-dsa-65")))


def test_changed_handshakes_are_predicted():
    # 20 % loss: all fragments must arrive, and the bytes grow with their number
    changed = change("ecdsa", signature=parse_signature("ml-dsa-65"))
    result = predict_handshake(changed, LinkModel(20, 0.1), TransmissionConfig(StrongswanTimers().make_policy()))
    assert result.once[2] == changed.bytes > 17_000
    assert abs(result.bytes.mean - result.closed.bytes) < 4 * result.bytes.mean_error

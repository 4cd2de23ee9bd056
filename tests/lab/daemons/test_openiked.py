import gzip
import json

import pytest

from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.openiked import has_pf_key
from ikeanalyze.lab.daemons.proposals.openiked import to_iked_proposals
from ikeanalyze.lab.daemons.registry import check_stacks
from ikeanalyze.lab.run.case_run import run_case
from ikeanalyze.lab.scenario.expansion import expand_cases
from tests.lab.agreement import check

#: With Debian's build, HMAC-SHA2-256 is for IKE only.
SHA512 = {"ike": {"esp_proposals": "aes256-sha512"}, "timeout_s": 5}


def run(tmp_path, data, **options):
    (case,) = expand_cases(data, "x", "x")
    check_stacks(case)
    return run_case(case, tmp_path, **options)


@pytest.mark.parametrize(
    ("text", "keyword", "expected"),
    [
        (
            "aes256-sha256-ecp256",
            "ikesa",
            ["ikesa enc aes-256 prf hmac-sha2-256 auth hmac-sha2-256 group ecp256"],
        ),
        (
            "aes256gcm16-prfsha384-ecp384,aes128-sha1-modp2048",
            "ikesa",
            [
                "ikesa enc aes-256-gcm prf hmac-sha2-384 group ecp384",
                "ikesa enc aes-128 prf hmac-sha1 auth hmac-sha1 group modp2048",
            ],
        ),
        ("chacha20poly1305", "childsa", ["childsa enc chacha20-poly1305 noesn"]),
        (
            "aes256gcm12-prfsha256-x25519",
            "ikesa",
            ["ikesa enc aes-256-gcm-12 prf hmac-sha2-256 group curve25519"],
        ),
        ("aes256-sha512-x25519", "childsa", ["childsa enc aes-256 auth hmac-sha2-512 group curve25519 noesn"]),
    ],
)
def test_proposals_in_the_words_of_iked_conf(text, keyword, expected):
    assert to_iked_proposals(text, keyword) == expected


@pytest.mark.parametrize(
    ("data", "part"),
    [
        ({"ike": {"proposals": "aes256-sha256-ecp256-ke1_mlkem768"}}, "ke1_mlkem768"),
        # as iked 7.4 itself: "chacha20-poly1305 not a valid transform" after ikesa, "aes-256-gcm-12 ..." after childsa
        ({"ike": {"proposals": "chacha20poly1305-prfsha256-x25519"}}, "supports chacha20poly1305 for ESP only"),
        ({"ike": {"esp_proposals": "aes256gcm12-ecp256"}}, "supports aes256gcm12 for IKE only"),
        ({"ike": {"version": 1}}, "IKEv1"),
        ({"initiator": {"auth": "rsa"}}, "the same"),
        ({"initiator": {"auth": "rsa"}, "responder": {"auth": "rsa", "chain": 3}}, "responder.chain = 3"),
        ({"then": ["rekey-ike"]}, "rekey-ike"),
        ({"ike": {"cookie_threshold": 1}}, "ike.cookie_threshold"),
    ],
)
def test_unsupported_settings(data, part):
    responder = {"stack": "openiked"} | data.get("responder", {})
    (case,) = expand_cases(data | {"responder": responder}, "x", "x")
    with pytest.raises(LabError, match=part):
        check_stacks(case)


@pytest.mark.lab
@pytest.mark.parametrize("auth", ["psk", "rsa", "ecdsa"])
@pytest.mark.parametrize(
    ("initiator", "responder"),
    [("openiked", "strongswan"), ("strongswan", "openiked"), ("openiked", "openiked")],
)
def test_ike_with_it_agrees_with_both_logs(lab, tmp_path, initiator, responder, auth):
    sides = {"initiator": {"stack": initiator, "auth": auth}, "responder": {"stack": responder, "auth": auth}}
    manifest = check(run(tmp_path, sides | SHA512), outcomes="strongswan" in (initiator, responder))
    (handshake,) = manifest["handshakes"]
    assert (handshake["established"], handshake["child"], handshake["why"]) == (True, True, None)
    assert handshake["ms"] < 1000  # without the two seconds for which iked waits
    assert manifest["expected"]["responder"]["established"] == 1
    assert handshake["costs"][("initiator" if initiator == "openiked" else "responder")]["processor_ms"] > 0
    assert ("PF_KEY is emulated" in str(manifest["machine"])) == (not has_pf_key())
    # its log has neither keys nor the PSK
    assert (manifest["files"]["keys"] is not None) == ("strongswan" in (initiator, responder))
    for role, stack in (("initiator", initiator), ("responder", responder)):
        if stack == "openiked":
            assert "psk 0x" not in gzip.decompress((tmp_path / f"x.{role}.log.gz").read_bytes()).decode()


@pytest.mark.lab
@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"initiator": {"wrong_secret": True}}, "AUTHENTICATION_FAILED"),
        ({"ike": {"responder_proposals": "aes128-sha256-ecp384"}}, "NO_PROPOSAL_CHOSEN"),
    ],
)
def test_reasons_of_failure(lab, tmp_path, data, why):
    initiator = {"stack": "openiked"} | data.get("initiator", {})
    manifest = check(run(tmp_path, data | {"initiator": initiator, "timeout_s": 5}))
    assert [handshake["why"] for handshake in manifest["handshakes"]] == [why]


@pytest.mark.lab
def test_several_handshakes_with_losses(lab, tmp_path):
    sides = {"initiator": {"stack": "openiked"}, "responder": {"stack": "openiked"}, "link": {"loss_percent": 10}}
    path = run(tmp_path, sides | SHA512 | {"timeout_s": 60}, iterations=4)
    manifest = json.loads(path.read_text())
    assert all(handshake["established"] for handshake in manifest["handshakes"])
    assert len({handshake["spi_i"] for handshake in manifest["handshakes"]}) == 4
    check(path, outcomes=False)

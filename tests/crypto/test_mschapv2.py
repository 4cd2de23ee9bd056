"""The vectors of RFC 2759, section 9.2, and RFC 3079, section 3.5.3."""

import builtins

import pytest

from ikeanalyze.crypto import mschapv2

USER, PASSWORD = "User", "clientPass"
CHALLENGE = bytes.fromhex("5B5D7C7D7B3F2F3E3C2C602132262628")
PEER_CHALLENGE = bytes.fromhex("21402324255E262A28295F2B3A337C7E")
RESPONSE = bytes.fromhex("82309ECD8D708B5EA08FAA3981CD83544233114A3D85D6DF")


def test_the_response_and_its_parts():
    assert mschapv2.challenge_hash(PEER_CHALLENGE, CHALLENGE, USER).hex() == "d02e4386bce91226"
    assert mschapv2.password_hash(PASSWORD).hex() == "44ebba8d5312b8d611474411f56989ae"
    assert mschapv2.nt_response(CHALLENGE, PEER_CHALLENGE, USER, PASSWORD) == RESPONSE


def test_the_proof_of_the_server():
    proof = mschapv2.authenticator_response(CHALLENGE, PEER_CHALLENGE, USER, PASSWORD, RESPONSE)
    assert proof == "S=407A5589115FD0D6209F510FE9C04566932CDA56"


def test_the_key_that_the_server_sends_with_is_the_one_that_we_receive_with():
    key = mschapv2.master_session_key(PASSWORD, RESPONSE)
    assert len(key) == 64
    assert key[16:32].hex() == "8b7cdc149b993a1ba118cb153f56dccb"
    assert key[32:] == bytes(32)


def test_a_domain_is_no_part_of_the_name():
    assert mschapv2.nt_response(CHALLENGE, PEER_CHALLENGE, "DOMAIN\\User", PASSWORD) == RESPONSE


def test_a_missing_library_is_an_error_with_an_install_command(monkeypatch):
    there = builtins.__import__

    def missing(name, *rest, **more):
        if name.startswith("Crypto"):
            raise ImportError(name)
        return there(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(mschapv2.Md4MissingError, match="pip install pycryptodome"):
        mschapv2.require_md4()

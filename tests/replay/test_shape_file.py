"""Shape files: proposals as strongSwan sends them for the same words, and errors of one line."""

import pytest

from ikeanalyze.replay.handshake_shape import read_shape
from ikeanalyze.replay.initiator.interface import CannotReplayError
from ikeanalyze.replay.shape_file import read_shape_file
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.registries.ikev2_transforms import TransformType
from tests.paths import LAB_CAPTURES


def read(tmp_path, text):
    path = tmp_path / "shape.toml"
    path.write_text(text)
    return read_shape_file(str(path))


def list_transforms(proposals):
    """Without order: strongSwan sorts them by type."""
    return [sorted((each.type, each.id, each.attributes) for each in proposal.transforms) for proposal in proposals]


@pytest.mark.parametrize(
    ("capture", "proposals"),
    [
        ("psk", "aes256-sha256-ecp256"),
        ("mlkem768-psk", "aes256gcm16-prfsha384-ecp384-ke1_mlkem768"),
        ("mlkem_proposals-aes256gcm16-prfsha512-ecp521-ke1-mlkem1024", "aes256gcm16-prfsha512-ecp521-ke1_mlkem1024"),
    ],
)
def test_proposals_are_those_of_strongswan(tmp_path, capture, proposals):
    """The recorded scenarios have these words."""
    _, recorded = read_shape(LAB_CAPTURES / f"{capture}.pcapng", keys=LAB_CAPTURES / f"{capture}.keys.json")
    shape = read(tmp_path, f'proposals = "{proposals}"')
    assert list_transforms(shape.proposals) == list_transforms(recorded.proposals)
    assert shape.key_exchange == recorded.key_exchange
    assert list_transforms(shape.esp_proposals) == list_transforms(recorded.esp_proposals)


def test_the_method_of_eap_is_required(tmp_path):
    shape = read(tmp_path, 'eap = "EAP-AKA"')
    assert (shape.auth_initiator, shape.eap, shape.guessed) == ("eap", "EAP-AKA", ())


def test_authentication_is_chosen_by_the_credentials_if_it_is_not_given(tmp_path):
    shape = read(tmp_path, "")
    assert (shape.auth_initiator, shape.guessed) == (None, ("auth_initiator",))


def test_extensions_are_announced_if_they_are_used(tmp_path):
    plain = read(tmp_path, "fragment_size = 0")
    assert plain.fragment_size is None
    assert [kind for kind, _ in plain.notifies] == [NotifyType.SIGNATURE_HASH_ALGORITHMS]
    additional = read(tmp_path, 'proposals = "aes256-sha256-x25519-ke1_mlkem768"')
    assert {kind for kind, _ in additional.notifies} == {
        NotifyType.SIGNATURE_HASH_ALGORITHMS,
        NotifyType.IKEV2_FRAGMENTATION_SUPPORTED,
        NotifyType.INTERMEDIATE_EXCHANGE_SUPPORTED,
    }


def test_several_proposals_are_numbered(tmp_path):
    shape = read(tmp_path, 'proposals = "aes256gcm16-prfsha256-x448,aes128-sha1-modp2048"')
    assert [proposal.number for proposal in shape.proposals] == [1, 2]
    kinds = [[TransformType(each.type).name for each in proposal.transforms] for proposal in shape.proposals]
    assert kinds == [["ENCR", "PRF", "KE"], ["ENCR", "INTEG", "KE", "PRF"]]


WRONG = {
    'proposals = "aes256-sha256"': "aes256-sha256 has no key exchange",
    'proposals = "sha256-ecp256"': "sha256-ecp256 has no encryption algorithm",
    'proposals = "aes256gcm16-ecp256"': "aes256gcm16-ecp256 has no PRF",
    'proposals = "aes256-sha256-ecp192"': "unknown algorithm ecp192",
    'proposals = "AES"': "proposals must be algorithms in strongSwan's words",
    'esp_proposals = "sha256"': "sha256 has no encryption algorithm",
    'eap = "EAP-TLS"': "eap must be",
    "psk = 1": "unknown key psk",
    "not toml": "not TOML",
}


@pytest.mark.parametrize("text", WRONG)
def test_malformed_files_are_one_line_errors(tmp_path, text):
    with pytest.raises(CannotReplayError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/shape.toml: ")
    assert WRONG[text] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_are_reported():
    with pytest.raises(CannotReplayError, match="No such file"):
        read_shape_file("/nowhere/shape.toml")

"""Credentials files: which values are read, and that each error is one line with file and key, without a secret."""

import os

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, x25519

from ikeanalyze.lab.daemons import certificates
from ikeanalyze.replay.credentials import (
    Credentials,
    CredentialsError,
    get_key_type,
    load_credentials,
    parse_identity,
)
from ikeanalyze.wire.identification import format_identity

CHAIN = certificates.make_certificate_chain("ecdsa", 256, 3, "initiator.lab")
OTHER = certificates.make_certificate_chain("ecdsa", 256, 2, "other.lab")
PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8


@pytest.fixture
def folder(tmp_path):
    """With a chain, its key, and another's root."""
    for name, content in {
        "chain.pem": "".join(CHAIN.certificates[:-1]),
        "key.pem": CHAIN.key,
        "roots.pem": CHAIN.root + OTHER.root,
        "other.pem": OTHER.end,
        "empty.pem": "",
    }.items():
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_text(content)
    key = ec.generate_private_key(ec.SECP256R1())
    protected = key.private_bytes(PEM, PKCS8, serialization.BestAvailableEncryption(b"opensesame"))
    exchange = x25519.X25519PrivateKey.generate().private_bytes(PEM, PKCS8, serialization.NoEncryption())
    for name, data in {"protected.pem": protected, "exchange.pem": exchange}.items():
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_bytes(data)
    return tmp_path


def load(folder, text):
    path = folder / "credentials.toml"
    path.touch(0o600)
    path.write_text(text)
    return load_credentials(path)


FULL = """
[local]
identity = "initiator.lab"
psk = "0x73776f726466697368"
certificate = "chain.pem"
key = "key.pem"
[remote]
identity = "192.0.2.2"
authorities = ["roots.pem", "other.pem"]
[eap]
identity = "carol"
password = "tuna"
"""


def test_all_credentials_are_read(folder):
    loaded = load(folder, FULL)
    credentials = loaded.credentials
    assert loaded.warnings == ()
    assert (credentials.local_identity.type, credentials.local_identity.data) == (2, b"initiator.lab")
    assert (credentials.remote_identity.type, credentials.remote_identity.data) == (1, bytes([192, 0, 2, 2]))
    assert credentials.psk == b"swordfish"
    assert (len(credentials.certificates), len(credentials.authorities)) == (2, 3)
    assert (credentials.eap_identity, credentials.eap_password) == ("carol", "tuna")
    assert get_key_type(credentials.key) == "ecdsa"


def test_an_empty_file_has_no_credentials(folder):
    assert load(folder, "").credentials == Credentials()


def test_the_repr_has_no_secret(folder):
    text = repr(load(folder, FULL))
    assert "swordfish" not in text
    assert "tuna" not in text
    assert "PrivateKey" not in text


def test_files_that_others_can_read(folder):
    path = folder / "credentials.toml"
    load(folder, FULL)
    for name in ("credentials.toml", "key.pem"):
        os.chmod(folder / name, 0o644)
    loaded = load_credentials(path)
    assert loaded.warnings == tuple(
        f"{folder / name}: has secrets, but other users can read it: chmod 600 {folder / name}"
        for name in ("credentials.toml", "key.pem")
    )


#: Test set 1 of 3GPP TS 35.208.
KI, OP, OPC = (
    "465b5ce8b199b49faa5f0a2ee238a6bc",
    "cdc202d5123e20f62b6d676ac72cb318",
    "cd63cb71954a9f4e48a5994e37a02baf",
)


@pytest.mark.parametrize("operator", [f'opc = "{OPC}"', f'op = "{OP}"'])
def test_credentials_for_eap_aka(folder, operator):
    """The identity of a subscriber begins with 0 (RFC 4187, section 4.1.1.6)."""
    text = f'[eap]\nimsi = "001010000000001"\nki = "{KI}"\n{operator}'
    credentials = load(folder, text).credentials
    assert credentials.eap_identity == "0001010000000001"
    assert (credentials.milenage.ki.hex(), credentials.milenage.opc.hex()) == (KI, OPC)
    assert "001010000000001" not in repr(credentials)
    named = load(folder, f'{text}\nidentity = "0001010000000001@wlan.example"').credentials
    assert named.eap_identity == "0001010000000001@wlan.example"


WRONG = {
    "not = toml = at all": "not TOML (at line 1, column 7)",
    'psk = "swordfish"': "unknown key psk; allowed are local, remote, eap",
    '[locals]\npsk = "swordfish"': "unknown key locals; did you mean local? allowed are local, remote, eap",
    '[local]\npks = "swordfish"': (
        "unknown key local.pks; did you mean local.psk? allowed are identity, psk, certificate, key, key_password"
    ),
    "[local]\npsk = 12345": "local.psk must be text of 1 to 1,024 characters",
    '[local]\npsk = ["swordfish"]': "local.psk must be text of 1 to 1,024 characters",
    'local = "swordfish"': "local must be a table",
    '[local]\npsk = ""': "local.psk must be text of 1 to 1,024 characters",
    '[local]\npsk = "0xswordfish"': "local.psk cannot be used: 0x must be followed by hexadecimal digits",
    '[local]\nidentity = "O=x, =y"': "local.identity is not a distinguished name such as C=CH, O=Lab, CN=gw, although it has a =",
    '[local]\ncertificate = "chain.pem"': "local.certificate needs local.key",
    '[local]\nkey = "key.pem"': "local.key needs local.certificate",
    '[local]\ncertificate = "other.pem"\nkey = "key.pem"': (
        "local.key does not match the first certificate of local.certificate"
    ),
    '[local]\ncertificate = "missing.pem"\nkey = "key.pem"': "local.certificate: {}/missing.pem: cannot be read",
    '[local]\ncertificate = "empty.pem"\nkey = "key.pem"': (
        "local.certificate names {}/empty.pem, which has no PEM certificate"
    ),
    '[local]\ncertificate = "chain.pem"\nkey = "chain.pem"': (
        "local.key names {}/chain.pem, which has no PEM private key"
    ),
    '[local]\ncertificate = "chain.pem"\nkey = "protected.pem"': (
        "local.key names {}/protected.pem, which is encrypted: local.key_password is missing"
    ),
    '[local]\ncertificate = "chain.pem"\nkey = "protected.pem"\nkey_password = "swordfish"': (
        "local.key names {}/protected.pem, which cannot be decrypted with local.key_password"
    ),
    '[local]\ncertificate = "chain.pem"\nkey = "key.pem"\nkey_password = "swordfish"': (
        "local.key names {}/key.pem, which is not encrypted, but local.key_password is set"
    ),
    '[local]\ncertificate = "chain.pem"\nkey = "exchange.pem"': (
        "local.key names {}/exchange.pem, whose key is neither RSA, ECDSA, Ed25519 nor Ed448"
    ),
    '[remote]\nauthorities = "roots.pem"': "remote.authorities must be a list of paths",
    '[remote]\nauthorities = ["roots.pem", 3]': "remote.authorities[1] must be text of 1 to 1,024 characters",
    '[remote]\nauthorities = ["."]': "remote.authorities: {}: cannot be read",
    '[eap]\npassword = "swordfish"': "[eap] needs both identity and password",
    '[eap]\nidentity = "carol"': "[eap] needs both identity and password",
    '[eap]\nimsi = "001010000000001"': "[eap] needs ki for EAP-AKA",
    f'[eap]\nimsi = "001010000000001"\nki = "{KI}"': "[eap] needs either opc or op for EAP-AKA",
    f'[eap]\nki = "{KI}"\nopc = "{OPC}"': "[eap] needs imsi or identity for EAP-AKA",
    f'[eap]\nimsi = "0"\nki = "{KI}"\nopc = "{OPC}"': "eap.imsi must be 6 to 15 digits",
    '[eap]\nki = "swordfish"': "eap.ki must be 32 hex digits",
}


@pytest.mark.parametrize("text", WRONG)
def test_malformed_credentials_are_one_line_errors(folder, text):
    with pytest.raises(CredentialsError) as caught:
        load(folder, text)
    reported = str(caught.value)
    assert reported.startswith(f"{folder}/credentials.toml: {WRONG[text].format(folder)}")
    assert "\n" not in reported
    assert "swordfish" not in reported.removeprefix(str(folder))
    assert KI not in reported


@pytest.mark.parametrize(
    "data", [b"\xff\xfe", b"[" * 100_000, b"x" * (1 << 20) + b"y", b"[local]\npsk = 1" + b"0" * 5000]
)
def test_files_that_are_no_credentials(folder, data):
    path = folder / "credentials.toml"
    path.write_bytes(data)
    with pytest.raises(CredentialsError, match=r"not TOML|larger than"):
        load_credentials(path)
    with pytest.raises(CredentialsError, match="cannot be read"):
        load_credentials(folder / "nothing.toml")


@pytest.mark.parametrize(
    ("text", "kind"),
    [("gw.example", 2), ("carol@gw.example", 3), ("192.0.2.1", 1), ("2001:db8::1", 5)],
)
def test_the_type_of_an_identity_follows_from_its_form(text, kind):
    identity = parse_identity(text)
    assert identity.type == kind
    assert format_identity(identity.type, identity.data) == text


@pytest.mark.parametrize("text", ["O=lab,CN=gw", "O=lab, CN=gw"])
def test_a_distinguished_name_is_in_strongswans_order(text):
    identity = parse_identity(text)
    # SET of SEQUENCE of 2.5.4.10 and 2.5.4.3, UTF8String
    assert (identity.type, identity.data.hex()) == (
        9, "301b310c300a060355040a0c036c6162310b300906035504030c026777",
    )  # fmt: skip


def test_kinds_of_keys():
    assert get_key_type(None) is None
    assert get_key_type(ed25519.Ed25519PrivateKey.generate()) == "ed25519"
    assert get_key_type(ed448.Ed448PrivateKey.generate()) == "ed448"

import base64

import pytest

from ikeanalyze.keys.psk import PskError, parse_pre_shared_keys, read_psk


@pytest.mark.parametrize(
    ("content", "secret"),
    [
        (b"swordfish", b"swordfish"),
        (b"swordfish\n", b"swordfish"),
        (b"swordfish\r\n", b"swordfish"),
        (b" a b \n\n", b" a b \n"),  # one end of line is not the secret's, everything else is
        (b"0x00fFa5\n", b"\x00\xff\xa5"),
        (b"0s" + base64.b64encode(bytes(range(20))) + b"\n", bytes(range(20))),
        (b"\x00\x01\xff", b"\x00\x01\xff"),
        (b": PSK swordfish", b"swordfish"),
    ],
)
def test_a_file_with_one_secret_is_read(content, secret):
    assert parse_pre_shared_keys(content) == (secret,)


def test_lines_of_ipsec_secrets():
    content = b"""# secrets of the gateway
    # old : PSK "not this one"
    10.0.0.1 gw.example : PSK "sword : PSK fish"
    : psk 0x0102
    "CN=gw, O=Lab" : PSK 'quoted'  # as it is
    gw.example : RSA key.pem "passphrase"
    fd00::1 : PSK 0sAQI=
    """
    assert parse_pre_shared_keys(content) == (b"sword : PSK fish", b"\1\2", b"quoted")


@pytest.mark.parametrize("content", [b"", b"\n", b'x : PSK ""\n'])
def test_an_empty_secret_is_an_error(content):
    with pytest.raises(ValueError, match="empty"):
        parse_pre_shared_keys(content)


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"0xsecret", "hexadecimal digits"), (b"0x123", "hexadecimal digits"), (b"0sse!cret", "followed by base64")],
)
def test_what_is_wrong_is_said_without_the_secret(tmp_path, content, what):
    path = tmp_path / "psk"
    path.write_bytes(content)
    with pytest.raises(PskError) as error:
        read_psk(str(path))
    assert what in str(error.value)
    assert "cret" not in str(error.value)
    assert error.value.__cause__ is None


def test_secrets_of_a_file_are_read(tmp_path):
    path = tmp_path / "psk"
    path.write_text("swordfish\n")
    psk = read_psk(str(path))
    assert (psk.path, psk.secrets) == (str(path), (b"swordfish",))
    assert "swordfish" not in repr(psk)


def test_unreadable_psk_files_raise(tmp_path):
    with pytest.raises(PskError, match="No such file"):
        read_psk(str(tmp_path / "none"))
    for secret in ("0x00112233", "correct horse", "x" * 5000):  # in place of the name of a file
        with pytest.raises(PskError, match="Name a file that has the key") as error:
            read_psk(secret)
        assert secret not in str(error.value)
    with pytest.raises(PskError, match="directory"):
        read_psk(str(tmp_path))
    large = tmp_path / "large"
    large.write_bytes(bytes(1 << 21))
    with pytest.raises(PskError, match="too large"):
        read_psk(str(large))


def test_a_long_line_takes_no_time():
    content = b": " * 250_000 + b'"'
    assert parse_pre_shared_keys(content) == (content,)

"""Pseudonyms: what they keep, and the file with their key."""

import os
import socket
import stat

import pytest

from ikeanalyze.sharing.anonymize.pseudonyms import (
    KEY_BYTES,
    AnonymizationKeyError,
    Pseudonyms,
    load_or_create_key,
    make_key,
)
from tests.sharing.anonymize.copies import KEY

PSEUDONYMS = Pseudonyms(KEY)


def test_addresses_of_no_host_stay():
    for address in (bytes(4), bytes(16), b"\xff" * 4):
        assert PSEUDONYMS.map_address(address) == address


def test_ranges_and_prefixes_keep_their_size():
    network = [socket.inet_aton(address) for address in ("10.1.4.0", "10.1.7.255")]
    first, last = (int.from_bytes(address, "big") for address in PSEUDONYMS.map_range(*network))
    assert (last - first, first % 1024) == (1023, 0)
    assert PSEUDONYMS.map_range(bytes(4), b"\xff" * 4) == (bytes(4), b"\xff" * 4)
    assert PSEUDONYMS.map_prefix(network[0], 0) == bytes(4)


def test_mac_addresses_keep_their_flags():
    for mac in (b"\x01\0\x5e\0\0\1", b"\x02\xaa\xbb\xcc\xdd\xee", b"\x00\x1b\x21\0\0\1"):
        mapped = PSEUDONYMS.map_mac(mac)
        assert (len(mapped), mapped[0] & 3) == (6, mac[0] & 3)
        assert mapped[1:] != mac[1:]
    assert PSEUDONYMS.map_mac(b"\xff" * 6) == b"\xff" * 6


def test_texts_keep_length_and_structure():
    mapped = PSEUDONYMS.map_text(b"Alice_1@mail.example.org")
    assert [place for place, byte in enumerate(mapped) if byte in b".@"] == [7, 12, 20]
    assert mapped.replace(b".", b"").replace(b"@", b"").islower()
    assert PSEUDONYMS.map_text(b"") == b""


def test_another_key_gives_other_pseudonyms():
    other = Pseudonyms(make_key())
    assert other.map_bytes(b"some content") != PSEUDONYMS.map_bytes(b"some content")
    assert Pseudonyms(KEY).map_bytes(b"some content") == PSEUDONYMS.map_bytes(b"some content")


def test_a_key_file_is_created_for_its_owner_and_read_again(tmp_path):
    path = tmp_path / "key"
    key = load_or_create_key(str(path))
    assert len(key) == KEY_BYTES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_create_key(str(path)) == key


@pytest.mark.parametrize(
    "content", ["", "x", "ikeanalyze anonymization key 1\nabcd\n", "ikeanalyze anonymization key 1\nsecret"]
)
def test_another_file_is_refused_without_its_content(tmp_path, content):
    path = tmp_path / "key"
    path.write_text(content)
    with pytest.raises(AnonymizationKeyError, match="not an anonymization key") as error:
        load_or_create_key(str(path))
    assert "secret" not in str(error.value)
    assert path.read_text() == content


def test_a_key_that_cannot_be_written_leaves_no_file(tmp_path, monkeypatch):
    """As on a full disk: the next run would find a file without a key."""
    fdopen = os.fdopen

    def fill_the_disk(descriptor, mode):
        os.close(descriptor)
        return fdopen(os.open("/dev/full", os.O_WRONLY), mode)

    monkeypatch.setattr(os, "fdopen", fill_the_disk)
    with pytest.raises(OSError, match="No space left"):
        load_or_create_key(str(tmp_path / "key"))
    assert list(tmp_path.iterdir()) == []


def test_a_key_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(AnonymizationKeyError, match=r"cannot be read \(Is a directory\)"):
        load_or_create_key(str(tmp_path))

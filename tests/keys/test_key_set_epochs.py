from hashlib import sha256

from msgspec.structs import replace

from ikeanalyze.keys.key_set import EspKey, Phase1Key, compute_fingerprint, number_epochs, remove_repeated_key_sets
from tests.keys.logs_of import lines, read

SETS = read(lines("charon-6.1-followup.i"))[0].key_sets
OTHER_SIDE = read(lines("charon-6.1-followup.r"))[0].key_sets


def without_spis(keys):
    return replace(keys, spi_i=None, spi_r=None)


def test_key_sets_are_numbered_by_epoch():
    """Two additional key exchanges, then the IKE SA is rekeyed twice."""
    assert number_epochs(SETS) == [0, 1, 2, 0, 0]


def test_nonces_separate_the_epochs():
    assert number_epochs([without_spis(keys) for keys in SETS]) == [0, 1, 2, 0, 0]


def test_epochs_of_nobody_knows_what():
    assert number_epochs([replace(without_spis(keys), derivation=None) for keys in SETS]) == [None] * 5


def test_epochs_of_ike_sas_in_turns():
    first, second = SETS[0], replace(SETS[0], spi_i=bytes(8))
    assert number_epochs([first, second, first, second]) == [0, 0, 1, 1]


def test_fingerprints_do_not_depend_on_what_else_is_known():
    for mine, other in zip(SETS, OTHER_SIDE, strict=True):
        known = compute_fingerprint(mine)
        assert known == compute_fingerprint(other)
        assert known == compute_fingerprint(replace(without_spis(mine), sk_d=None, encryption=None, derivation=None))
    assert len({compute_fingerprint(keys) for keys in SETS}) == 5


def test_fingerprints_are_truncated_hashes():
    key = Phase1Key(SETS[0].origin, bytes(8), b"k" * 16)
    assert compute_fingerprint(key) == sha256(b"\0\0\0\x10" + b"k" * 16).hexdigest()[:8]
    esp = EspKey(key.origin, "IPv4", "*", "*", 1, "NULL", b"", "NULL", b"k")
    assert compute_fingerprint(esp) == sha256(b"\0\0\0\0" + b"\0\0\0\1k").hexdigest()[:8]


def test_the_logs_of_both_peers():
    both = remove_repeated_key_sets([*SETS, *OTHER_SIDE])
    assert both == SETS

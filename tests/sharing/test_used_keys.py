"""Keys that decrypt a capture: those of its IKE SAs, epoch by epoch, with no more than decryption needs."""

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.keys.detect import read_keys
from ikeanalyze.sharing.used_keys import UsedKeyCollector
from tests.paths import CAPTURES, LAB_CAPTURES


def collect(path, *keys):
    used = UsedKeyCollector()
    read_captures([str(path)], ReadOptions(keys=tuple(map(str, keys)), lab_manifests=False, on_contents=used.take))
    return used


def test_both_epochs_of_an_ike_sa():
    """SPIs as in tshark: 904a132d2b087803, f2748b73dae9f971."""
    log, other = CAPTURES / "pq-mlkem768-psk.charon.log.gz", LAB_CAPTURES / "psk.keys.json"
    used = collect(CAPTURES / "pq-mlkem768-psk.pcap", log, other)
    logged = read_keys(str(log)).key_sets
    assert [keys.sk_ei for keys in used.key_sets] == [keys.sk_ei for keys in logged]
    assert {(keys.spi_i.hex(), keys.spi_r.hex()) for keys in used.key_sets} == {
        ("904a132d2b087803", "f2748b73dae9f971")
    }
    for keys in used.key_sets:
        assert (keys.sk_d, keys.sk_pi, keys.sk_pr, keys.derivation) == (None, None, None, None)
        assert (keys.encryption, keys.integrity) == (20, 0)  # AES-GCM-16 (IANA)


def test_initiators_of_ikev1_and_captures_without_fitting_keys():
    path = LAB_CAPTURES / "ikev1_mode-main.pcapng"
    used = collect(path, LAB_CAPTURES / "ikev1_mode-main.keys.json")
    assert (len(used.spis), used.key_sets) == (1, [])
    unused = collect(path, LAB_CAPTURES / "psk.keys.json")
    assert (unused.spis, unused.key_sets) == (set(), [])

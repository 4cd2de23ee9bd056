from ikeanalyze.analysis.verification.daemon_log_index import index_daemon_logs
from ikeanalyze.analysis.verification.ike_sas import get_key_values
from ikeanalyze.keys.detect import read_keys
from tests.analysis.verify_recordings import log_of
from tests.keys.logs_of import LOGS


def test_what_stands_beside_keys():
    file = read_keys(str(log_of("pq-mlkem768-psk")))
    result = index_daemon_logs([file])
    first, second = file.key_sets
    # the keys of epoch 0 authenticate IKE_INTERMEDIATE, those of epoch 1 IKE_AUTH
    assert set(result.int_auths) == {first.sk_pi, first.sk_pr}
    assert set(result.auths) == {second.sk_pi, second.sk_pr}
    assert {item.secret for some in result.auths.values() for item in some} == {b"swordfish"}
    assert result.find_sk_p(get_key_values(second), second.sk_pr, initiator=False) == [second.sk_pr]
    assert result.find_sk_p(get_key_values(second), None, initiator=True) == []
    assert result.msks == []


def test_keys_made_with_a_ppk_go_first():
    file = read_keys(str(LOGS / "charon-5.9.8-ppk.i.log.gz"))
    keys = file.key_sets[0]
    (ppk,) = file.log.ppks
    result = index_daemon_logs([file])
    assert result.find_sk_p(get_key_values(keys), keys.sk_pi, initiator=True) == [ppk.sk_pi, keys.sk_pi]
    assert result.find_sk_p(get_key_values(keys), keys.sk_pr, initiator=False) == [ppk.sk_pr, keys.sk_pr]


def test_repeated_msks_are_kept_once():
    file = read_keys(str(log_of("eap")))
    assert len(index_daemon_logs([file, file]).msks) == len(set(file.log.msks))


def test_the_repr_has_no_secret():
    shown = repr(index_daemon_logs([read_keys(str(log_of("pq-mlkem768-psk")))]))
    assert "swordfish" not in shown
    assert len(shown) < 100


def test_files_that_are_no_logs(tmp_path):
    table = tmp_path / "table"
    row = ",".join(["0000000000000001", "0000000000000002", "00" * 20, "00" * 20])
    table.write_text(f'{row},"AES-GCM-128 with 16 octet ICV [RFC5282]","","","NONE [RFC4306]"\n')
    assert index_daemon_logs([read_keys(str(table))]).auths == {}

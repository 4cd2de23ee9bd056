"""`ikeanalyze anonymize`: its options, files and messages."""

import stat

from tests.paths import CAPTURES, LAB_CAPTURES

CAPTURE = str(LAB_CAPTURES / "psk.pcapng")
KEYS = str(LAB_CAPTURES / "psk.keys.json")


def test_without_keys_encrypted_contents_are_mentioned(run, tmp_path):
    done = run("anonymize", CAPTURE, "-o", str(tmp_path / "out.pcapng"))
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"{CAPTURE}: 6 of 6 packets written" in done.stderr
    assert "4 encrypted messages kept: those who have the keys can read what is inside" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.pcapng"]  # no key beside it


def test_dropped_packets_are_counted_with_their_reasons(run, tmp_path):
    done = run("anonymize", str(CAPTURES / "nat-any.pcap"), "-o", str(tmp_path / "out.pcapng"))
    assert "dropped, because they are not understood: 5 ICMP other than errors, 4 not IP" in done.stderr


def test_keys_are_written_on_request_and_decrypt_the_copy(run, tmp_path):
    out, keys = tmp_path / "out.pcapng", tmp_path / "keys.json"
    done = run("anonymize", CAPTURE, "-o", str(out), "--keys", KEYS, "--write-keys", str(keys))
    assert done.exit_code == 0, done.stderr
    assert "kept" not in done.stderr
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert KEYS not in keys.read_text()
    report = run("report", str(out), "--keys", str(keys)).stdout
    assert "decrypted       4 of 4 encrypted messages" in report
    assert "initiator.lab" not in report


def test_a_key_maps_captures_alike(run, tmp_path):
    key, outs = tmp_path / "key", [tmp_path / f"{number}.pcapng" for number in range(3)]
    for out in outs[:2]:
        assert run("anonymize", CAPTURE, "-o", str(out), "--key", str(key)).exit_code == 0
    assert run("anonymize", CAPTURE, "-o", str(outs[2])).exit_code == 0
    same, again, other = (out.read_bytes() for out in outs)
    assert same == again != other
    assert key.read_text().split("\n")[1] not in same.hex()


def test_wrong_usage_is_refused(run, tmp_path):
    out = str(tmp_path / "out.pcapng")
    cases = [
        ((CAPTURE, "--write-keys", str(tmp_path / "k")), 2, "there are no keys to write without --keys"),
        (("-",), 2, "cannot be standard input"),
        ((CAPTURE, "--key", CAPTURE), 2, "it would be overwritten"),
        ((CAPTURE, "--key", KEYS), 1, "not an anonymization key"),
        (
            (CAPTURE, "--keys", KEYS, "--write-keys", str(tmp_path)),
            1,
            f"{tmp_path}: is a directory. Name a file with --write-keys",
        ),
        (
            (CAPTURE, "--key", str(tmp_path / "no" / "key")),
            1,
            f"{tmp_path}/no/key: cannot be written: No such file or directory. Name another output with --key",
        ),
        ((CAPTURE, "--keys", str(LAB_CAPTURES / "ecdsa.keys.json")), 1, "the keys decrypt no message"),
    ]
    for arguments, status, message in cases:
        done = run("anonymize", *arguments, "-o", out)
        assert (done.exit_code, message in done.stderr) == (status, True), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_capture_without_a_packet_that_is_understood_fails(run, tmp_path):
    path = tmp_path / "in.pcap"
    path.write_bytes(
        (CAPTURES / "psk-classic.pcap").read_bytes()[:20]
        + b"\x7f\0\0\0"
        + (CAPTURES / "psk-classic.pcap").read_bytes()[24:]
    )
    done = run("anonymize", str(path), "-o", str(tmp_path / "out.pcapng"))
    assert (done.exit_code, "no packet is understood" in done.stderr) == (1, True)

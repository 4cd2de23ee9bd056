"""Every tshark, without plugin and without keys, reads what `ikeanalyze decrypt` writes."""

import json

import pytest
from typer.testing import CliRunner

from ikeanalyze.cli.app import app
from tests.paths import CAPTURES

#: charon's abbreviations for payloads, and their numbers in RFC 7296, 3.2
NUMBERS = {
    "SA": 33,
    "KE": 34,
    "IDi": 35,
    "IDr": 36,
    "AUTH": 39,
    "No": 40,
    "N": 41,
    "D": 42,
    "TSi": 44,
    "TSr": 45,
}
#: Proposals and transforms, which tshark lists among the payloads.
INSIDE_SA = {"2", "3"}
CHECKED = ("-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE")


@pytest.fixture(scope="module")
def decrypted(tmp_path_factory):
    """pq-mlkem768-psk.pcap as `decrypt` writes it."""
    path = tmp_path_factory.mktemp("decrypted") / "clear.pcapng"
    log = CAPTURES / "pq-mlkem768-psk.charon.log.gz"
    arguments = ["decrypt", str(CAPTURES / "pq-mlkem768-psk.pcap"), "--keys", str(log), "-o", str(path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return path


def generated() -> list[list[str]]:
    """The payloads of every message of the set-up as its sender's log names them, first message first."""
    truth = json.loads((CAPTURES / "pq-mlkem768-psk.truth.json").read_text())
    result = {}
    for side in ("ini", "res"):
        for event, *rest in truth[side]:
            if event == "gen" and rest[0] != "INFORMATIONAL" and not rest[3].startswith("EF("):
                _, direction, message_id, payloads = rest
                names = [name.partition("(")[0] for name in payloads.split()]
                result[message_id, direction == "response"] = [str(NUMBERS[name]) for name in names]
    return [result[key] for key in sorted(result)]


def fields(tshark, path, *names, only="isakmp"):
    done = tshark.run(
        "-n",
        "-Y",
        only,
        "-Tfields",
        *(word for name in names for word in ("-e", name)),
        *CHECKED,
        capture=path,
    )
    assert done.status == 0, done.stderr
    return [line.split("\t") for line in done.lines]


def test_payloads_are_those_of_the_daemons_logs(tshark, decrypted):
    seen = fields(tshark, decrypted, "isakmp.typepayload")
    assert [[t for t in types.split(",") if t not in INSIDE_SA] for (types,) in seen] == generated()


def test_both_epochs_are_in_clear(tshark, decrypted):
    exchanges = fields(tshark, decrypted, "isakmp.exchangetype", "isakmp.key_exchange.dh_group", "isakmp.auth.method")
    assert exchanges == [
        ["34", "20", ""],  # IKE_SA_INIT with ECP-384, which also stands in the capture as it was
        ["34", "20", ""],
        ["43", "36", ""],  # IKE_INTERMEDIATE with ML-KEM-768
        ["43", "36", ""],
        ["35", "", "2"],  # IKE_AUTH with a shared key
        ["35", "", "2"],
    ]


def test_sizes_of_ml_kem_768_key_and_ciphertext(tshark, decrypted):
    seen = fields(tshark, decrypted, "isakmp.key_exchange.data", only="isakmp.exchangetype == 43")
    assert [len(data) // 2 for (data,) in seen] == [1184, 1088]  # FIPS 203, table 3


def test_identities_and_their_roles(tshark, decrypted):
    shown = tshark.run("-n", "-V", "-Y", "isakmp.exchangetype == 35", capture=decrypted).stdout
    roles = [line.partition("Payload: ")[2] for line in shown.split("\n") if "Payload: Identification" in line]
    assert [role.partition(" (")[0] for role in roles] == [
        "Identification - Initiator",
        "Identification - Responder",  # the request names whom it wants
        "Identification - Responder",
    ]


def test_nothing_is_malformed_and_lengths_and_checksums_are_right(tshark, decrypted):
    assert fields(tshark, decrypted, "frame.number", only="_ws.malformed || isakmp.enc.data") == []
    bad = "ip.checksum.status == 0 || isakmp && frame.number >= 4 && udp.checksum.status != 1"
    # the capture's own IKE_SA_INIT messages have the partial checksums of an interface that fills them in
    assert fields(tshark, decrypted, "frame.number", only=bad) == []
    lengths = fields(tshark, decrypted, "isakmp.length", "udp.length", "udp.port", "ip.len")
    for ike, udp, ports, ip in lengths:
        marker = 4 if "4500" in ports else 0  # the non-ESP marker of RFC 3948
        assert (int(udp), int(ip)) == (int(ike) + marker + 8, int(ike) + marker + 28)


def test_comments_name_frames_epoch_and_icv(tshark, decrypted):
    comments = [text for (text,) in fields(tshark, decrypted, "frame.comment") if text]
    words = [
        ("frames 4, 5", "epoch 0"),
        ("frame 6", "epoch 0"),
        ("frame 7", "epoch 1"),
        ("frame 8", "epoch 1"),
    ]
    assert len(comments) == len(words)
    for comment, (frames, epoch) in zip(comments, words, strict=True):
        assert frames in comment
        assert epoch in comment
        assert "ICV verified" in comment

"""Decryption in the plugin, with the ciphers of newer versions of Wireshark and with its own in older ones."""

import bz2
import gzip
import json
import lzma
import re
from itertools import zip_longest
from random import Random

import polars as pl
import pytest

import ikeanalyze
from ikeanalyze.keys.detect import read_keys
from tests.analysis.ikev1_phase1 import NAME, Phase
from tests.analysis.recorded_captures import DATA
from tests.craft import MS, SECOND, Handshake, Trace, ike, ikev1
from tests.dissectors.encryption import AUTH, EncryptedSa, captured, init, matrix
from tests.dissectors.key_files import keys_of
from tests.dissectors.run_plugin import PLUGIN, fields, findings, run_plugin
from tests.keys.logs_of import LOGS, lines
from tests.keys.mutated_logs import MUTATIONS, TWO_DAEMONS, of_one_thread
from tests.keys.wrapped_logs import WRAPPED, export_journal
from tests.paths import CAPTURES

PQ = CAPTURES / "pq-mlkem768-psk.pcap"
LAB = CAPTURES / "lab"
NAMES = ("frame.number", "ikex.epoch", "ikex.verified", "ikex.payload")


def test_all_messages_of_a_handshake_with_two_epochs_are_decrypted(tshark):
    """The KE payloads of IKE_INTERMEDIATE and AUTH of IKE_AUTH are decrypted and verified, and nothing is malformed."""
    names = (
        "frame.number", "ikex.epoch", "ikex.verified", "isakmp.key_exchange.dh_group", "isakmp.auth.method", "ikex.ke.role",
        "ikex.ke.modulus_ok", "ikex.ke.slot", "ikex.ke.negotiated", "_ws.malformed", "ikex.outcome",
    )  # fmt: skip
    assert fields(tshark, PQ, *names, only="ikex.epoch", keys=keys_of("pq-mlkem768-psk")) == [
        ["4", "0", "True", "", "", "", "", "", "", "", "established"],
        ["5", "0", "True", "36", "", "encapsulation key", "True", "1", "True", "", "established"],
        ["6", "0", "True", "36", "", "ciphertext", "", "1", "True", "", "established"],
        ["7", "1", "True", "", "2", "", "", "", "", "", "established"],
        ["8", "1", "True", "", "2", "", "", "", "", "", "established"],
    ]
    everything = run_plugin(tshark, PQ, "-V", keys=keys_of("pq-mlkem768-psk")).stdout
    assert "Malformed" not in everything
    assert "incorrect" not in everything


def test_rows_of_wiresharks_table_are_key_sets(tshark):
    """As written by strongSwan's save-keys plugin, one row per epoch: from a file, and from Wireshark's own table."""
    rows = []
    for keys in json.loads(keys_of("pq-mlkem768-psk"))["key_sets"]:
        name = '"AES-GCM-256 with 16 octet ICV [RFC5282]"'
        columns = [
            keys["spi_i"],
            keys["spi_r"],
            keys["sk_ei"],
            keys["sk_er"],
            name,
            "",
            "",
            '"NONE [RFC4306]"',
        ]
        rows.append(",".join(columns))
    table = "# a comment\n" + "\n".join(rows) + "\n"
    expected = [["4", "0"], ["5", "0"], ["6", "0"], ["7", "1"], ["8", "1"]]
    names = ("frame.number", "ikex.epoch")
    assert fields(tshark, PQ, *names, only="ikex.epoch", keys=table) == expected
    own = {"ikev2_decryption_table": table}
    assert fields(tshark, PQ, *names, only="ikex.epoch", config=own) == expected
    assert fields(tshark, PQ, *names, only="ikex.epoch", config=own, options=["ikex.table_keys:FALSE"]) == []


def test_key_sets_without_spis_decrypt_the_ike_sas_that_they_fit(tshark):
    sets = (CAPTURES / "loss20-classic.keys.json").read_text()
    assert json.loads(sets)[0].keys() == {"Sk_d", "Sk_ei", "Sk_er", "Sk_pi", "Sk_pr"}
    capture = CAPTURES / "loss20-classic.pcap"
    lines = fields(tshark, capture, "ikex.handshake", "ikex.verified", only="ikex.epoch", keys=sets)
    assert {handshake for handshake, _ in lines} == {str(number) for number in range(1, 26)}
    assert {verified for _, verified in lines} == {"True"}


@pytest.mark.parametrize("fragmented", [False, True], ids=["SK", "SKF"])
def test_every_cipher_with_every_integrity_algorithm_is_decrypted_and_verified(tshark, fragmented):
    """17 ciphers, of which 10 are AEAD; the others with each of 10 integrity algorithms: 80 IKE SAs of 2 epochs."""
    capture, keys, names = matrix(fragmented)
    assert len(names) == 80
    columns = ("ikex.handshake", "ikex.epoch", "ikex.verified", "ikex.payload", "_ws.expert.message")
    shown = {}
    for handshake, epoch, verified, payload, expert in fields(tshark, capture, *columns, keys=keys):
        name = names[int(handshake) - 1]
        assert expert == "", name
        if epoch:
            shown.setdefault(name, []).append((epoch, verified, payload))
    # of a fragmented message, the frame that completes it shows the payloads
    before = {True: [""], False: []}[fragmented]
    payloads = [*before, "KE", *before, "KE", *before, "V,IDi,AUTH,N", "IDr,AUTH"]
    epochs = ["0"] * (2 + 2 * len(before)) + ["1"] * (2 + len(before))
    expected = [(epoch, "True", payload) for epoch, payload in zip(epochs, payloads, strict=True)]
    assert shown == dict.fromkeys(names, expected)


@pytest.mark.parametrize("cipher", ["AES-CBC", "AES-CTR", "AES-GCM-16"])
def test_a_message_whose_icv_is_wrong_is_not_decrypted(tshark, cipher):
    sa = EncryptedSa(Random(cipher), cipher)
    opening = init(sa)
    sa.next_epoch()
    good, bad = (sa.message(ike.IKE_AUTH, AUTH, number) for number in (1, 2))
    bad = bad[:-1] + bytes([bad[-1] ^ 1])
    capture = captured(*opening, (good, True), (bad, True))
    lines = fields(tshark, capture, "frame.number", "ikex.payload", only="ikex.decryption", keys=sa.key_file())
    assert lines == [["3", "IDi,AUTH,N"], ["4", ""]]


def test_a_row_that_lacks_the_algorithm_of_the_icv_decrypts_without_verification(tshark):
    """Wireshark's "ANY 128-bits of Authentication [No Checking]": the plaintext must be a chain of payloads."""
    sa = EncryptedSa(Random(21), "AES-CBC")
    opening = init(sa)
    sa.next_epoch()
    keys = sa.sets[0]
    name = "ANY 128-bits of Authentication [No Checking]"
    columns = [
        keys["spi_i"],
        keys["spi_r"],
        keys["sk_ei"],
        keys["sk_er"],
        '"AES-CBC-256 [RFC3602]"',
        "",
        "",
        f'"{name}"',
    ]
    parts = sa.fragments(ike.IKE_INTERMEDIATE, [ike.ke(ike.ML_KEM_768, bytes(1184))], 1, count=2)
    capture = captured(*opening, *((part, True) for part in parts))
    row = ",".join(columns)
    assert fields(tshark, capture, *NAMES, only="ikex.epoch", keys=row) == [
        ["3", "0", "False", ""],
        ["4", "0", "False", "KE"],
    ]
    text = "The key file lacks the algorithm of the ICV: integrity not checked"
    assert (4, text) in findings(tshark, capture, keys=row)


def test_a_wrong_key_shows_no_payloads_but_a_finding(tshark):
    sa = EncryptedSa(Random(6))
    opening = init(sa)
    sa.next_epoch()
    message = sa.message(ike.IKE_AUTH, AUTH, 1)
    wrong = json.loads(sa.key_file())
    wrong["key_sets"][0]["sk_ei"] = wrong["key_sets"][0]["sk_er"]
    capture = captured(*opening, (message, True))
    names = ("frame.number", "ikex.payload", "ikex.decryption")
    lines = fields(tshark, capture, *names, only="frame.number == 3", keys=json.dumps(wrong))
    assert lines == [["3", "", "no matching key"]]
    reported = findings(tshark, capture, keys=json.dumps(wrong))
    assert (3, "None of the keys of this IKE SA decrypts the message") in reported


@pytest.mark.parametrize("cipher", ["AES-CBC", "AES-CTR"])
def test_a_wrong_encryption_key_with_the_right_integrity_key_is_named(tshark, cipher):
    sa = EncryptedSa(Random(11), cipher)
    opening = init(sa)
    sa.next_epoch()
    message = sa.message(ike.IKE_AUTH, AUTH, 1)
    wrong = json.loads(sa.key_file())
    wrong["key_sets"][0]["sk_ei"] = wrong["key_sets"][0]["sk_er"]
    capture = captured(*opening, (message, True))
    reported = findings(tshark, capture, keys=json.dumps(wrong))
    text = "SK_ei is wrong: the integrity check passes with SK_ai, but decryption gives no valid padding or payloads"
    assert (3, text) in reported


def test_fragments_of_two_ike_sas_are_reassembled_in_any_order(tshark):
    """The last fragments come first, one comes twice; hosts and message IDs of both IKE SAs are the same."""
    first, second = EncryptedSa(Random(7)), EncryptedSa(Random(8))
    datagrams = [*init(first), *init(second)]
    for sa in (first, second):
        sa.next_epoch()
    certificate = (ike.CERT, bytes([4]) + bytes(900))
    parts = [sa.fragments(ike.IKE_AUTH, [certificate, *AUTH], 1, count=3) for sa in (first, second)]
    order = [(0, 2), (1, 2), (0, 0), (1, 1), (1, 1), (0, 1), (1, 0)]
    capture = captured(*datagrams, *((parts[index][number], True) for index, number in order))
    names = (
        "frame.number",
        "ikex.handshake",
        "ikex.fragment",
        "ikex.fragments",
        "ikex.payload",
        "isakmp.auth.method",
    )
    assert fields(tshark, capture, *names, only="ikex.fragment", keys=first.key_file(second)) == [
        ["5", "1", "3", "3", "", ""],
        ["6", "2", "3", "3", "", ""],
        ["7", "1", "1", "3", "", ""],
        ["8", "2", "2", "3", "", ""],
        ["9", "2", "2", "3", "", ""],
        ["10", "1", "2", "3", "CERT,IDi,AUTH,N", "2"],
        ["11", "2", "1", "3", "CERT,IDi,AUTH,N", "2"],
    ]


def test_a_fragment_of_a_larger_size_that_comes_late_is_ignored(tshark):
    """RFC 7383, section 2.6: fragments with a smaller total than before are discarded."""
    sa = EncryptedSa(Random(10))
    opening = init(sa)
    sa.next_epoch()
    larger, smaller = (sa.fragments(ike.IKE_AUTH, AUTH, 1, count=count) for count in (2, 3))
    order = [larger[0], smaller[0], smaller[1], larger[1], smaller[2]]
    capture = captured(*opening, *((part, True) for part in order))
    names = ("frame.number", "ikex.fragments", "ikex.transmission", "ikex.payload")
    assert fields(tshark, capture, *names, only="ikex.fragment", keys=sa.key_file()) == [
        ["3", "2", "1", ""],
        ["4", "3", "2", ""],
        ["5", "3", "2", ""],
        ["6", "2", "1", ""],
        ["7", "3", "2", "IDi,AUTH,N"],
    ]


def test_keys_of_the_last_epoch_alone_decrypt_its_messages(tshark):
    """Messages of other epochs are not decrypted; the epoch of the decrypted ones is correct."""
    last = json.loads(keys_of("pq-mlkem768-psk"))
    del last["key_sets"][0]
    lines = fields(
        tshark,
        PQ,
        "frame.number",
        "ikex.epoch",
        "ikex.decryption",
        only="ikex.decryption",
        keys=json.dumps(last),
    )
    chosen = "decrypted, integrity checked"
    missing = "the keys from before its last IKE_INTERMEDIATE exchange are missing or wrong"
    assert lines == [[str(number), "", f"no matching key: {missing}"] for number in (4, 5, 6)] + [
        [n, "1", chosen] for n in ("7", "8")
    ]
    text = f"None of the keys of this IKE SA decrypts the message: {missing}"
    assert [found for found in findings(tshark, PQ, keys=json.dumps(last)) if found[1].startswith("None of")] == [
        (number, text) for number in (4, 5, 6)
    ]


def test_missing_keys_of_the_last_epoch_are_named(tshark):
    first = json.loads(keys_of("pq-mlkem768-psk"))
    del first["key_sets"][1]
    names = ("frame.number", "ikex.epoch", "ikex.decryption")
    lines = fields(tshark, PQ, *names, only="ikex.decryption", keys=json.dumps(first))
    missing = "no matching key: the keys from after its last IKE_INTERMEDIATE exchange are missing or wrong"
    assert lines == [[n, "0", "decrypted, integrity checked"] for n in ("4", "5", "6")] + [
        [n, "", missing] for n in ("7", "8")
    ]


def test_followup_key_exchanges_are_linked_and_checked(tshark):
    """N(ADDITIONAL_KEY_EXCHANGE) links IKE_FOLLOWUP_KE to CREATE_CHILD_SA; the new IKE SA links to the replaced one."""
    rng = Random(9)
    sa = EncryptedSa(rng)
    opening = init(sa)
    sa.next_epoch()
    agreed = sa.proposal(ike.Transform(ike.ADDKE2, ike.ML_KEM_1024))
    new = [rng.randbytes(8), rng.randbytes(8)]

    def offer(spi):
        return ike.Proposal(agreed.transforms, protocol=1, spi=spi)

    public = ike.ke(ike.CURVE25519, bytes(range(32)))
    link = ike.notify(ike.ADDITIONAL_KEY_EXCHANGE, b"link")
    kind, follow = ike.CREATE_CHILD_SA, ike.IKE_FOLLOWUP_KE
    request = sa.message(kind, [ike.sa([offer(new[0])]), ike.nonce(bytes(32)), public], 2)
    response = sa.message(kind, [ike.sa([offer(new[1])]), ike.nonce(bytes(32)), public, link], 2, response=True)
    followup_request = sa.message(follow, [ike.ke(ike.ML_KEM_1024, rng.randbytes(1567)), link], 3)
    followup_response = sa.message(follow, [ike.ke(ike.ML_KEM_768, rng.randbytes(1088))], 3, response=True)
    flags = ike.INITIATOR
    later = ike.encrypted(*new, ike.INFORMATIONAL, flags, 0, 0, rng.randbytes(32))
    capture = captured(
        *opening,
        (request, True),
        (response, False),
        (followup_request, True),
        (followup_response, False),
        (later, True),
    )
    names = (
        "frame.number", "ikex.ke.method", "ikex.ke.slot", "ikex.ke.length_ok", "ikex.ke.negotiated", "ikex.additional.linked_to",
        "ikex.additional.link", "ikex.replaces",
    )  # fmt: skip
    assert fields(tshark, capture, *names, only="frame.number > 2", keys=sa.key_file()) == [
        ["3", "31", "0", "True", "", "", "", ""],
        ["4", "31", "0", "True", "", "", "6c696e6b", ""],
        ["5", "37", "2", "False", "True", "4", "6c696e6b", ""],
        ["6", "36", "2", "True", "False", "4", "", ""],
        ["7", "", "", "", "", "", "", "1"],
    ]
    assert findings(tshark, capture, keys=sa.key_file()) == [
        (5, "ML-KEM-1024 encapsulation key of 1567 bytes instead of 1568"),
        (6, "Key exchange with ML-KEM-768, but ML-KEM-1024 was negotiated"),
        (7, "The capture has no response to this request"),
    ]


def test_an_encapsulation_key_above_the_modulus_is_reported(tshark):
    """The key has the coefficient 3329, which is not below the modulus (FIPS 203, 7.2)."""
    sa = EncryptedSa(Random(10))
    opening = init(sa, ike.Transform(ike.ADDKE1, ike.ML_KEM_512))
    sa.next_epoch()
    good = bytes([0x00, 0x0D, 0xD0]) * 256 + bytes(32)  # 3328 and 3328
    wrong = bytes([0x01, 0x0D, 0x00]) + good[3:]
    datagrams = [
        (sa.message(ike.IKE_INTERMEDIATE, [ike.ke(ike.ML_KEM_512, key)], number), True)
        for number, key in enumerate((good, wrong), 1)
    ]
    capture = captured(*opening, *datagrams)
    lines = fields(tshark, capture, "frame.number", "ikex.ke.modulus_ok", only="ikex.epoch", keys=sa.key_file())
    assert lines == [["3", "True"], ["4", "False"]]
    text = "1 coefficients of the ML-KEM-512 encapsulation key are not below 3329 (FIPS 203, 7.2)"
    assert (4, text) in findings(tshark, capture, keys=sa.key_file())


@pytest.mark.turns
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "not valid JSON"),
        ('{"schema": "ikeanalyze.keys/2"}', "the schema is not ikeanalyze.keys/1"),
        ('[{"sk_ei": ""}]', "SK_ei and SK_er are missing; ignored"),
        ('[{"sk_ei": "00", "sk_er": "11", "spi_i": "ab"}]', "an SPI does not have 16 hexadecimal digits; ignored"),
        ('[{"sk_ei": "secret", "sk_er": "11"}]', "SK_ei and SK_er are missing; ignored"),
        ("[" * 100, "nested too deeply"),
        ("ab,cd,ef\n", "the row does not have eight columns; ignored"),
        ("ab,cd\n", "invalid IKEv1 key; ignored"),
        ("hello\nworld\n", "line 1: neither a row of Wireshark's key tables nor a line of a log; ignored"),
        ("# a comment\n", "contains no key"),
        (b"\x1f\x8bgzip", "convert it with `ikeanalyze keys FILE --to json`"),
        (lzma.compress(b"xz"), "convert it with `ikeanalyze keys FILE --to json`"),
        (bz2.compress(b"bzip2"), "convert it with `ikeanalyze keys FILE --to json`"),
        ('{"MESSAGE":"some text","THREAD":"99999999999999999999","GROUP":"IKE","_PID":{}}\n', "neither a row"),
        ('{"MESSAGE":[300, -1, 1.5]}\n', "contains no key; a log of charon needs"),
        ('{"log":"some text\\n"}\n', "neither a row of Wireshark's key tables nor a line of a log; ignored"),
    ],
)
def test_a_bad_key_file_is_reported_once_without_secrets(tshark, content, expected):
    """One line describes the problem without anything that may be a key; the statistics still work."""
    done = run_plugin(tshark, PQ, "-q", "-z", "ikex,handshakes", keys=content)
    problems = [line for line in done.stderr.splitlines() if line.startswith("ikex: ")]
    assert len(problems) == 1
    assert expected in problems[0]
    assert "secret" not in problems[0]
    assert done.lines[0].startswith("IKE handshakes")


def test_a_key_file_in_the_home_folder(tshark):
    """The preference is no command line, where a shell replaces "~"."""
    with tshark.room() as room:
        room.put("home/.local/lib/wireshark/plugins", PLUGIN)
        room.put("home/keys", keys_of(PQ.name))
        options = ("-o", "ikex.keys:~/keys", "-Y", "ikex.verified", "-Tfields", "-e", "frame.number")
        done = room.run(*options, capture=PQ, own_config=False)
    assert (done.stderr, len(done.lines)) == ("", 5)


def test_no_keys_for_an_ike_sa_are_no_warning(tshark):
    """Keys of another IKE SA; only keys of the IKE SA itself that do not fit are a finding."""
    other = EncryptedSa(Random(30))
    other.next_epoch()
    lines = fields(tshark, PQ, "ikex.decryption", only="ikex.decryption", keys=other.key_file())
    assert lines == [["no keys for this IKE SA"]] * 5
    assert not [text for _, text in findings(tshark, PQ, keys=other.key_file()) if "keys" in text]


def test_the_log_of_charon_is_a_key_file(tshark):
    """The nonces in the log tell the IKE SA, also of the one that rekeying made, whose SPIs the log lacks."""
    log = gzip.decompress((LAB / "followup.initiator.log.gz").read_bytes())
    names = ("frame.number", "ikex.handshake", "ikex.epoch", "ikex.verified")
    lines = fields(tshark, LAB / "followup.pcapng", *names, only="ikex.epoch", keys=log)
    assert [line[1:] for line in lines] == [["1", "0", "True"]] * 3 + [["1", "1", "True"]] * 16 + [
        ["2", "0", "True"]
    ] * 2


EPOCHS_OF_PQ = ["0", "0", "0", "1", "1"]


def _log_of_pq():
    return gzip.decompress((CAPTURES / "pq-mlkem768-psk.charon.log.gz").read_bytes()).decode("latin-1").splitlines()


def test_logs_of_two_daemons_are_interleaved(tshark):
    """Both daemons number their threads alike; a merged log names their processes."""
    logs = [
        [line.replace(line.split(" ")[0], f"Nov 21 12:00:00 host charon[{process}]:") for line in _log_of_pq()]
        for process in (812, 913)
    ]
    merged = "\n".join(line for pair in zip(*logs, strict=True) for line in pair)
    assert fields(tshark, PQ, "ikex.epoch", only="ikex.epoch", keys=merged) == [[epoch] for epoch in EPOCHS_OF_PQ]


def test_further_lines_of_a_dump_in_the_journal_have_no_prefix(tshark):
    """charon-systemd writes a dump as one message; journalctl indents its further lines."""
    lines = [re.sub(r"^\S+ \d\d\[[A-Z]{3}\] ", "", line) for line in _log_of_pq()]
    prefix = "Nov 21 12:00:00 host charon-systemd[812]: "
    log = "\n".join((" " * len(prefix) if re.match(" *[0-9]+: ", line) else prefix) + line for line in lines)
    assert fields(tshark, PQ, "ikex.epoch", only="ikex.epoch", keys=log) == [[epoch] for epoch in EPOCHS_OF_PQ]


@pytest.mark.turns
@pytest.mark.parametrize("name", WRAPPED)
def test_logs_of_containers_and_machines(tshark, name):
    log = WRAPPED[name](lines("pq-mlkem768-psk.charon"))
    assert fields(tshark, PQ, "ikex.epoch", only="ikex.epoch", keys=log) == [[epoch] for epoch in EPOCHS_OF_PQ]


@pytest.mark.turns
@pytest.mark.parametrize("name", ["journalctl-252.json", "journalctl-252-all.json", "journalctl-252.verbose"])
def test_what_journalctl_writes(tshark, name):
    log = gzip.decompress((LOGS / f"{name}.gz").read_bytes())
    assert fields(tshark, PQ, "ikex.epoch", only="ikex.epoch", keys=log) == [[epoch] for epoch in EPOCHS_OF_PQ]


@pytest.mark.turns
@pytest.mark.parametrize("end", ["", "cut", "damaged"])
def test_the_export_format_of_the_journal(tshark, end):
    entries = gzip.decompress((LOGS / "journalctl-252-all.json.gz").read_bytes()).splitlines()
    log = export_journal(entries)
    if end == "cut":  # inside the last keys
        log = log[: log.rindex(b"Sk_pr secret => ") + 40]
    elif end == "damaged":  # a length that is none, in an entry without keys
        log = log.replace(b"\n\n", b"\n\nMESSAGE\n" + b"\xff" * 8 + b"\n\n", 1)
    assert fields(tshark, PQ, "ikex.epoch", only="ikex.epoch", keys=log) == [[epoch] for epoch in EPOCHS_OF_PQ]


@pytest.mark.turns
@pytest.mark.parametrize("name", TWO_DAEMONS)
def test_daemons_whose_threads_have_the_same_numbers(tshark, name):
    recorded = [of_one_thread(lines(f"{log}.charon")) for log in ("psk-classic", "pq-mlkem768-psk")]
    queues = [[prefix + line for line in log] for prefix, log in zip(TWO_DAEMONS[name], recorded, strict=True)]
    merged = b"\n".join(line for pair in zip_longest(*queues) for line in pair if line is not None)
    assert fields(tshark, PQ, "ikex.epoch", only="ikex.epoch", keys=merged) == [[epoch] for epoch in EPOCHS_OF_PQ]


@pytest.mark.turns
@pytest.mark.parametrize("change", ["repeated messages", "all lines twice"])
def test_what_two_loggers_write_to_one_log(tshark, change):
    log = b"\n".join(MUTATIONS[change](lines("pq-mlkem768-psk.charon"), Random()))
    assert fields(tshark, PQ, "ikex.epoch", only="ikex.epoch", keys=log) == [[epoch] for epoch in EPOCHS_OF_PQ]


def test_key_files_in_utf_16(tshark):
    """Windows PowerShell writes redirected output so."""
    keys = keys_of("pq-mlkem768-psk")
    for text in (keys.decode() if isinstance(keys, bytes) else keys, "\n".join(_log_of_pq())):
        found = fields(tshark, PQ, "ikex.epoch", only="ikex.epoch", keys=text.encode("utf-16"))
        assert found == [[epoch] for epoch in EPOCHS_OF_PQ]


def test_the_log_of_libreswan_is_a_key_file(tshark):
    log = gzip.decompress((CAPTURES / "tcp-psk.pluto.log.gz").read_bytes())
    lines = fields(tshark, CAPTURES / "tcp-psk.pcap", *NAMES, only="ikex.epoch", keys=log)
    assert lines == [
        ["8", "0", "True", "IDi,IDr,AUTH,SA,TSi,TSr"],
        ["9", "0", "True", "IDr,AUTH,N"],
        ["10", "0", "True", "D"],
        ["11", "0", "True", ""],
    ]


def test_the_info_column_names_the_payloads(tshark):
    """With keys, in any profile; versions that lack the exchange type do not show "Unknown 43" next to it."""
    lines = run_plugin(tshark, PQ, keys=keys_of("pq-mlkem768-psk")).lines
    assert [line.partition(" IKE_")[2] for line in lines[3:6]] == [
        "INTERMEDIATE request, fragment 1/2",
        "INTERMEDIATE request, fragment 2/2, KE(ML-KEM-768)",
        "INTERMEDIATE response, KE(ML-KEM-768)",
    ]
    assert lines[7].endswith(
        "IKE_AUTH response, IDr, AUTH, SA, TSi, TSr, N(MOBIKE_SUPPORTED), N(ADDITIONAL_IP4_ADDRESS)"
    )
    assert not any("Unknown 43" in line for line in lines)
    off = run_plugin(tshark, PQ, "-o", "ikex.info:FALSE", keys=keys_of("pq-mlkem768-psk")).lines
    assert not any("KE(ML-KEM-768)" in line for line in off)


def test_keys_without_spis_decrypt_a_rekeyed_ike_sa(tshark):
    """Its cipher is the one that the decrypted CREATE_CHILD_SA exchange negotiated, if the keys name none."""
    document = json.loads((LAB / "followup.keys.json").read_text())
    for keys in document["key_sets"]:
        keys["encryption"] = keys["integrity"] = None
    assert [keys["spi_i"] for keys in document["key_sets"]][2] is None
    names = ("frame.number", "ikex.handshake", "ikex.verified")
    lines = fields(tshark, LAB / "followup.pcapng", *names, only="ikex.epoch", keys=json.dumps(document))
    assert lines[-2:] == [["24", "2", "True"], ["25", "2", "True"]]


@pytest.mark.parametrize("name", ["ikev1_mode-main", "ikev1_mode-aggressive", "ikev1-xauth"])
@pytest.mark.parametrize("source", ["keys.json", "initiator.log.gz"])
def test_ikev1_is_decrypted(tshark, name, source):
    """The frames that `ikeanalyze` decrypts; IKEv1 has no ICV."""
    path = LAB / f"{name}.{source}"
    keys = gzip.decompress(path.read_bytes()) if source.endswith("gz") else path.read_bytes()
    capture = LAB / f"{name}.pcapng"
    analysis = ikeanalyze.read(capture, keys=[path])
    opened = analysis.messages.filter(pl.col("decrypted")).select("message")
    expected = analysis.frames.filter(~pl.col("capture_duplicate")).join(opened, on="message")["number"]
    lines = fields(tshark, capture, "frame.number", "ikex.verified", only="ikex.verified", keys=keys)
    assert lines == [[str(number), "False"] for number in sorted(expected)]
    assert lines


def test_ikev1_in_fragments_is_decrypted(tshark):
    """Aggressive mode with RSA signatures: its messages 2, in the clear, and 3, encrypted, have three fragments each.

    The payloads are those that Wireshark itself shows with the key, and the frames those that `ikeanalyze` decrypts.
    """
    capture, path = DATA / "ikev1-aggressive-rsa.pcapng", DATA / "ikev1-aggressive-rsa.keys.json"
    [key] = json.loads(path.read_text())["phase1"]
    table = {"ikev1_decryption_table": f"{key['cookie_i']},{key['key']}\n"}
    columns = ("-Tfields", "-e", "frame.number", "-e", "isakmp.typepayload")
    expected = [line.split("\t") for line in tshark.run(*columns, capture=capture, config=table).lines]
    names = ("frame.number", "isakmp.typepayload", "ikex.payload", "ikex.verified", "ikex.outcome")
    lines = fields(tshark, capture, *names, keys=path.read_text())
    assert [line[:2] for line in lines] == expected
    assert [line[2] for line in lines] == [
        "SA,KE,No,ID,CR,V,V,V,V,V",
        *["", "", "SA,KE,No,ID,CERT,CR,V,V,V,V,NAT-D,NAT-D,SIG"],
        *["", "", "CERT,NAT-D,NAT-D,SIG"],
        *["HASH,SA,No,ID,ID"] * 2,
        "HASH",
        *["HASH,D"] * 2,
    ]
    analysis = ikeanalyze.read(capture, keys=[path])
    opened = analysis.messages.filter(pl.col("decrypted")).select("message")
    decrypted = sorted(analysis.frames.join(opened, on="message")["number"])
    assert [int(line[0]) for line in lines if line[3] == "False"] == decrypted
    assert {line[4] for line in lines} == {"established"}
    assert not [text for _, text in findings(tshark, capture, keys=path.read_text()) if "key" in text]


LONG = ikev1.CERT, b"\x04" + bytes(range(256)) * 6


class FragmentedPhase(Phase):
    """Main mode until its fifth message, of the initiator, which has five fragments; and the sixth, which has none."""

    def __init__(self):
        super().__init__()
        self.sender = type(self.sender)()  # which has encrypted nothing yet
        self.fifth = self.sender.send(ikev1.MAIN_MODE, 0, [NAME, LONG, self.sender.hash_payload()])
        self.fragments = ikev1.fragments(self.fifth, 400)
        assert len(self.fragments) == 5
        self.sixth = self.sender.send(ikev1.MAIN_MODE, 0, [NAME, self.sender.hash_payload()])

    def capture(self, *sent, clear=None):
        """`sent`: messages of the initiator after the first four, a second apart."""
        trace = Trace()
        for number, message in enumerate(self.clear if clear is None else clear):
            trace.send(number * 10 * MS, message, from_initiator=number % 2 == 0)
        for number, message in enumerate(sent, 1):
            trace.send(number * SECOND, message)
        trace.send((len(sent) + 1) * SECOND, self.sixth, from_initiator=False)
        return trace.pcap()


@pytest.mark.turns
@pytest.mark.parametrize(
    ("sent", "completed"),
    [
        ((1, 2, 3, 4, 5), 9),
        ((5, 3, 1, 4, 2), 9),
        ((1, 2, 3, 4, 5, 1, 2, 3, 4, 5), 9),
        ((1, 2, 5, 2, 3, 4), 10),
    ],
    ids=["in order", "in any order", "sent twice", "sent twice with losses"],
)
def test_fragments_of_ikev1_are_reassembled(tshark, sent, completed):
    phase = FragmentedPhase()
    capture = phase.capture(*(phase.fragments[number - 1] for number in sent))
    names = ("frame.number", "ikex.verified", "ikex.payload")
    lines = fields(tshark, capture, *names, only="frame.number > 4", keys=phase.table())
    last = 4 + len(sent) + 1
    payloads = {completed: "ID,CERT,HASH", last: "ID,HASH"}
    assert lines == [[str(number), "False", payloads.get(number, "")] for number in range(5, last + 1)]


@pytest.mark.turns
@pytest.mark.parametrize("missing", [1, 3, 5])
def test_a_message_of_ikev1_that_lacks_a_fragment_is_not_decrypted(tshark, missing):
    """Nor is the next one, which needs its last block."""
    phase = FragmentedPhase()
    capture = phase.capture(*(part for number, part in enumerate(phase.fragments, 1) if number != missing))
    names = ("frame.number", "ikex.payload", "ikex.decryption")
    lines = fields(tshark, capture, *names, only="frame.number > 4", keys=phase.table())
    assert lines == [
        *([str(number), "", "fragments of the message are missing"] for number in range(5, 9)),
        ["9", "", "no matching key"],
    ]


@pytest.mark.turns
def test_fragments_of_two_messages_of_main_mode(tshark):
    """All messages of main mode have the same message ID: here the third, in the clear, and the fifth have fragments.

    Copies of the third after the fifth do not count as another message.
    """
    phase = FragmentedPhase()
    third = ikev1.fragments(phase.clear[2], 100)
    assert len(third) == 2
    sent = [*third, phase.clear[3], *phase.fragments, *third]
    trace = Trace()
    for number, message in enumerate([*phase.clear[:2], *sent]):
        trace.send(number * 10 * MS, message, from_initiator=message not in (phase.clear[1], phase.clear[3]))
    trace.send(SECOND, phase.sixth, from_initiator=False)
    names = ("frame.number", "ikex.decryption", "ikex.payload")
    lines = fields(tshark, trace.pcap(), *names, keys=phase.table())
    whole = "decrypted, integrity not checked"
    assert lines == [
        *[["1", "", "SA"], ["2", "", "SA"], ["3", "", ""], ["4", "", "KE,No"], ["5", "", "KE,No"]],
        *([str(number), whole, ""] for number in range(6, 10)),
        *[["10", whole, "ID,CERT,HASH"], ["11", "", ""], ["12", "", ""], ["13", whole, "ID,HASH"]],
    ]


@pytest.mark.turns
def test_a_message_of_ikev1_without_fragments_and_in_fragments_is_one_message(tshark):
    """Without fragments of IKE, it has two of IP."""
    phase = FragmentedPhase()
    capture = phase.capture(phase.fifth, *phase.fragments, *ikev1.fragments(phase.fifth, 1000))
    names = ("frame.number", "ikex.verified", "ikex.payload")
    lines = fields(tshark, capture, *names, only="ikex.verified", keys=phase.table())
    assert lines == [
        ["6", "False", "ID,CERT,HASH"],
        *([str(number), "False", ""] for number in range(7, 14)),
        ["14", "False", "ID,HASH"],
    ]


@pytest.mark.turns
def test_a_wrong_key_of_ikev1_is_a_finding(tshark):
    """The keys name the IKE SA by the initiator's cookie. `ikeanalyze` reports that such a key fits no message."""
    phase = FragmentedPhase()
    capture = phase.capture(*phase.fragments)
    wrong = phase.table(Random(1).randbytes(32))
    lines = fields(tshark, capture, "frame.number", "ikex.decryption", only="ikex.decryption", keys=wrong)
    assert lines == [[str(number), "no matching key"] for number in range(5, 11)]
    reported = findings(tshark, capture, keys=wrong)
    assert (10, "None of the keys of this IKE SA decrypts the message") in reported


@pytest.mark.parametrize("named", [True, False], ids=["keys with cookies", "logs without them"])
def test_peers_of_ikev1_with_different_keys(tshark, named):
    """With different pre-shared keys, the peers derive different keys: each message needs those of its sender."""
    faults = CAPTURES / "faults"
    logs = [faults / f"ikev1-wrong-psk.{side}.log.gz" for side in ("initiator", "responder")]
    keys = b"".join(gzip.decompress(path.read_bytes()) for path in logs)
    if named:
        found = [key for path in logs for key in read_keys(str(path)).phase1]
        assert (len(found), len({key.cookie_i for key in found})) == (2, 1)
        keys = "".join(f"{key.cookie_i.hex()},{key.key.hex()}\n" for key in found)
    capture = faults / "ikev1-wrong-psk.pcapng"
    names = ("ikex.sender", "ikex.payload", "ikex.verified", "ikex.outcome", "ikex.reason")
    lines = fields(tshark, capture, *names, only="ikex.verified", keys=keys)
    [(outcome, reason)] = ikeanalyze.read(capture, keys=logs).handshakes.select("outcome", "reason").rows()
    assert (outcome, reason) == ("failed", "PAYLOAD-MALFORMED")
    first, second = (
        [side, inside, "False", outcome, reason] for side, inside in (("initiator", "ID,HASH"), ("responder", "HASH,N"))
    )
    assert lines == [first, second] * 4


def test_keys_in_the_personal_folder_are_used(tshark):
    """Without a preference, the file `ikex_keys` is read when the capture is opened."""
    lines = fields(tshark, PQ, "frame.number", only="ikex.epoch", config={"ikex_keys": keys_of("pq-mlkem768-psk")})
    assert lines == [["4"], ["5"], ["6"], ["7"], ["8"]]


def test_clear_key_exchanges_are_checked_without_ciphers(tshark):
    """As in the output of `ikeanalyze decrypt`: ML-KEM data is checked in every version."""
    pq = ike.Proposal([*ike.CLASSIC.transforms, ike.Transform(ike.ADDKE1, ike.ML_KEM_768)])
    handshake = Handshake(Random(11), switch=False, proposals=(pq,))
    messages = handshake.init()
    for response in (False, True):
        size = ike.KE_BYTES[ike.ML_KEM_768][response]
        payloads = [ike.ke(ike.ML_KEM_768, bytes(size))]
        how = {"from_initiator": not response, "response": response, "message_id": 1}
        messages.append(handshake.clear(ike.IKE_INTERMEDIATE, payloads, **how))
    trace = Trace()
    trace.play(messages)
    names = ("ikex.ke.name", "ikex.ke.role", "ikex.ke.slot", "ikex.ke.modulus_ok", "ikex.ke.negotiated")
    assert fields(tshark, trace.pcap(), *names, only="ikex.exchange == IKE_INTERMEDIATE") == [
        ["ML-KEM-768", "encapsulation key", "1", "True", "True"],
        ["ML-KEM-768", "ciphertext", "1", "", "True"],
    ]


IDENTITY = {side: ike.identification(kind, b"gw") for side, kind in (("initiator", ike.ID_I), ("responder", ike.ID_R))}
PSK, CHILD, ANOTHER_AUTH_FOLLOWS = ike.auth(2, bytes(32)), ike.sa([ike.CLASSIC]), ike.notify(16405)
FIRST_AUTH = (
    [IDENTITY["initiator"], PSK, CHILD, ANOTHER_AUTH_FOLLOWS],
    [IDENTITY["responder"], PSK],
)
#: IKE_AUTH exchanges with several authentications (RFC 4739), requests and responses, and the outcome.
SEVERAL_AUTHENTICATIONS = {
    "the first of two": ([FIRST_AUTH], ""),
    "both": ([FIRST_AUTH, ([IDENTITY["initiator"], PSK], [PSK, CHILD])], "established"),
    "the initiator's second alone": ([FIRST_AUTH, ([IDENTITY["initiator"], PSK], [CHILD])], "established"),
    "a second that fails": ([FIRST_AUTH, ([IDENTITY["initiator"], PSK], [ike.notify(24)])], "failed"),
}


@pytest.mark.parametrize("case", SEVERAL_AUTHENTICATIONS)
def test_the_outcome_of_several_authentications_equals_that_of_the_report(tshark, tmp_path, case):
    exchanges, outcome = SEVERAL_AUTHENTICATIONS[case]
    sa = EncryptedSa(Random(4739))
    datagrams = init(sa)
    sa.next_epoch()
    for number, pair in enumerate(exchanges, 1):
        for response, payloads in zip((False, True), pair, strict=True):
            datagrams.append((sa.message(ike.IKE_AUTH, payloads, number, response=response), not response))
    capture = tmp_path / "capture.pcap"
    capture.write_bytes(captured(*datagrams))
    (tmp_path / "keys.json").write_text(sa.key_file())
    [reported] = ikeanalyze.read(capture, keys=[tmp_path / "keys.json"]).handshakes["outcome"].to_list()
    shown = {value for (value,) in fields(tshark, capture, "ikex.outcome", only="ikex", keys=sa.key_file())}
    assert shown == {reported or ""} == {outcome or "cut"}

"""Decryption in the plugin, where Wireshark has ciphers for Lua; and what it says where there are none."""

import json
from random import Random

import pytest

from tests.craft import MS, Handshake, Trace, ike
from tests.dissectors.asked import ask, fields, findings
from tests.dissectors.keysets import keys_of
from tests.dissectors.sealing import CIPHERS, Sealed
from tests.paths import CAPTURES

WITH_CIPHERS = pytest.mark.parametrize("tshark", ["forky"], indirect=True)
PQ = CAPTURES / "pq-mlkem768-psk.pcap"
AUTH = [ike.identification(ike.ID_I, b"one"), ike.auth(2, bytes(32)), ike.notify(16384)]
ANSWER = [ike.identification(ike.ID_R, b"other"), ike.auth(2, bytes(range(32)))]
NAMES = ("frame.number", "ikex.epoch", "ikex.verified", "ikex.payload")


def captured(*datagrams):
    """A capture with these datagrams, a millisecond apart; each with whether the initiator sent it."""
    trace = Trace(mtu=9000)
    for number, (data, from_initiator) in enumerate(datagrams):
        trace.send(number * MS, data, from_initiator=from_initiator)
    return trace.pcap()


def init(sealed, *more):
    sealed.handshake.proposals = (sealed.proposal(*more),)
    return [(message.datagrams[0], message.from_initiator) for message in sealed.handshake.init()]


@WITH_CIPHERS
def test_whole_handshake_of_two_epochs(tshark):
    """KE of IKE_INTERMEDIATE and AUTH of IKE_AUTH in clear, both verified, and nothing malformed."""
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
    everything = ask(tshark, PQ, "-V", keys=keys_of("pq-mlkem768-psk")).stdout
    assert "Malformed" not in everything
    assert "incorrect" not in everything


@WITH_CIPHERS
def test_rows_of_wiresharks_table(tshark):
    """As strongSwan's save-keys writes them: a row an epoch. From a file, and out of Wireshark's own table."""
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
    want = [["4", "0"], ["5", "0"], ["6", "0"], ["7", "1"], ["8", "1"]]
    names = ("frame.number", "ikex.epoch")
    assert fields(tshark, PQ, *names, only="ikex.epoch", keys=table) == want
    own = {"ikev2_decryption_table": table}
    assert fields(tshark, PQ, *names, only="ikex.epoch", config=own) == want
    assert fields(tshark, PQ, *names, only="ikex.epoch", config=own, options=["ikex.table_keys:FALSE"]) == []


@WITH_CIPHERS
def test_key_sets_without_spis(tshark):
    sets = (CAPTURES / "loss20-classic.keys.json").read_text()
    assert json.loads(sets)[0].keys() == {"Sk_d", "Sk_ei", "Sk_er", "Sk_pi", "Sk_pr"}
    capture = CAPTURES / "loss20-classic.pcap"
    lines = fields(tshark, capture, "ikex.handshake", "ikex.verified", only="ikex.epoch", keys=sets)
    assert {handshake for handshake, _ in lines} == {str(number) for number in range(1, 26)}
    assert {verified for _, verified in lines} == {"True"}


@WITH_CIPHERS
@pytest.mark.parametrize("cipher", CIPHERS)
def test_ciphers(tshark, cipher):
    sealed = Sealed(Random(cipher), cipher)
    opening = init(sealed)
    sealed.next_epoch()
    request = sealed.message(ike.IKE_AUTH, AUTH, 1), True
    response = sealed.message(ike.IKE_AUTH, ANSWER, 1, response=True), False
    capture = captured(*opening, request, response)
    verified = "True" if sealed.aead else "False"
    assert fields(tshark, capture, *NAMES, only="ikex.epoch", keys=sealed.key_file()) == [
        ["3", "0", verified, "IDi,AUTH,N"],
        ["4", "0", verified, "IDr,AUTH"],
    ]
    noted = findings(tshark, capture, keys=sealed.key_file())
    text = "Epoch 0 taken by order, integrity not checked"
    assert noted == ([] if sealed.aead else [(3, text), (4, text)])


@WITH_CIPHERS
def test_wrong_key(tshark):
    """It is no key that fits, and nothing is shown as payloads."""
    sealed = Sealed(Random(6))
    opening = init(sealed)
    sealed.next_epoch()
    message = sealed.message(ike.IKE_AUTH, AUTH, 1)
    wrong = json.loads(sealed.key_file())
    wrong["key_sets"][0]["sk_ei"] = wrong["key_sets"][0]["sk_er"]
    capture = captured(*opening, (message, True))
    names = ("frame.number", "ikex.payload", "ikex.decryption")
    lines = fields(tshark, capture, *names, only="frame.number == 3", keys=json.dumps(wrong))
    assert lines == [["3", "", "no key fits"]]
    noted = findings(tshark, capture, keys=json.dumps(wrong))
    assert (3, "None of the keys of this IKE SA fits") in noted


@WITH_CIPHERS
def test_fragments_in_any_order_of_two_ike_sas(tshark):
    """The last fragment first, between the same hosts, with the same message ID, and one fragment twice."""
    one, other = Sealed(Random(7)), Sealed(Random(8))
    datagrams = [*init(one), *init(other)]
    for sealed in (one, other):
        sealed.next_epoch()
    certificate = (ike.CERT, bytes([4]) + bytes(900))
    parts = [sealed.fragments(ike.IKE_AUTH, [certificate, *AUTH], 1, count=3) for sealed in (one, other)]
    order = [(0, 2), (1, 2), (0, 0), (1, 1), (1, 1), (0, 1), (1, 0)]
    capture = captured(*datagrams, *((parts[which][number], True) for which, number in order))
    names = (
        "frame.number",
        "ikex.handshake",
        "ikex.fragment",
        "ikex.fragments",
        "ikex.payload",
        "isakmp.auth.method",
    )
    assert fields(tshark, capture, *names, only="ikex.fragment", keys=one.key_file(other)) == [
        ["5", "1", "3", "3", "", ""],
        ["6", "2", "3", "3", "", ""],
        ["7", "1", "1", "3", "", ""],
        ["8", "2", "2", "3", "", ""],
        ["9", "2", "2", "3", "", ""],
        ["10", "1", "2", "3", "CERT,IDi,AUTH,N", "2"],
        ["11", "2", "1", "3", "CERT,IDi,AUTH,N", "2"],
    ]


@WITH_CIPHERS
def test_only_the_last_epochs_keys(tshark):
    """The message that they do not fit stays closed, the epoch of the others is right all the same."""
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
    fits = "by the key set whose tag fits"
    assert lines == [[str(number), "", "no key fits"] for number in (4, 5, 6)] + [[n, "1", fits] for n in ("7", "8")]


@WITH_CIPHERS
def test_follow_up_key_exchanges(tshark):
    """N(ADDITIONAL_KEY_EXCHANGE) ties IKE_FOLLOWUP_KE to its CREATE_CHILD_SA; the rekeyed IKE SA names its predecessor."""
    rng = Random(9)
    sealed = Sealed(rng)
    opening = init(sealed)
    sealed.next_epoch()
    agreed = sealed.proposal(ike.Transform(ike.ADDKE2, ike.ML_KEM_1024))
    new = [rng.randbytes(8), rng.randbytes(8)]

    def offer(spi):
        return ike.Proposal(agreed.transforms, protocol=1, spi=spi)

    public = ike.ke(ike.CURVE25519, bytes(range(32)))
    link = ike.notify(ike.ADDITIONAL_KEY_EXCHANGE, b"link")
    kind, follow = ike.CREATE_CHILD_SA, ike.IKE_FOLLOWUP_KE
    asked = sealed.message(kind, [ike.sa([offer(new[0])]), ike.nonce(bytes(32)), public], 2)
    granted = sealed.message(kind, [ike.sa([offer(new[1])]), ike.nonce(bytes(32)), public, link], 2, response=True)
    more = sealed.message(follow, [ike.ke(ike.ML_KEM_1024, rng.randbytes(1567)), link], 3)
    end = sealed.message(follow, [ike.ke(ike.ML_KEM_768, rng.randbytes(1088))], 3, response=True)
    flags = ike.INITIATOR
    later = ike.sealed(*new, ike.INFORMATIONAL, flags, 0, 0, rng.randbytes(32))
    capture = captured(*opening, (asked, True), (granted, False), (more, True), (end, False), (later, True))
    names = (
        "frame.number", "ikex.ke.method", "ikex.ke.slot", "ikex.ke.length_ok", "ikex.ke.negotiated", "ikex.additional.linked_to",
        "ikex.additional.link", "ikex.replaces",
    )  # fmt: skip
    assert fields(tshark, capture, *names, only="frame.number > 2", keys=sealed.key_file()) == [
        ["3", "31", "0", "True", "", "", "", ""],
        ["4", "31", "0", "True", "", "", "6c696e6b", ""],
        ["5", "37", "2", "False", "True", "4", "6c696e6b", ""],
        ["6", "36", "2", "True", "False", "4", "", ""],
        ["7", "", "", "", "", "", "", "1"],
    ]
    assert findings(tshark, capture, keys=sealed.key_file()) == [
        (5, "ML-KEM-1024 encapsulation key of 1567 bytes instead of 1568"),
        (6, "Key exchange with ML-KEM-768, but ML-KEM-1024 was negotiated"),
        (7, "The capture has no response to this request"),
    ]


@WITH_CIPHERS
def test_modulus(tshark):
    """An encapsulation key with the coefficient 3329 in it, which is not below the modulus (FIPS 203, 7.2)."""
    sealed = Sealed(Random(10))
    opening = init(sealed, ike.Transform(ike.ADDKE1, ike.ML_KEM_512))
    sealed.next_epoch()
    good = bytes([0x00, 0x0D, 0xD0]) * 256 + bytes(32)  # 3328 and 3328
    wrong = bytes([0x01, 0x0D, 0x00]) + good[3:]
    datagrams = [
        (sealed.message(ike.IKE_INTERMEDIATE, [ike.ke(ike.ML_KEM_512, key)], number), True)
        for number, key in enumerate((good, wrong), 1)
    ]
    capture = captured(*opening, *datagrams)
    lines = fields(tshark, capture, "frame.number", "ikex.ke.modulus_ok", only="ikex.epoch", keys=sealed.key_file())
    assert lines == [["3", "True"], ["4", "False"]]
    text = "1 coefficients of the ML-KEM-512 encapsulation key are not below 3329 (FIPS 203, 7.2)"
    assert (4, text) in findings(tshark, capture, keys=sealed.key_file())


@WITH_CIPHERS
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "no JSON"),
        ('{"schema": "ikeanalyze.keys/2"}', "its schema is not ikeanalyze.keys/1"),
        ('[{"sk_ei": "00"}]', "no SK_ei and SK_er; not used"),
        ('[{"sk_ei": "00", "sk_er": "11", "spi_i": "ab"}]', "an SPI is no 16 hexadecimal digits; not used"),
        ('[{"sk_ei": "secret", "sk_er": "11"}]', "no SK_ei and SK_er; not used"),
        ("[" * 100, "too deep"),
        ("one,two\n", "no row of eight columns; not used"),
        (b"\x1f\x8bgzip", "`ikeanalyze keys FILE --to json` makes a file for the plugin of it"),
    ],
)
def test_bad_key_files(tshark, content, said):
    """A line that says what is wrong, without what might be a key; everything else goes on."""
    done = ask(tshark, PQ, "-q", "-z", "ikex,handshakes", keys=content)
    told = [line for line in done.stderr.splitlines() if line.startswith("ikex: ")]
    assert len(told) == 1
    assert said in told[0]
    assert "secret" not in told[0]
    assert done.lines[0].startswith("IKE handshakes")


@pytest.mark.parametrize("tshark", ["host", "trixie"], indirect=True)
def test_without_ciphers(tshark):
    lines = fields(tshark, PQ, "ikex.decryption", only="ikex.decryption", keys=keys_of("pq-mlkem768-psk"))
    assert lines == [["not by this version of Wireshark: `ikeanalyze decrypt` writes the capture in clear"]] * 5


def test_clear_messages_need_no_ciphers(tshark):
    """The output of `ikeanalyze decrypt` has its payloads in clear: ML-KEM is checked there in every version."""
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

"""Which exchange carries which key exchange, and whether that is what was negotiated."""

from random import Random

import pytest

import ikeanalyze
from ikeanalyze.analysis.handshakes.contents.key_exchanges import (
    KePayloadSummary,
    KeyExchangeRow,
    collect_key_exchanges,
)
from tests.analysis.decrypt_captures import look, make_trace
from tests.analysis.encrypted_handshakes import Sa, encapsulation_key, nameless, table
from tests.analysis.recorded_captures import followup_keys
from tests.craft import ike
from tests.paths import CAPTURES

TWICE = ike.Proposal([*ike.HYBRID.transforms, ike.Transform(ike.ADDKE2, ike.ML_KEM_1024)])
RNG = Random(5)


def listed(look_or_row, *columns):
    (row,) = look_or_row.analysis.handshakes.iter_rows(named=True)
    return [tuple(key_exchange[column] for column in columns) for key_exchange in row["key_exchanges"]]


def findings(found):
    """Beside those of the capture as a whole."""
    return [(frame, value) for frame, value in found.findings if value.startswith(("KE", "payloads"))]


SHORT = ("purpose", "slot", "method", "linked_to", "request", "request_bytes", "response", "response_bytes")


def test_the_slots_of_a_set_up():
    sa = Sa(proposals=(TWICE,))
    result = look(make_trace(*sa.whole()), table(*sa.key_sets))
    # FIPS 203, table 3
    assert listed(result, *SHORT) == [
        ("IKE SA", 0, "X25519", None, "public value", 32, "public value", 32),
        ("IKE SA", 1, "ML-KEM-768", None, "encapsulation key", 1184, "ciphertext", 1088),
        ("IKE SA", 2, "ML-KEM-1024", None, "encapsulation key", 1568, "ciphertext", 1568),
    ]
    assert not result.findings


def wrong(method, request, response):
    """A set-up with HYBRID whose IKE_INTERMEDIATE has these KE payloads."""
    sa = Sa()
    messages = [
        *sa.init(),
        *sa.swap(ike.IKE_INTERMEDIATE, [ike.ke(method, request)], [ike.ke(method, response)]),
    ]
    sa.epoch = 1
    return look(make_trace(*messages, *sa.authenticated()), table(*sa.key_sets))


GOOD = encapsulation_key(RNG)
CIPHERTEXT = RNG.randbytes(1088)


def test_a_wrong_size_is_a_finding():
    result = wrong(ike.ML_KEM_768, GOOD[:-1], CIPHERTEXT + b"x")
    request, response = findings(result)
    assert request == (3, "KE: ML-KEM-768 encapsulation key of 1183 bytes instead of 1184")
    assert response == (4, "KE: ML-KEM-768 ciphertext of 1089 bytes instead of 1088")
    assert [value for (value,) in listed(result, "findings")] == [
        [],
        [value.removeprefix("KE: ") for _, value in (request, response)],
    ]
    assert result.outcomes == [("established", None)]


@pytest.mark.parametrize("coefficient", [3329, 4095])
def test_a_coefficient_that_is_too_large(coefficient):
    """FIPS 203, section 7.2: the first 12 bits are the first coefficient, low byte first."""
    bad = bytes([coefficient & 255, GOOD[1] & 0xF0 | coefficient >> 8]) + GOOD[2:]
    result = wrong(ike.ML_KEM_768, bad, CIPHERTEXT)
    ((frame, finding),) = findings(result)
    assert frame == 3
    assert "3329" in finding
    fine = bytes([3328 & 255, GOOD[1] & 0xF0 | 3328 >> 8]) + GOOD[2:]
    assert not findings(wrong(ike.ML_KEM_768, fine, CIPHERTEXT))


def test_another_method_than_the_negotiated_one():
    other = encapsulation_key(RNG, ike.ML_KEM_1024)
    result = wrong(ike.ML_KEM_1024, other, RNG.randbytes(1568))
    what = "KE: key exchange with ML-KEM-1024, but ML-KEM-768 was negotiated"
    # the request is two IP fragments
    assert findings(result) == [(3, what), (5, what)]


def test_the_first_key_exchange_is_compared_too():
    sa = Sa(proposals=(ike.CLASSIC,))
    request, response = sa.init()
    data = ike.ke(ike.CURVE25519, RNG.randbytes(32))
    offer, chosen = ike.sa([ike.CLASSIC]), ike.sa([ike.CLASSIC])
    sa.moved = False
    request = sa.clear(ike.IKE_SA_INIT, [offer, data, ike.nonce(bytes(range(32)))], spi_r=bytes(8))
    response = sa.clear(ike.IKE_SA_INIT, [chosen, data, ike.nonce(bytes(32))], from_initiator=False, response=True)
    sa.moved = True
    result = look(make_trace(request, response, *sa.authenticated()), table(*sa.key_sets))
    what = "KE: key exchange with X25519, but ECP-256 was negotiated"
    assert findings(result) == [(1, what), (2, what)]


@pytest.mark.parametrize("kinds", [[b""], [b"\0"], [b"\0\x24\0"]])
def test_a_payload_that_is_none(kinds):
    sa = Sa()
    (body,) = kinds
    messages = [
        *sa.init(),
        *sa.swap(ike.IKE_INTERMEDIATE, [(ike.KE, body)], [ike.ke(ike.ML_KEM_768, CIPHERTEXT)]),
    ]
    sa.epoch = 1
    result = look(make_trace(*messages, *sa.authenticated()), table(*sa.key_sets))
    ((frame, finding),) = findings(result)
    assert frame == 3
    assert finding.startswith("KE: ")
    assert listed(result, "slot", "request", "response")[1] == (1, None, "ciphertext")


def test_two_payloads_where_one_is_allowed():
    sa = Sa()
    ke = ike.ke(ike.ML_KEM_768, GOOD)
    messages = [*sa.init(), *sa.swap(ike.IKE_INTERMEDIATE, [ke, ke], [ike.ke(ike.ML_KEM_768, CIPHERTEXT)])]
    sa.epoch = 1
    result = look(make_trace(*messages, *sa.authenticated()), table(*sa.key_sets))
    assert findings(result) == [(3, "KE: 2 times instead of once")]


def test_a_key_exchange_that_is_not_readable_takes_its_slot():
    """With keys of later epochs only, the first IKE_INTERMEDIATE is not decrypted; the second is still slot 2."""
    sa = Sa(proposals=(TWICE,))
    messages = sa.whole()
    for trace, keys in (
        (make_trace(*messages), sa.key_sets[1:]),
        (make_trace(*messages[:2], *messages[4:]), sa.key_sets),
    ):
        result = look(trace, table(*keys))
        assert listed(result, "slot", "method", "findings") == [
            (0, "X25519", []),
            (2, "ML-KEM-1024", []),
        ]
        assert not findings(result)


def test_an_intermediate_exchange_without_a_key_exchange():
    sa = Sa()
    empty = [ike.notify(16445)]
    messages = [*sa.init(), *sa.swap(ike.IKE_INTERMEDIATE, empty, empty)]
    messages += sa.swap(ike.IKE_INTERMEDIATE, [ike.ke(36, GOOD)], [ike.ke(36, CIPHERTEXT)])
    sa.epoch = 1
    result = look(make_trace(*messages, *sa.authenticated()), nameless(*sa.key_sets))
    assert listed(result, "slot", "method", "findings") == [(0, "X25519", []), (1, "ML-KEM-768", [])]


def test_refused_key_exchanges_have_no_response():
    sa = Sa(proposals=(ike.CLASSIC,))
    messages = [*sa.init(before="INVALID_KE_PAYLOAD"), *sa.authenticated()]
    result = look(make_trace(*messages), table(*sa.key_sets))
    assert listed(result, "slot", "method", "request_bytes", "response_bytes") == [
        (0, "MODP-2048", 256, None),
        (0, "ECP-256", 64, 64),
    ]
    assert not result.findings


# ---- after the set-up


def linked(sa, kem=True, *, links=(b"one", b"one"), answer=()):
    """A CHILD_SA is made with two key exchanges after the first."""
    transforms = [
        ike.Transform(ike.ENCR, ike.ENCR_AES_GCM_16, 256),
        ike.Transform(ike.DH, ike.CURVE25519),
        ike.Transform(ike.ADDKE1, ike.ML_KEM_768),
        ike.Transform(ike.ADDKE2, ike.ML_KEM_512),
        ike.Transform(ike.ESN, 0),
    ]
    proposal = ike.sa([ike.Proposal(transforms, 3, b"spi.")])
    first, second = (ike.notify(ike.ADDITIONAL_KEY_EXCHANGE, link) for link in links)
    start = [proposal, ike.nonce(bytes(32)), ike.ke(ike.CURVE25519, RNG.randbytes(32))]
    small = encapsulation_key(RNG, ike.ML_KEM_512)
    return [
        *sa.swap(ike.CREATE_CHILD_SA, start, [*start, first]),
        *sa.swap(ike.IKE_FOLLOWUP_KE, [ike.ke(36, GOOD), first], [ike.ke(36, CIPHERTEXT), second]),
        *sa.swap(ike.IKE_FOLLOWUP_KE, [ike.ke(35, small), second], [ike.ke(35, RNG.randbytes(768))]),
    ]


@pytest.mark.parametrize("links", [(b"one", b"two"), (b"same", b"same")])
def test_followup_key_exchanges_belong_to_what_their_link_names(links):
    sa = Sa(proposals=(ike.CLASSIC,))
    messages = sa.whole()
    made = linked(sa, links=links)
    result = look(make_trace(*messages, *made), table(*sa.key_sets))
    assert listed(result, *SHORT)[1:] == [
        ("CHILD_SA", 0, "X25519", None, "public value", 32, "public value", 32),
        ("CHILD_SA", 1, "ML-KEM-768", 2, "encapsulation key", 1184, "ciphertext", 1088),
        ("CHILD_SA", 2, "ML-KEM-512", 2, "encapsulation key", 800, "ciphertext", 768),
    ]
    assert not result.findings
    # without the exchange that has the link, it is not known what they are for
    result = look(make_trace(*messages, *made[2:]), table(*sa.key_sets))
    first, second = listed(result, "purpose", "slot", "linked_to")[1:]
    assert first == second == ("not known", None, None)


#: The daemons' lines "selected proposal: IKE:.../ECP_384/KE1_ML_KEM_1024/KE2_ML_KEM_768" and
#: "ESP:.../ECP_256/.../KE1_ML_KEM_768", and the message IDs of their CREATE_CHILD_SA requests
#: (data/pq-followup-ke.generated.txt).
IKE = [(0, "ECP-384"), (1, "ML-KEM-1024"), (2, "ML-KEM-768")]
ESP = [(0, "ECP-256"), (1, "ML-KEM-768")]
RECORDED = [
    [
        *[("IKE SA", *item, None) for item in IKE],
        *[("CHILD_SA", *item, 4 if item[0] else None) for item in ESP],
        *[("rekeying", *item, 7 if item[0] else None) for item in IKE],
    ],
    [("rekeying", *item, 0 if item[0] else None) for item in IKE],
    [("CHILD_SA", *item, 0 if item[0] else None) for item in ESP],
]


def test_the_recorded_rekeyings():
    result = look(CAPTURES / "pq-followup-ke.pcap", followup_keys())
    assert not result.findings
    rows = result.analysis.handshakes["key_exchanges"].to_list()
    columns = ("purpose", "slot", "method", "linked_to")
    assert [[tuple(item[name] for name in columns) for item in row] for row in rows] == RECORDED
    assert not any(item["findings"] for row in rows for item in row)


def test_no_messages_have_no_key_exchanges():
    assert collect_key_exchanges([]) == ([], [])
    row = KeyExchangeRow(0, "IKE SA", 0, 14, None, KePayloadSummary("public value", 256, ()), None)
    assert row.response is None


def test_an_ordinary_capture_without_keys():
    analysis = ikeanalyze.read(CAPTURES / "invalid-ke.pcap", payloads=True)
    (exchanges,) = analysis.handshakes["key_exchanges"].to_list()
    assert [(exchange["request_bytes"], exchange["response_bytes"]) for exchange in exchanges][1][1] is not None
    assert exchanges[0]["response"] is None

"""Payloads as columns and forms, against the payloads that are parsed, described and checked one by one."""

import random
from pathlib import Path

import polars as pl
import pytest

from ikeanalyze.analysis.handshakes.contents.authenticated_outcome import collect_certificates, outcome_from_payloads
from ikeanalyze.analysis.handshakes.contents.handshake_contents import CaptureContents, summarise_contents
from ikeanalyze.analysis.handshakes.contents.key_exchanges import collect_key_exchanges
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.ikev2.checks import check_payload, check_payload_chain
from ikeanalyze.wire.ikev2.describe import describe_payload
from ikeanalyze.wire.ikev2.payload_size import measure_payload
from ikeanalyze.wire.payload_chain import PayloadChain
from tests.analysis.decrypt_captures import Look, look
from tests.analysis.encrypted_handshakes import CHILD, PSK, Sa, encapsulation_key, table
from tests.craft import Message, Trace, ike
from tests.paths import CAPTURES

WITH_KEYS = sorted([*CAPTURES.glob("*.keys.json"), *CAPTURES.glob("lab/*.keys.json")])
#: Distinct recordings with several handshakes, certificates, EAP, ML-KEM, fragments and rekeying.
CHANGED = ("eap-md5-radius", "pq-mlkem768-psk", "two-additional", "loss20", "rsa-chain3", "followup", "reauthenticate")


def find_capture(keys: Path) -> Path:
    (capture,) = keys.parent.glob(keys.name.removesuffix("keys.json") + "pcap*")
    return capture


def change(data: bytes, seed: int) -> bytes:
    """Some bits flipped, after the header of the file."""
    changed, choices = bytearray(data), random.Random(seed)
    for _ in range(choices.choice((1, 5, 30))):
        changed[choices.randrange(60, len(data))] ^= 1 << choices.randrange(8)
    return bytes(changed)


def summarise(capture: Path, keys: Path) -> list[CaptureContents]:
    """The contents of the capture; none if it is damaged so that it has no messages."""
    result: list[CaptureContents] = []
    read_captures(
        capture,
        ReadOptions(keys=[keys], payloads=True, on_contents=lambda *parts: result.append(summarise_contents(*parts))),
    )
    return result


def hold_messages_against_objects(contents: CaptureContents) -> None:
    columns, forms, payloads = contents.columns, contents.forms, contents.columns.payloads
    for number, content in enumerate(contents.contents.all):
        rows = range(*payloads.starts[number : number + 2].tolist())
        assert columns.exchange[number] == content.exchange
        assert columns.epoch[number] == (-1 if content.epoch is None else content.epoch)
        assert bool(columns.verified[number]) == bool(content.verified)
        if not payloads.regular[number]:
            assert not rows
            assert content.error or content.protocol != Protocol.IKEV2 or (content.encrypted and content.clear)
            continue
        assert [(item.type, item.critical, item.body) for item in map(payloads.get_payload, rows)] == [
            (item.type, item.critical, item.body) for item in content.payloads
        ]
        for row, payload in zip(rows, content.payloads, strict=True):
            form = forms.forms[forms.form[row]]
            assert form.text == describe_payload(payload)
            assert form.size == measure_payload(payload)
            assert form.has_findings == bool(check_payload(payload, response=content.response).findings)


def hold_handshakes_against_objects(contents: CaptureContents) -> None:
    """Handshakes that share facts have those that follow from their own messages; all findings are there."""
    findings = {finding for of_capture in contents.findings for finding in of_capture}
    groups = contents.contents.group_by_handshake()
    facts = dict(contents.facts.items())
    first_exchange = dict(zip(contents.facts.handshakes.tolist(), contents.first_exchange.tolist(), strict=True))
    assert facts.keys() == groups.keys()
    for handshake, messages in groups.items():
        key_exchanges, found = collect_key_exchanges(messages)
        first = first_exchange[handshake]
        assert [(row.exchange + first, row.slot, row.method) for row in facts[handshake].key_exchanges] == [
            (row.exchange, row.slot, row.method) for row in key_exchanges
        ]
        assert facts[handshake].proof == outcome_from_payloads(messages)
        assert facts[handshake].certificates == collect_certificates(messages)
        assert findings >= set(found)
        for content in messages:
            if content.protocol == Protocol.IKEV2:
                checked = check_payload_chain(PayloadChain(content.payloads, content.error), response=content.response)
                texts = {text for text in checked.findings if not text.startswith("KE: ")}
                assert findings >= {(content.frame, text) for text in texts}


@pytest.mark.exhaustive
@pytest.mark.parametrize("keys", WITH_KEYS, ids=lambda path: path.name.removesuffix(".keys.json"))
def test_columns_equal_the_objects_of_each_message(keys):
    (contents,) = summarise(find_capture(keys), keys)
    hold_messages_against_objects(contents)
    hold_handshakes_against_objects(contents)


@pytest.mark.parametrize("name", CHANGED)
def test_columns_equal_the_objects_in_damaged_captures(name, tmp_path):
    (keys,) = (path for path in WITH_KEYS if path.name == f"{name}.keys.json")
    data = find_capture(keys).read_bytes()
    for seed in range(6):
        damaged = tmp_path / "capture"
        damaged.write_bytes(change(data, seed))
        for contents in summarise(damaged, keys):
            hold_messages_against_objects(contents)
            hold_handshakes_against_objects(contents)


def exchange_keys(sa: Sa, key: bytes) -> list[Message]:
    """IKE_SA_INIT, and IKE_INTERMEDIATE with this encapsulation key of ML-KEM-768."""
    ciphertext = sa.rng.randbytes(1088)
    return [
        *sa.init(),
        *sa.swap(ike.IKE_INTERMEDIATE, [ike.ke(ike.ML_KEM_768, key)], [ike.ke(ike.ML_KEM_768, ciphertext)]),
    ]


def find_message(result: Look, frame: int | None) -> tuple[str, str, str]:
    """The initiator's SPI of the handshake, the exchange and the role of the message in a frame."""
    analysis = result.analysis
    (handshake, kind, role) = (
        analysis.messages.filter(pl.col("first_frame") == frame).select("handshake", "type", "kind").row(0)
    )
    spi = analysis.handshakes.filter(pl.col("handshake") == handshake)["spi_i"][0]
    return spi, kind, role


@pytest.mark.parametrize("coefficient", [0, 1, 500, 767])
def test_an_invalid_encapsulation_key_is_found_among_valid_ones(coefficient):
    """FIPS 203, section 7.2: every coefficient is below 3329; three bytes hold two of them."""
    sas = [Sa(seed) for seed in range(5)]
    keys = [encapsulation_key(sa.rng) for sa in sas]
    invalid = bytearray(keys[3])
    at = coefficient // 2 * 3
    first, second = invalid[at] | (invalid[at + 1] & 15) << 8, invalid[at + 1] >> 4 | invalid[at + 2] << 4
    first, second = (3329, second) if coefficient % 2 == 0 else (first, 3329)
    invalid[at : at + 3] = first & 255, first >> 8 | (second & 15) << 4, second >> 4
    keys[3] = bytes(invalid)
    trace = Trace()
    for sa, key in zip(sas, keys, strict=True):
        trace.play(exchange_keys(sa, key))
    result = look(trace, table(*(sa.key_sets[0] for sa in sas)))
    (finding,) = result.findings
    assert find_message(result, finding[0]) == (sas[3].spi_i.hex(), "IKE_INTERMEDIATE", "request")
    assert "1 of 768 coefficients of the ML-KEM-768 encapsulation key are not below 3329" in finding[1]


def test_a_public_value_of_zero_is_found_among_others():
    sas = [Sa(seed, proposals=(ike.CLASSIC,)) for seed in range(4)]
    trace = Trace()
    for number, sa in enumerate(sas):
        data = bytes(64) if number == 2 else sa.rng.randbytes(64)
        child = [*CHILD, ike.nonce(sa.rng.randbytes(32)), ike.ke(ike.ECP_256, data)]
        answer = [*CHILD, ike.nonce(sa.rng.randbytes(32)), ike.ke(ike.ECP_256, sa.rng.randbytes(64))]
        trace.play([*sa.init(), *sa.authenticated(), *sa.swap(ike.CREATE_CHILD_SA, child, answer)])
    result = look(trace, table(*(sa.key_sets[0] for sa in sas)))
    frames = [frame for frame, text in result.findings if "public value is 0" in text]
    assert [find_message(result, frame) for frame in frames] == [(sas[2].spi_i.hex(), "CREATE_CHILD_SA", "request")]


def test_identities_of_one_size_are_not_mixed_up():
    """Their handshakes share all facts, but not the texts."""
    sas = [Sa(seed, proposals=(ike.CLASSIC,)) for seed in range(4)]
    trace = Trace()
    for number, sa in enumerate(sas):
        identity = ike.identification(ike.ID_I, b"ini%d" % number)
        trace.play([*sa.init(), *sa.authenticated(request=[identity, PSK, *CHILD])])
    result = look(trace, table(*(sa.key_sets[0] for sa in sas)))
    names = [payloads[0] for payloads in result.analysis.messages["payloads"].to_list() if "IDi" in payloads[0]]
    assert names == [f"IDi(ini{number})" for number in range(4)]

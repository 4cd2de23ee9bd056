"""Payloads as columns and forms, against the payloads that are parsed, described and checked one by one."""

import random
from pathlib import Path

import pytest

from ikeanalyze.analysis.decryption.authenticated_outcome import collect_certificates, outcome_from_payloads
from ikeanalyze.analysis.decryption.handshake_contents import CaptureContents, summarise_contents
from ikeanalyze.analysis.decryption.key_exchanges import collect_key_exchanges
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.ikev2.checks import check_payload, check_payload_chain
from ikeanalyze.wire.ikev2.describe import describe_payload
from ikeanalyze.wire.ikev2.payload_size import measure_payload
from ikeanalyze.wire.payload_chain import PayloadChain
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
    assert facts.keys() == groups.keys()
    for handshake, messages in groups.items():
        key_exchanges, found = collect_key_exchanges(messages)
        first = contents.first_exchange[handshake]
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

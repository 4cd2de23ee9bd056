import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ikeanalyze.crypto.algorithms import get_encryption_name, get_integrity_name
from ikeanalyze.keys.collector import KeyCollector
from ikeanalyze.keys.json_keys import build_key_document, parse_key_document
from ikeanalyze.keys.key_set import Derivation, EspKey, KeySet, Origin, Phase1Key
from tests.keys.logs_of import RECORDED, expected, lines, plain
from tests.keys.logs_of import read as read_log

ORIGIN = Origin("x", None)


def decoded(text: str) -> KeyCollector:
    findings = KeyCollector("x")
    assert parse_key_document(json.loads(text), findings)
    return findings


octets = st.binary(max_size=70)
maybe = st.none() | octets
spis = st.none() | st.binary(min_size=8, max_size=8)
texts = st.text(max_size=20)
key_sets = st.builds(
    KeySet,
    origin=st.just(ORIGIN),
    spi_i=spis,
    spi_r=spis,
    encryption=st.none() | st.integers(0, 65535),
    integrity=st.none() | st.integers(0, 65535),
    sk_ei=st.binary(min_size=1, max_size=40),
    sk_er=octets,
    sk_ai=octets,
    sk_ar=octets,
    sk_d=maybe,
    sk_pi=maybe,
    sk_pr=maybe,
    unchecked_icv=st.none() | st.integers(0, 32),
    no_salt=st.booleans(),
    derivation=st.none()
    | st.builds(Derivation, maybe, st.lists(octets, max_size=3).map(tuple), maybe, maybe, st.none() | texts),
)
phase1 = st.builds(Phase1Key, st.just(ORIGIN), st.binary(min_size=8, max_size=8), st.binary(min_size=1, max_size=32))
esp = st.builds(
    EspKey,
    st.just(ORIGIN),
    texts,
    texts,
    texts,
    st.none() | st.integers(0, 2**32 - 1),
    texts,
    octets,
    texts,
    octets,
)


@given(st.lists(key_sets, max_size=3), st.lists(phase1, max_size=2), st.lists(esp, max_size=2))
def test_what_is_written_is_read(sets, one, two):
    findings = decoded(json.dumps(build_key_document(sets, one, two)))
    assert (findings.key_sets, findings.phase1, findings.esp) == (sets, one, two)
    assert findings.warnings == []
    assert findings.formats == ["ikeanalyze JSON"]


def test_keys_of_a_log_survive_json():
    sets = read_log(lines("charon-6.1-followup.i"))[0].key_sets
    again = decoded(json.dumps(build_key_document(sets, [], []))).key_sets
    assert again == [replace(keys, origin=ORIGIN) for keys in sets]


@pytest.mark.parametrize("name", RECORDED)
def test_plain_lists_of_key_sets_are_read(name):
    findings = decoded(json.dumps(expected(name)))
    assert plain(findings.key_sets) == expected(name)
    assert findings.formats == ["list of key sets in JSON"]


def test_fields_of_a_document_written_by_hand():
    findings = decoded(
        """{"schema": "ikeanalyze.keys/1", "key_sets": [
            {"spi_i": "0x904A132D2B087803", "encryption": "AES-GCM-16", "integrity": "NONE", "sk_ei": "00ff", "sk_er": "ff00"},
            {"encryption": 12, "integrity": "12", "sk_ei": "00"},
            {"encryption": "NULL", "integrity": "HMAC-SHA2-256-96"}]}"""
    )
    one, two, three = findings.key_sets
    assert (one.spi_i.hex(), one.spi_r, one.encryption, one.integrity) == ("904a132d2b087803", None, 20, 0)
    assert (two.encryption, two.integrity, two.sk_er) == (12, 12, b"")
    assert (three.encryption, three.integrity) == (11, 1027)
    assert findings.warnings == []


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ("5", "Expected `object`, got `int`"),
        ("{}", "has neither"),
        ('{"sk_ei": "0"}', '"sk_ei": not whole bytes'),
        ('{"sk_ei": 5}', '"sk_ei": not whole bytes'),
        ('{"sk_ei": "5eC4e700", "spi_i": "00"}', '"spi_i": 1 bytes instead of 8'),
        ('{"sk_ei": "5eC4e700", "encryption": "AES"}', '"encryption": not the IANA name'),
        ('{"sk_ei": "5eC4e700", "encryption": true}', '"encryption": not a transform ID'),
        ('{"sk_ei": "5eC4e700", "integrity": 65536}', '"integrity": not a transform ID'),
        ('{"sk_ei": "5eC4e700", "unchecked_icv": -1}', '"unchecked_icv": Expected `int` >= 0'),
        ('{"sk_ei": "5eC4e700", "derivation": []}', '"derivation": Expected `object | null`, got `array`'),
        (
            '{"sk_ei": "5eC4e700", "derivation": {"additional": "00"}}',
            '"derivation.additional": Expected `array`, got `str`',
        ),
        (
            '{"sk_ei": "5eC4e700", "derivation": {"additional": ["00", "5eC4e7"]}, "sk_d": "5eC4e"}',
            '"sk_d": not whole bytes',
        ),
        ('{"sk_ei": "5eC4e700", "derivation": {"prf": 5}}', '"derivation.prf": Expected `str | null`, got `int`'),
    ],
)
def test_bad_sets_are_warnings_and_the_rest_is_used(item, why):
    findings = decoded(f'{{"schema": "ikeanalyze.keys/1", "key_sets": [{item}, {{"sk_ei": "00"}}]}}')
    assert len(findings.key_sets) == 1
    (warning,) = findings.warnings
    assert warning.message.startswith("key set 1: ")
    assert why in warning.message
    assert "5ec4" not in warning.message.lower()


def test_nulls_and_deeply_nested_unknown_keys_are_ignored():
    nested = '{"a": ' * 400 + "null" + "}" * 400
    findings = decoded(
        f"""{{"schema": "ikeanalyze.keys/1", "key_sets": [{{"sk_ei": "00", "sk_ai": null, "no_salt": null, "unknown": {nested},
            "derivation": {{"secret": null, "additional": ["01", null], "prf": null}}}}]}}"""
    )
    (keys,) = findings.key_sets
    assert (keys.sk_ai, keys.no_salt) == (b"", False)
    assert keys.derivation == Derivation(None, (b"\1",), None, None, None)
    assert findings.warnings == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"schema": "ikeanalyze.keys/1", "phase1": [{"key": "00"}]}', "missing required field `cookie_i`"),
        ('{"schema": "ikeanalyze.keys/1", "esp": [{"spi": "00000001"}]}', "missing required field `protocol`"),
        ('{"schema": "ikeanalyze.keys/1", "esp": {}}', '"esp" is not a list'),
    ],
)
def test_malformed_entries_are_reported(text, why):
    assert why in decoded(text).warnings[0].message


@pytest.mark.parametrize(
    "text", ["{}", "[]", "5", "null", '[{"a": 1}]', '{"schema": 5}', '{"schema": "ikeanalyze.report/1"}']
)
def test_other_documents_are_rejected(text):
    findings = KeyCollector("x")
    assert not parse_key_document(json.loads(text), findings)
    assert findings.warnings == []


def test_a_later_schema_is_reported():
    findings = KeyCollector("x")
    assert not parse_key_document({"schema": "ikeanalyze.keys/2"}, findings)
    assert "later ikeanalyze" in findings.warnings[0].message


def test_algorithms_are_named_and_unknown_ones_numbered():
    assert [get_encryption_name(n) for n in (20, 999, None)] == ["AES-GCM-16", "999", None]
    assert [get_integrity_name(n) for n in (12, 1027, 999, None)] == [
        "HMAC-SHA2-256-128",
        "HMAC-SHA2-256-96",
        "999",
        None,
    ]

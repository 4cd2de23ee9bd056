import json
from dataclasses import replace

import polars as pl
import pytest

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.result import ACCOUNTING
from ikeanalyze.render.report import document
from tests.render.analysis_examples import START, analysis, summary
from tests.render.handshake_examples import BAD_KEY

# The keys of the contract, in its order; what we add stands behind them.
HANDSHAKE = [
    "id",
    "capture",
    "protocol",
    "spi_i",
    "spi_r",
    "initiator",
    "responder",
    "nat",
    "tunnel",
    "start_time",
    "outcome",
    "reason",
    "auth",
    "proposal",
    "links",
    "phases",
    "exchanges",
    "setup_ms",
    "initiator_setup_ms",
    "breakdown",
    "diagnosis",
    "retransmissions",
    "blowup",
    "fragmentation",
]
CAPTURE = [
    "path",
    "format",
    "packets",
    "bytes",
    "first_time",
    "last_time",
    "snaplen_truncated",
    "damaged",
    "accounting",
]
COUNTS = ["messages", "frames", "bytes"]


@pytest.fixture(scope="module")
def report():
    return document.build_report(analysis())


def test_the_report_has_its_keys_in_order(report):
    assert list(report) == [*("schema", "captures", "handshakes", "rekeyed_ike_sas", "totals", "warnings", "skipped")]
    assert report["schema"] == "ikeanalyze.report/1"
    json.dumps(report, allow_nan=False)


def test_a_capture_has_its_keys_in_order_and_adds_up(report):
    (capture,) = report["captures"]
    assert list(capture)[: len(CAPTURE)] == CAPTURE
    assert list(capture["accounting"]) == list(ACCOUNTING)
    assert sum(capture["accounting"].values()) == capture["packets"]
    assert sum(capture["accounting_bytes"].values()) == capture["bytes"]
    assert capture["first_time"] == "2025-11-24T16:00:10.123456789Z"
    assert capture["damaged"] is False
    assert capture["snaplen_truncated"] == 0


def test_capture_without_packets():
    empty = replace(summary("empty.pcap"), packets=0, bytes=0, accounting={}, accounting_bytes={})
    capture = document.build_capture(empty)
    assert capture["first_time"] is None
    assert capture["last_time"] is None
    assert capture["accounting"] == dict.fromkeys(ACCOUNTING, 0)


def test_hip_handshakes_have_their_host_identity_tags():
    a = analysis([1])
    changed = a.handshakes.with_columns(pl.lit("2001:21::1").alias("initiator_hit"))
    (handshake,) = document.build_report(replace(a, handshakes=changed))["handshakes"]
    assert handshake["hits"] == {"initiator": "2001:21::1", "responder": None}


def test_a_handshake_has_its_keys_in_order(report):
    assert [h["id"] for h in report["handshakes"]] == [1, 2, 3, 4, 5]
    for handshake in report["handshakes"]:
        assert list(handshake)[: len(HANDSHAKE)] == HANDSHAKE
        assert list(handshake["initiator"]) == ["address", "port"]
        assert list(handshake["responder"]) == ["address", "port"]
        assert list(handshake["auth"]) == ["initiator", "responder", "eap", "guessed"]
        assert list(handshake["proposal"]) == [
            "encryption",
            "prf",
            "integrity",
            "key_exchange",
            "additional_key_exchanges",
        ]
        assert list(handshake["breakdown"]) == [
            "network_ms",
            "initiator_ms",
            "initiator_and_network_ms",
            "responder_ms",
            "aaa_ms",
            "retransmission_wait_ms",
            "vantage",
            "path_rtt_ms",
            "path_rtt_source",
            "uncertain",
        ]
        assert list(handshake["retransmissions"]) == COUNTS
        assert list(handshake["fragmentation"]) == ["ike_messages", "ike_fragments", "ip_fragments"]
        assert handshake["outcome"] in schema.OUTCOMES.categories
        for link in handshake["links"]:
            assert list(link.pop("retransmissions")) == COUNTS
        for link in handshake["links"] + handshake["after_setup"]:
            assert list(link) == ["name", "a", "b", "a_to_b", "b_to_a"]
            assert list(link["a_to_b"]) == list(link["b_to_a"]) == COUNTS
        for phase in handshake["phases"].values():
            assert list(phase) == COUNTS
        for exchange in handshake["exchanges"]:
            assert list(exchange)[:7] == ["type", "message_id", "request", "response", "rtt_ms", "epoch", "decrypted"]
            for half in (exchange["request"], exchange["response"]):
                assert half is None or list(half)[:4] == [*COUNTS, "first_time"]


def test_phases_add_up_to_the_first_link(report):
    for handshake in report["handshakes"]:
        link = handshake["links"][0]
        for what in COUNTS:
            both = link["a_to_b"][what] + link["b_to_a"][what]
            assert sum(phase[what] for phase in handshake["phases"].values()) == both


def test_times_are_milliseconds_and_unknown_values_null(report):
    pq, eap, loss, silent, old = report["handshakes"]
    assert pq["start_time"] == document.format_iso_time(START + 10_000_000_000)
    assert pq["setup_ms"] == 12.75
    assert pq["breakdown"]["responder_ms"] == 6.845678
    assert pq["proposal"]["additional_key_exchanges"] == [{"slot": 1, "method": "ML-KEM-768", "id": 36}]
    assert list(pq["phases"]) == ["IKE_SA_INIT", "IKE_INTERMEDIATE", "IKE_AUTH"]
    assert pq["exchanges"][0]["rtt_ms"] == 2.345678
    assert pq["exchanges"][3]["rtt_ms"] == 0.9
    assert pq["exchanges"][3]["set_up"] is False
    assert pq["after_setup"][0]["a_to_b"] == {"messages": 1, "frames": 1, "bytes": 111}
    assert [link["name"] for link in eap["links"]] == ["initiator-responder", "responder-aaa"]
    assert (eap["links"][1]["a"], eap["links"][1]["b"]) == ("198.51.100.2", "198.51.100.9")
    assert eap["auth"] == {"initiator": "eap", "responder": None, "eap": "EAP-MD5", "guessed": True}
    assert [e["extra_round_trip"] for e in loss["exchanges"]] == ["INVALID_KE_PAYLOAD", None, None]
    assert loss["extra_round_trips"] == ["INVALID_KE_PAYLOAD"]
    assert silent["exchanges"][0]["response"] is None
    assert silent["setup_ms"] is None
    assert silent["one_sided"] == "initiator"
    assert len(silent["links"]) == 1
    assert old["reason"] == "NO-PROPOSAL-CHOSEN"


def test_without_keys_nothing_is_said_of_what_is_inside(report):
    for handshake in report["handshakes"]:
        for key in ("replaces", "child_error", "payload_bytes", "key_exchanges", "certificates"):
            assert handshake[key] is None
        for exchange in handshake["exchanges"]:
            assert exchange["epoch"] is exchange["decrypted"] is None
            assert exchange["request"]["payloads"] is None
            assert exchange["radius"] == []
    assert report["totals"]["payload_bytes"] is None


def test_what_decrypted_payloads_tell():
    document_ = document.build_report(analysis([6, 8, 7]))
    pq, eap = document_["handshakes"]
    (following,) = document_["rekeyed_ike_sas"]
    assert list(following) == list(pq)
    assert (following["id"], following["outcome"], following["reason"]) == (2, "established", "REKEYED")
    totals = document_["totals"]
    assert (totals["handshakes"], totals["rekeyed_ike_sas"], totals["outcomes"]["established"]) == (2, 1, 2)
    assert pq["child_error"] == "TS_UNACCEPTABLE"
    assert [item["replaces"] for item in (pq, following, eap)] == [None, 1, None]
    assert pq["payload_bytes"][0] == {"payload": "KE", "bytes": 2484}
    assert sum(part["bytes"] for part in pq["payload_bytes"]) == 3908
    assert [
        (key_exchange["exchange"], key_exchange["message_id"], key_exchange["slot"])
        for key_exchange in pq["key_exchanges"]
    ] == [
        ("IKE_SA_INIT", 0, 0),
        ("IKE_INTERMEDIATE", 1, 1),
        ("CREATE_CHILD_SA", 3, 0),
    ]
    assert pq["key_exchanges"][1] == {
        "exchange": "IKE_INTERMEDIATE",
        "message_id": 1,
        "initiated_by": "initiator",
        "attempt": 1,
        "purpose": "IKE SA",
        "slot": 1,
        "method": "ML-KEM-768",
        "id": 36,
        "linked_to": None,
        "request": "encapsulation key",
        "request_bytes": 1184,
        "response": "ciphertext",
        "response_bytes": 1088,
        "findings": [BAD_KEY],
    }
    assert pq["key_exchanges"][0]["findings"] == []
    assert pq["key_exchanges"][2]["response"] is None
    (certificate,) = pq["certificates"]
    assert certificate["side"] == "initiator"
    parts = ("key_bytes", "signature_bytes", "other_bytes")
    assert sum(certificate[part] for part in parts) == certificate["bytes"] == 595
    assert following["key_exchanges"] == following["certificates"] == following["payload_bytes"] == []
    assert document_["totals"]["payload_bytes"] == [
        {"payload": "KE", "bytes": 3012},
        {"payload": "frame headers", "bytes": 2724},
        {"payload": "CERT", "bytes": 600},
    ]


def test_payloads_and_radius_stand_in_their_exchanges():
    (eap,) = document.build_handshakes(analysis([7]))
    assert eap["exchanges"][1]["request"]["payloads"] == ["IDi(carol)", "SA", "TSi(10.1.0.1/32)", "TSr(10.2.0.1/32)"]
    assert [(e["epoch"], e["decrypted"]) for e in eap["exchanges"]] == [(None, None)] + [(0, True)] * 4
    assert [len(e["radius"]) for e in eap["exchanges"]] == [0, 0, 2, 2, 0]
    assert eap["exchanges"][2]["radius"] == [
        {"code": "Access-Request", "identifier": 17, "frame": 6, "matched_by": "EAP"},
        {"code": "Access-Challenge", "identifier": 17, "frame": 7, "matched_by": "EAP"},
    ]


def test_an_exchange_of_which_one_half_is_decrypted():
    (pq,) = document.build_handshakes(analysis([6]))
    assert pq["exchanges"][3]["decrypted"] is False
    assert pq["exchanges"][3]["request"]["payloads"] == ["SA", "No", "KE(ECP-384)"]
    assert pq["exchanges"][3]["response"]["payloads"] is None


def test_request_not_captured():
    a = analysis([1])
    halves = [c for c in a.exchanges.columns if c.startswith("request_")]
    a = replace(a, exchanges=a.exchanges.with_columns(pl.lit(None, schema.EXCHANGES[c]).alias(c) for c in halves))
    (handshake,) = document.build_handshakes(a)
    assert all(exchange["request"] is None for exchange in handshake["exchanges"])


def test_handshake_of_which_nothing_is_known():
    a = analysis([1])
    row = pl.DataFrame([{"handshake": 1}], schema=schema.HANDSHAKES)
    (handshake,) = document.build_handshakes(replace(a, handshakes=row, exchanges=a.exchanges.clear()))
    assert list(handshake)[: len(HANDSHAKE)] == HANDSHAKE
    assert handshake["phases"] == {}
    assert handshake["exchanges"] == handshake["offered"] == []
    assert handshake["blowup"] is None


def test_text_from_a_capture_is_escaped():
    a = analysis([1])
    nasty = 'a "quoted" \\ line\nand \x00\x1b é'
    a = replace(
        a,
        handshakes=a.handshakes.with_columns(
            pl.lit(nasty).alias("reason"), pl.lit([nasty, "x"]).alias("offered"), pl.lit("{}").alias("auth_eap")
        ),
    )
    (handshake,) = document.build_handshakes(a)
    assert handshake["reason"] == nasty
    assert handshake["offered"] == [nasty, "x"]
    assert handshake["auth"]["eap"] == "{}"


def test_phases_are_an_object_whose_names_are_escaped():
    a = analysis([1])
    phases = [{"type": 'a "b"', "messages": 1, "frames": 2, "bytes": 2**40}, {"type": "c"}]
    column = pl.Series("phases", [phases], schema.HANDSHAKES["phases"])
    (handshake,) = document.build_handshakes(replace(a, handshakes=a.handshakes.with_columns(column)))
    unknown = dict.fromkeys(COUNTS)
    assert handshake["phases"] == {'a "b"': {"messages": 1, "frames": 2, "bytes": 2**40}, "c": unknown}


def test_large_numbers_are_exact():
    a = analysis([1])
    values = {"blowup": float("nan"), "initiator_bytes": 2**64 - 1, "network_ns": 1, "aaa_ns": 100_000}
    columns = [pl.lit(value, schema.HANDSHAKES[name]).alias(name) for name, value in values.items()]
    (text,) = document.iterate_handshake_json(replace(a, handshakes=a.handshakes.with_columns(columns)))
    handshake = json.loads(text, parse_float=str)
    assert handshake["blowup"] is None
    assert handshake["links"][0]["a_to_b"]["bytes"] == 2**64 - 1
    assert float(handshake["breakdown"]["network_ms"]) == 1e-6
    assert handshake["breakdown"]["aaa_ms"] == "0.1"


def test_more_handshakes_than_are_held_at_once(monkeypatch):
    everything = analysis([1, 6, 7, 2, 6])
    at_once = list(document.build_handshakes(everything))
    monkeypatch.setattr(document, "_BATCH_SIZE", 2)
    assert list(document.build_handshakes(everything)) == at_once
    exchanges = [key["exchange"] for h in at_once for key in h["key_exchanges"] or ()]
    read = ["IKE_SA_INIT", "IKE_INTERMEDIATE", "CREATE_CHILD_SA"]
    assert exchanges == [*read, "IKE_SA_INIT", *read]


def test_totals_are_sums_of_the_handshakes(report):
    totals = report["totals"]
    for what in COUNTS:
        links = [link for h in report["handshakes"] for link in h["links"]]
        assert totals[what] == sum(link["a_to_b"][what] + link["b_to_a"][what] for link in links)
        assert totals["retransmissions"][what] == sum(h["retransmissions"][what] for h in report["handshakes"])
    assert totals["handshakes"] == 5
    outcomes = {"established": 2, "completed": 1, "failed": 1, "unanswered": 1, "half-open": 0, "cut": 0}
    assert totals["outcomes"] == outcomes
    times = {"min": 12.75, "median": 13.0, "mean": 330.916667, "max": 967.0}
    assert totals["setup_ms"] == {**times, "known": 3, "uncertain": 0}
    assert totals["accounting"]["esp"] == 3


def test_totals_of_nothing():
    totals = document.build_report(analysis([]))["totals"]
    assert totals["handshakes"] == totals["bytes"] == 0
    assert totals["blowup"] is None
    assert totals["setup_ms"]["median"] is None


def test_the_figures_of_the_lab():
    a = analysis([1])
    assert next(document.build_handshakes(a))["lab"] is None
    columns = [pl.lit("costs").alias("measure"), pl.lit(5.863265).alias("initiator_processor_ms")]
    (handshake,) = document.build_handshakes(replace(a, handshakes=a.handshakes.with_columns(columns)))
    figures = {"measure": "costs", "initiator_processor_ms": 5.863265}
    assert {name: value for name, value in handshake["lab"].items() if value is not None} == figures
    assert set(handshake["lab"]) == {
        *("measure", "jobs", "warm_up", "attempts", "initiator_clock_ms"),
        *("initiator_processor_ms", "responder_processor_ms", "aaa_processor_ms"),
        *("initiator_rss_bytes", "responder_rss_bytes", "aaa_rss_bytes"),
    }

import json

from ikeanalyze.render import Format
from ikeanalyze.render.replay.formats import FORMATS
from tests.render import replay_examples
from tests.render.render_text import written


def document(replayed):
    return json.loads(written(FORMATS, replayed, Format.JSON))


def test_what_it_is_about():
    result = document(replay_examples.verbatim())
    assert result["schema"] == "ikeanalyze.replay/1"
    assert {key: result[key] for key in ("mode", "capture", "handshake", "target", "way", "mutated")} == {
        "mode": "verbatim",
        "capture": "a.pcap",
        "handshake": 1,
        "target": "192.0.2.2:500",
        "way": "layer 3",
        "mutated": None,
    }
    assert result["local"] == {"address": "192.0.2.1", "port": 500, "nat_port": 4500}
    assert result["start_time"] == "2023-11-14T22:13:20.000000000Z"
    assert result["end_time"] == "2023-11-14T22:13:22.000000000Z"


def test_a_verbatim_run_lists_its_messages_and_their_answers():
    (run,) = document(replay_examples.verbatim())["runs"]
    assert (run["unasked"], run["garbage"], run["left_out"], run["handshake"]) == (2, 1, 0, None)
    first, second = run["messages"]
    assert (first["type"], first["transmissions"], first["new"][:2]) == ("IKE_SA_INIT", 2, ["SPIi", "nonce"])
    assert first["recorded"]["kind"] == "accepted"
    assert first["answers"] == [
        {
            "type": "IKE_SA_INIT",
            "kind": "COOKIE",
            "proposal": None,
            "key_exchange": None,
            "notifies": ["COOKIE"],
            "payloads": ["N(COOKIE)"],
            "fragments": None,
            "bytes": 60,
            "rtt_ms": 1.5,
            "differs": ["answer: accepted recorded, COOKIE now", "only now: COOKIE"],
        }
    ]
    assert second["answers"] == []


def test_a_live_one():
    result = document(replay_examples.reenact())
    (run,) = result["runs"]
    assert result["datagrams"]["stray_from"] == "192.0.2.9:500"
    assert (result["recording"], result["keys"]) == ("live.pcapng", "live.keys.json")
    assert run["sent"] == {"datagrams": 3, "bytes": 700}
    assert run["blowup"] == run["report_blowup"] == 4 / 3
    handshake = run["handshake"]
    assert (handshake["established"], handshake["setup_ms"]) == (True, 12.0)
    assert handshake["auth"] == {"initiator": "PSK", "responder": "PSK"}
    assert [exchange["rtt_ms"] for exchange in handshake["exchanges"]] == [3.0, 4.0]
    assert handshake["ignored"]["repeated"] == 2
    compared = run["compared"]
    assert compared["exchanges"][1] == {
        "type": "IKE_AUTH",
        "message_id": 1,
        "attempt": 1,
        "recorded": {"messages": 2, "bytes": 500, "ms": 3.0, "answered": True},
        "live": None,
    }
    assert compared["together"]["live"] == {"messages": 3, "bytes": 800, "ms": 12.0, "answered": True}
    assert compared["outcome"] == {"recorded": "completed", "live": "established"}


def test_each_run_has_its_seed_faults_and_handshake():
    runs = document(replay_examples.many())["runs"]
    assert [run["seed"] for run in runs] == [5, 6, 7]
    assert [run["faults_met"] for run in runs] == [{"delay": 2, "drop": 2}, {"drop": 1}, {}]
    assert [run["broken_off"] for run in runs] == [None, None, "not over after 5 s"]
    assert [run["handshake"]["setup_ms"] for run in runs] == [12.0, None, None]


def test_a_fuzzed_responder_is_described_before_during_and_after():
    result = document(replay_examples.mutated())
    assert result["runs"] == []
    mutated = result["mutated"]
    assert (mutated["up"], mutated["sent"], mutated["seed"], mutated["garbage"]) == (True, 20, 7, 1)
    assert mutated["errors"] == {"bit": 12, "cut": 5}
    assert mutated["answered"] == {"INVALID_SYNTAX": 9, "accepted": 2}
    assert mutated["after"]["answer"]["kind"] == "COOKIE"
    assert (mutated["before"]["attempts"], mutated["after"]["seconds"]) == (1, 4.0)


def test_the_document_contains_no_keys():
    from dataclasses import replace

    from ikeanalyze.keys.key_set import KeySet, Origin

    one = replay_examples.reenact()
    keys = KeySet(
        origin=Origin("replay", None),
        spi_i=b"\1" * 8,
        spi_r=b"\2" * 8,
        encryption=20,
        integrity=0,
        sk_ei=b"\xaa" * 36,
        sk_er=b"\xbb" * 36,
    )
    run = replace(one.runs[0], result=replay_examples.result(keys=(keys,)))
    assert "aaaa" not in written(FORMATS, replace(one, runs=(run,)), Format.JSON) + repr(run)

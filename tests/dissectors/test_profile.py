"""The profile "IKE", with the plugin, in every tshark."""

import csv
from random import Random

import pytest

from tests.craft import MS, Handshake, Trace
from tests.paths import CAPTURES, ROOT

DISSECTORS = ROOT / "dissectors"
PROFILE = DISSECTORS / "profiles" / "IKE"


def buttons():
    """Label and filter of each button."""
    lines = (PROFILE / "dfilter_buttons").read_text().splitlines()
    rows = csv.reader(line for line in lines if not line.startswith("#"))
    return {label: expression for enabled, label, expression, _ in rows if enabled == "TRUE"}


@pytest.fixture
def room(tshark):
    with tshark.room() as one:
        one.put("home/.local/lib/wireshark/plugins", DISSECTORS)
        one.put("home/.config/wireshark/profiles", DISSECTORS / "profiles")
        yield one


def run(room, capture, *arguments):
    done = room.run("-n", "-C", "IKE", *arguments, capture=capture, own_config=False)
    assert (done.status, done.stderr) == (0, "")  # a filter that does not compile is told there
    return done.lines


def test_columns(room):
    """Sizes are those of the truth file with 42 or 46 bytes of headers, times those of the packets' records."""
    shown = [line.split() for line in run(room, CAPTURES / "pq-mlkem768-psk.pcap", "-Y", "isakmp")]
    hosts = ["192.0.2.1", "→", "192.0.2.2"]
    assert [words[:9] for words in shown[:2]] == [
        ["2", "0.557228", *hosts, "1", "IKE_SA_INIT", "request", "354"],
        ["3", "0.558957", *hosts[::-1], "1", "IKE_SA_INIT", "response", "1.729"],
    ]
    assert [words[5:10] for words in shown[1:]] == [
        ["1", "IKE_SA_INIT", "response", "1.729", "362"],
        ["1", "IKE_INTERMEDIATE", "request", "1", "1294"],
        ["1", "IKE_INTERMEDIATE", "request", "2", "112"],
        ["1", "IKE_INTERMEDIATE", "response", "1.483", "1199"],
        ["1", "IKE_AUTH", "request", "313", "IKE_AUTH"],
        ["1", "IKE_AUTH", "response", "0.847", "274"],
    ]


def test_colours(room):
    messages = Handshake(Random(4)).setup()
    trace = Trace()
    trace.play(messages)
    trace.repeat(trace.packets[-2:], 500 * MS)
    capture = trace.pcap()
    rules = run(room, capture, "--color", "-Tfields", "-e", "frame.coloring_rule.name")
    assert rules[:2] == ["IKE: request", "IKE: response"]
    assert rules[-2:] == ["IKE: retransmission", "IKE: retransmission"]


def test_other_colours(room):
    words = ("--color", "-Tfields", "-e", "frame.coloring_rule.name")
    assert set(run(room, CAPTURES / "eap-md5-radius.pcapng", *words)) >= {
        "IKE: request",
        "EAP to the AAA server",
    }
    assert "IKE: extra round trip" in run(room, CAPTURES / "invalid-ke.pcap", *words)
    # the frames of a message are known when its last one has come: what is shown at once is the second pass
    assert set(run(room, CAPTURES / "ip-fragments-loss10.pcap", "-2", *words)) >= {
        "IKE: fragment",
        "IKE: retransmission",
    }


def test_every_button_finds_something(room):
    found = {}
    for capture in ("loss20-classic.pcap", "invalid-ke.pcap", "pq-mlkem768-psk.pcap"):
        taps = [word for expression in buttons().values() for word in ("-z", f"io,phs,{expression}")]
        text = "\n".join(run(room, CAPTURES / capture, "-q", *taps))
        for label, expression in buttons().items():
            table = text.partition(f"Filter: {expression}\n")[2].partition("=====")[0]
            found[label] = found.get(label, False) or "frames:" in table
    del found["Decrypted"]  # needs keys, and ciphers in Lua
    assert all(found.values()), found
    assert len(found) == 7

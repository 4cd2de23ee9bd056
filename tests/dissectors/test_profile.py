"""The profile "IKE", with the plugin, in every tshark."""

import csv
import re
from random import Random

import pytest

from tests.craft import MS, SECOND, Handshake, Trace, ike
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
    with tshark.room() as room:
        room.put("home/.local/lib/wireshark/plugins", DISSECTORS)
        room.put("home/.config/wireshark/profiles", DISSECTORS / "profiles")
        yield room


def run(room, capture, *arguments):
    done = room.run("-n", "-C", "IKE", *arguments, capture=capture, own_config=False)
    assert (done.status, done.stderr) == (0, "")  # tshark reports invalid filters on standard error
    return done.lines


def test_every_column_has_a_width():
    """As Wireshark writes them: without the position and the alignment of a custom field."""
    columns = re.findall(r'^\t"[^"]*", "(%Cus:[^":]*|[^"]*)[^"]*"', (PROFILE / "preferences").read_text(), re.M)
    widths = re.findall(r'^\t"([^"]*)", (\d+)', (PROFILE / "recent").read_text(), re.M)
    assert [column for column, _ in widths] == columns
    assert all(50 <= int(width) <= 600 for _, width in widths)


def test_columns_show_handshake_time_size_and_message(room):
    """Sizes: from the truth file plus 42 or 46 bytes of headers; times: from the packet records."""
    shown = [line.split() for line in run(room, CAPTURES / "pq-mlkem768-psk.pcap", "-Y", "isakmp")]
    hosts = ["192.0.2.1", "→", "192.0.2.2"]
    assert [columns[:9] for columns in shown[:2]] == [
        ["2", "0.557228", *hosts, "1", "354", "IKE_SA_INIT", "request,"],
        ["3", "0.558957", *hosts[::-1], "1", "0.001729000", "362", "IKE_SA_INIT"],
    ]
    assert [" ".join(columns[5:])[:50] for columns in shown[2:]] == [
        "1 1 1294 IKE_INTERMEDIATE request, fragment 1/2",
        "1 2 112 IKE_INTERMEDIATE request, fragment 2/2",
        "1 0.001483000 1199 IKE_INTERMEDIATE response, SK",
        "1 313 IKE_AUTH request, SK",
        "1 0.000847000 274 IKE_AUTH response, SK",
    ]


def test_requests_responses_and_retransmissions_have_colours(room):
    messages = Handshake(Random(4)).setup()
    trace = Trace()
    trace.play(messages)
    trace.repeat(trace.packets[-2:], 500 * MS)
    capture = trace.pcap()
    rules = run(room, capture, "--color", "-Tfields", "-e", "frame.coloring_rule.name")
    assert rules[:2] == ["IKE: request", "IKE: response"]
    assert rules[-2:] == ["IKE: retransmission", "IKE: retransmission"]


def test_eap_extra_round_trips_and_fragments_have_colours(room):
    options = ("--color", "-Tfields", "-e", "frame.coloring_rule.name")
    assert set(run(room, CAPTURES / "eap-md5-radius.pcapng", *options)) >= {
        "IKE: request",
        "EAP to the AAA server",
    }
    assert "IKE: extra round trip" in run(room, CAPTURES / "invalid-ke.pcap", *options)
    # the frames of a message are known after the last one: two passes
    assert set(run(room, CAPTURES / "ip-fragments-loss10.pcap", "-2", *options)) >= {
        "IKE: fragment",
        "IKE: retransmission",
    }


def test_every_filter_button_matches_recorded_frames(room):
    matches = {}
    for capture in ("loss20-classic.pcap", "invalid-ke.pcap", "pq-mlkem768-psk.pcap", "ip-fragments-loss10.pcap"):
        taps = [word for expression in buttons().values() for word in ("-z", f"io,phs,{expression}")]
        text = "\n".join(run(room, CAPTURES / capture, "-2", "-q", *taps))  # a diagnosis needs all packets
        for label, expression in buttons().items():
            table = text.partition(f"Filter: {expression}\n")[2].partition("=====")[0]
            matches[label] = matches.get(label, False) or "frames:" in table
    del matches["Decrypted"]  # needs keys, and ciphers in Lua
    assert all(matches.values()), matches
    assert len(matches) == 8


def test_the_button_for_the_set_up_matches_the_exchanges_that_set_up_an_ike_sa(room):
    """RFC 2409, section 5; RFC 5723, section 4.3; RFC 7296, section 1.2; RFC 9242."""
    setting_up = {(0x10, 2), (0x10, 4), (0x20, 34), (0x20, 35), (0x20, 38), (0x20, 43)}
    others = {(0x10, 5), (0x10, 6), (0x10, 32), (0x20, 36), (0x20, 37), (0x20, 44)}
    exchanges, trace = sorted(setting_up | others), Trace()
    for number, (version, kind) in enumerate(exchanges):
        flags = ike.INITIATOR if version == 0x20 else 0
        trace.send(number * SECOND, ike.ike_header(bytes([number] * 8), bytes(8), 0, kind, flags, 0, 28, version))
    shown = run(room, trace.pcap(), "-Y", buttons()["Set-up"], "-Tfields", "-e", "frame.number")
    assert {exchanges[int(number) - 1] for number in shown} == setting_up

"""While a capture grows, nothing that may still come is called missing, unanswered or cut."""

import subprocess
import threading
from pathlib import Path

import pytest

from tests.craft import SECOND, Handshake, Trace
from tests.dissectors.run_plugin import ERRORS, PLUGIN, run_plugin

SCRIPT = Path(__file__).with_name("liveness_events.lua")
#: Fields that say that packets are missing.
MISSING = (
    "ikex.fragment.missing", "ikex.outcome", "ikex.expert.missing_fragment", "ikex.expert.no_request",
    "ikex.expert.no_response", "ikex.diagnosis.code", "ikex.expert.diagnosis.responder_silent",
)  # fmt: skip


def feed(tshark, packets, *arguments):
    """Output of tshark that reads packets from a pipe; each is written after the one before was shown.

    The first of the packets has the header of the file.
    """
    with tshark.room() as room:
        room.put("home/.local/lib/wireshark/plugins", PLUGIN)
        command = room.command("tshark", "-n", "-l", "-i", "-", *arguments)
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            lines, shown = [], threading.Condition()

            def read():
                for line in process.stdout:
                    with shown:
                        lines.append(line.decode().rstrip("\n"))
                        shown.notify()

            reader = threading.Thread(target=read)
            reader.start()
            for number, data in enumerate(packets, 1):
                process.stdin.write(data)
                process.stdin.flush()
                with shown:
                    assert shown.wait_for(lambda number=number: len(lines) >= number, timeout=60), number
            process.stdin.close()
            assert process.wait(timeout=60) == 0
            reader.join()
            errors = process.stderr.read().decode()
    assert not any(text in errors + "\n".join(lines) for text in ERRORS)
    return lines


def split_packets(path):
    """The records of a pcap file, the first one with the header of the file."""
    data, start, records = path.read_bytes(), 24, []
    while start < len(data):
        end = start + 16 + int.from_bytes(data[start + 8 : start + 12], "little")
        records.append(data[0 if not records else start : end])
        start = end
    return records


def make_handshake(path, *, left_out=()):
    """A handshake with fragmented messages, one packet a second; numbers of packets that are left out."""
    handshake, trace, number = Handshake(1), Trace(), 0
    messages = [*handshake.init(), *handshake.intermediate(fragments=(2, 2)), *handshake.auth(fragments=(2, 2))]
    for message in messages:
        for fragment in range(1, len(message.datagrams) + 1):
            number += 1
            if number not in left_out:
                trace.message(number * SECOND, message, gap=0, only=[fragment])
    return trace.write(path)


def test_messages_that_are_not_complete_yet_lack_nothing(tshark, tmp_path):
    path = make_handshake(tmp_path / "capture.pcap")
    columns = [word for name in ("frame.number", "ikex.transmission", *MISSING) for word in ("-e", name)]
    lines = feed(tshark, split_packets(path), "-Tfields", *columns)
    assert lines == [f"{number}\t1" + "\t" * len(MISSING) for number in range(1, 11)]


def test_statistics_after_a_live_capture_are_those_of_the_file(tshark, tmp_path):
    path = make_handshake(tmp_path / "capture.pcap", left_out=(4, 10))
    packets = split_packets(path)
    lines = feed(tshark, packets, "-P", "-z", "ikex,handshakes")
    expected = run_plugin(tshark, path, "-q", "-z", "ikex,handshakes").lines
    assert [line for line in lines[len(packets) :] if line] == [line for line in expected if line]


EVENTS = {
    "a file that is opened is final": (["1000 draw 40 100", "1000 final 100"], ["all"]),
    "so is one that grew before it was opened": (["1000 draw 40 100", "1001 draw 40 100", "1001 final 100"], ["all"]),
    "a file whose last packet is seconds old may be a capture that is running": (
        ["1000 draw 40 995", "1000 final 995"],
        ["991"],
    ),
    "rows that were added after others were drawn show that it is running": (
        ["1000 draw 40 100", "1001 draw 44 101", "1001 final 101", "1002 final 102"],
        ["97", "98"],
    ),
    "without packets for some seconds it has ended": (
        ["1000 draw 40 100", "1001 draw 44 101", "1006 final 101", "1007 final 101"],
        ["97", "all"],
    ),
    "it may go on after that": (
        ["1000 draw 40 100", "1001 draw 44 101", "1007 final 101", "1008 draw 45 108", "1008 final 108"],
        ["all", "104"],
    ),
}


@pytest.mark.parametrize("case", EVENTS)
def test_a_running_capture_is_final_until_4_s_before_its_last_packet(tshark, case):
    events, expected = EVENTS[case]
    files = {"ikex": PLUGIN / "ikex", "events": "\n".join(events) + "\n"}
    done = tshark.run("-q", lua=[SCRIPT], files=files, capture=Trace().pcap())
    assert done.stderr == ""
    assert done.lines == expected

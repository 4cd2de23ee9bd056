"""The messages of a handshake as text, and the command that writes a decrypted copy."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.craft import Trace
from tests.dissectors.key_files import keys_of
from tests.dissectors.run_plugin import PLUGIN, run_plugin
from tests.paths import CAPTURES

SCRIPT = Path(__file__).with_name("decrypt_command.lua")
#: Chooses the menu item, with a window that takes the name of the file and a capture of one packet.
SAVE = """
package.path = "./?.lua;" .. package.path
local tap = { remove = function() end }
_G.Listener = { new = function() return tap end }
_G.Dumper = { new_for_current = function() return { dump_current = function() end, close = function() end } end }
function _G.retap_packets() tap.packet() end
function _G.new_dialog(_, action) action("output") end
function _G.report_failure(text) print(text) end
require("ikex.decrypted_copy").open_dialog({ "keys" }, "%s")
"""


def list_ladder(tshark, capture, **how):
    """The lines; those of a long message are joined."""
    lines = run_plugin(tshark, capture, "-q", "-z", "ikex,ladders", **how).lines
    assert max(map(len, lines)) <= 72
    return [re.sub(r"\n +", " ", line) for line in re.split(r"\n(?! {30})", "\n".join(lines)) if line]


def test_messages_with_their_times_frames_and_payloads(tshark):
    """Times from the packet records, payloads from charon's log."""
    name = "pq-mlkem768-psk.pcap"
    lines = list_ladder(tshark, CAPTURES / name, keys=keys_of(name))
    assert lines[0] == "IKE handshake 1: 192.0.2.1 > 192.0.2.2, established, set-up 6.202 ms"
    assert [line.split(", N(")[0] for line in lines[2:]] == [
        "     0.000  initiator  2         IKE_SA_INIT request, SA, KE(ECP-384), No",
        "     1.729  responder  3         IKE_SA_INIT response, SA, KE(ECP-384), No",
        "     3.072  initiator  4-5       IKE_INTERMEDIATE request, 2 of 2 fragments, KE(ML-KEM-768)",
        "     4.555  responder  6         IKE_INTERMEDIATE response, KE(ML-KEM-768)",
        "     5.355  initiator  7         IKE_AUTH request, IDi",
        "     6.202  responder  8         IKE_AUTH response, IDr, AUTH, SA, TSi, TSr",
    ]


def test_retransmissions_and_ip_fragments(tshark):
    lines = list_ladder(tshark, CAPTURES / "ip-fragments-loss10.pcap")
    assert lines[0] == "IKE handshake 1: 10.1.0.2 > 10.2.0.2, completed, set-up 563.500 ms"
    assert [line.split(",")[0] for line in lines[2:9]] == [
        "     0.000  initiator  1-3       IKE_SA_INIT request",
        "   223.289  responder  4-6       IKE_SA_INIT response",
        "   388.163  initiator  7-10      IKE_AUTH request",
        "   563.473  responder  11-14     IKE_AUTH response",
        "   584.593  initiator  15        INFORMATIONAL request",
        "   987.708  initiator  16        [Retransmission] INFORMATIONAL request",
        "   988.183  responder  17        INFORMATIONAL response",
    ]


@pytest.mark.parametrize("tshark", ["host"], indirect=True)
def test_the_decrypted_copy_is_written_also_to_files_with_unusual_names(tshark, tmp_path):
    capture, keys, output = (tmp_path / name for name in ("it's $HOME.pcap", "a;b.log.gz", "-out `x`.pcapng"))
    capture.write_bytes((CAPTURES / "pq-mlkem768-psk.pcap").read_bytes())
    keys.write_bytes((CAPTURES / "pq-mlkem768-psk.charon.log.gz").read_bytes())
    program = tmp_path / "ike analyze"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ikeanalyze "$@"\n')
    program.chmod(0o755)
    words = "\n".join(str(path) for path in (program, capture, output, keys)) + "\n"
    files = {"ikex": PLUGIN / "ikex", "words": words}
    [line] = tshark.run("-q", lua=[SCRIPT], files=files, capture=Trace().pcap()).lines
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    decrypted = tshark.run("-Y", "isakmp.key_exchange.dh_group == 36", "-Tfields", "-e", "frame.number", capture=output)
    assert len(decrypted.lines) == 2


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "/nowhere/ikeanalyze",
            r"The command /nowhere/ikeanalyze was not found. Set its path in Edit, Preferences, .*",
        ),
        ("false", r"false decrypt has written no decrypted capture: "),
    ],
)
def test_a_decrypted_copy_that_was_not_written_says_what_to_do(tshark, command, expected):
    done = tshark.run("-q", lua=[SAVE % command], files={"ikex": PLUGIN / "ikex"}, capture=Trace().pcap())
    assert done.stderr == ""
    assert re.fullmatch(expected, "\n".join(done.lines))

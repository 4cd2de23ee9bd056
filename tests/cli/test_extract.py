"""`ikeanalyze extract`: its options and messages."""

import subprocess
import sys
from pathlib import Path

from ikeanalyze.capture.frames import read_frames
from tests.paths import CAPTURES, LAB_CAPTURES

LOSSY = str(CAPTURES / "loss20-classic.pcap")


def test_handshakes_in_one_file(run, tmp_path):
    out = tmp_path / "out.pcapng"
    done = run("extract", LOSSY, "--handshake", "2", "--handshake", "3", "-o", str(out))
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"{out}: {read_frames(str(out)).packets} packets of {LOSSY}" in done.stderr


def test_a_pcap_file_is_written_if_nothing_is_lost(run, tmp_path):
    out, annotated = tmp_path / "out.pcap", tmp_path / "annotated.pcap"
    done = run("extract", LOSSY, "-o", str(out))
    assert "pcapng" not in done.stderr
    assert out.read_bytes() == Path(LOSSY).read_bytes()  # all packets belong to handshakes
    done = run("extract", LOSSY, "--annotate", "-o", str(annotated))
    assert f"{annotated}: written as pcapng, despite its name. editcap -F pcap converts it" in done.stderr
    assert annotated.read_bytes()[:4] == bytes.fromhex("0a0d0d0a")  # of a section header block
    done = run("extract", str(LAB_CAPTURES / "eap-md5.pcapng"), "-o", str(annotated))
    assert "written as pcapng, despite its name" in done.stderr


def test_a_file_for_each_handshake(run, tmp_path):
    folder = tmp_path / "parts"
    done = run("extract", LOSSY, "--split", "-o", str(folder))
    assert done.exit_code == 0
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [f"handshake-{number:04}.pcapng" for number in range(1, 26)]
    assert sum(read_frames(str(file)).packets for file in files) == 244  # of the capture, as capinfos counts


def test_radius_that_is_left_out_is_mentioned(run, tmp_path):
    capture = str(LAB_CAPTURES / "eap-md5.pcapng")
    done = run("extract", capture, "-o", str(tmp_path / "out.pcapng"))
    assert "RADIUS packets of the handshakes left out; --with radius includes them" in done.stderr
    assert "RADIUS" not in run("extract", capture, "--with", "radius,esp", "-o", str(tmp_path / "b.pcapng")).stderr


def test_wrong_usage_is_refused(run, tmp_path):
    out = str(tmp_path / "out.pcapng")
    cases = [
        (("--handshake", "99"), "there is no handshake 99: they are numbered 1 to 25"),
        (("--with", "dns"), "'dns' is neither radius nor esp"),
    ]
    for options, message in cases:
        done = run("extract", LOSSY, *options, "-o", out)
        assert (done.exit_code, message in done.stderr) == (2, True), done.stderr
    done = run("extract", LOSSY, "--split", "-o", "-")
    assert (done.exit_code, "--split needs a folder" in done.stderr) == (2, True)
    done = run("extract", LOSSY, "-o", LOSSY)
    assert (done.exit_code, "it would be overwritten" in done.stderr) == (2, True)


def test_the_capture_is_read_twice(run, tmp_path):
    done = run("extract", "-", "-o", str(tmp_path / "out.pcapng"))
    assert (done.exit_code, "cannot be standard input" in done.stderr) == (2, True)


def test_a_filter_and_a_period_select_handshakes(run, tmp_path):
    """Of the 25 handshakes, two have more than four retransmitted messages: 2 and 25."""
    folder = tmp_path / "parts"
    assert run("extract", LOSSY, "--filter", "rtx>4", "--split", "-o", str(folder)).exit_code == 0
    assert sorted(file.name for file in folder.iterdir()) == ["handshake-0002.pcapng", "handshake-0025.pcapng"]
    out = tmp_path / "out.pcapng"
    done = run("extract", LOSSY, "--filter", "rtx>4", "--to", "0", "-o", str(out))
    assert (done.exit_code, "none of 25 handshakes matches --filter, --to" in done.stderr) == (1, True)
    done = run("extract", LOSSY, "--filter", "outcom:failed", "-o", str(out))
    assert (done.exit_code, "outcome" in done.stderr) == (2, True)


def test_outcomes_that_depend_on_the_end_of_the_capture_are_mentioned(run, tmp_path):
    """The network drops all IP fragments of this lab capture, so that IKE_AUTH is never answered."""
    path, out = LAB_CAPTURES / "fragments-dropped_fragment-size-0.pcapng", tmp_path / "out.pcapng"
    done = run("extract", str(path), "-o", str(out))
    assert "handshake 1 half-open or unanswered: a report of the extract may say cut" in done.stderr
    assert "may say cut" not in run("extract", LOSSY, "--handshake", "2", "-o", str(out)).stderr


def test_an_extract_is_written_to_standard_output(tmp_path):
    command = [sys.executable, "-m", "ikeanalyze", "extract", LOSSY, "--handshake", "2", "-o", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    path = tmp_path / "out.pcapng"
    path.write_bytes(done.stdout)
    assert read_frames(str(path)).packets == 12
    assert b"standard output: 12 packets of" in done.stderr

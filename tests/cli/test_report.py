import gzip
import json
import struct
from dataclasses import replace

import pytest

from ikeanalyze.analysis.result import AnalysisWarning, SkippedFile
from ikeanalyze.render import Format
from tests.analysis.wrapped_captures import write_wrapped
from tests.craft import SECOND, Handshake, Trace, tunnel
from tests.craft.ike import INFORMATIONAL
from tests.paths import CAPTURES
from tests.render import analysis_examples
from tests.render.analysis_examples import CAPTURE, analysis

CLASSIC, PQ = CAPTURES / "psk-classic.pcap", CAPTURES / "pq-mlkem768-psk.pcap"


def test_terminal_is_the_default(run, reader):
    done = run("report", CAPTURE)
    assert done.exit_code == 0
    assert done.stdout.startswith(CAPTURE + "\n")
    assert "Handshakes" in done.stdout
    assert done.stderr == ""


def report(run, *arguments):
    """The document of a report on captures of the repository."""
    done = run("report", *arguments, "--format", "json", "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_ports_are_added_to_500_and_4500(run, tmp_path):
    """The same capture with the handshake on the ports 4600 and 4601 instead of 500."""
    data = CLASSIC.read_bytes()
    ike = (500).to_bytes(2, "big") * 2
    assert data.count(ike) == 2  # of IKE_SA_INIT
    capture = tmp_path / "other-ports.pcap"
    capture.write_bytes(data.replace(ike, (4600).to_bytes(2, "big") + (4601).to_bytes(2, "big")))
    assert "completed" not in [one["outcome"] for one in report(run, str(capture))["handshakes"]]
    (handshake,) = report(run, str(capture), "--port", "4600", "--port", "501")["handshakes"]
    assert handshake["outcome"] == "completed"


def test_several_captures_are_one_report(run):
    document = report(run, str(CLASSIC), str(PQ))
    assert [capture["path"] for capture in document["captures"]] == [str(CLASSIC), str(PQ)]
    assert [handshake["capture"] for handshake in document["handshakes"]] == [str(CLASSIC), str(PQ)]


def test_liveness_checks_do_not_fill_the_report(run, tmp_path):
    sa, trace = Handshake(), Trace()
    messages = [*sa.init(), *sa.auth()]
    messages += [message for _ in range(40) for message in sa.exchange(INFORMATIONAL, (0, 0))]
    for number, message in enumerate(messages):
        trace.message(number * SECOND, message)
    capture = tmp_path / "liveness.pcap"
    trace.write(capture)
    done = run("report", str(capture))
    assert done.stdout.count("  INFORMATIONAL ") == 30
    assert "  ... and 10 more (--no-limit shows them)\n" in done.stdout
    done = run("report", str(capture), "--no-limit")
    assert done.stdout.count("  INFORMATIONAL ") == 40
    assert "--no-limit" not in done.stdout


def test_vantage_and_rtt_are_used_in_the_breakdown(run):
    (handshake,) = report(run, str(CLASSIC), "--vantage", "responder", "--rtt", "0.4")["handshakes"]
    breakdown = handshake["breakdown"]
    assert (breakdown["vantage"], breakdown["path_rtt_source"]) == ("responder", "given")
    # between response and next request: one round trip, and what the initiator computes
    assert breakdown["network_ms"] == pytest.approx(0.4)
    (unknown,) = report(run, str(CLASSIC))["handshakes"]
    assert breakdown["initiator_ms"] == pytest.approx(unknown["breakdown"]["initiator_and_network_ms"] - 0.4)
    assert handshake["initiator_setup_ms"] == pytest.approx(handshake["setup_ms"] + 0.4)
    assert unknown["breakdown"]["initiator_ms"] is unknown["initiator_setup_ms"] is None


def test_keys_decrypt_messages(run):
    keys = [str(path.with_name(f"{path.stem}.keys.json")) for path in (CLASSIC, PQ)]
    outcomes = [[handshake["outcome"] for handshake in report(run, str(CLASSIC), str(PQ), *more)["handshakes"]] for more in (
        [], ["--keys", keys[0]], ["--keys", keys[0], "--keys", keys[1]],
    )]  # fmt: skip
    assert outcomes == [["completed"] * 2, ["established", "completed"], ["established"] * 2]


@pytest.mark.parametrize("form", [form for form in Format if form is not Format.PARQUET])
def test_formats_to_standard_output(run, reader, form):
    done = run("report", CAPTURE, "--format", form)
    assert done.exit_code == 0
    assert done.stdout


def test_the_report_is_written_to_a_file(run, reader, tmp_path):
    path = tmp_path / "report.json"
    done = run("report", CAPTURE, "--format", "json", "-o", str(path))
    assert (done.exit_code, done.stdout) == (0, "")
    assert json.loads(path.read_text())["schema"] == "ikeanalyze.report/1"


def test_parquet_files_are_written(run, reader, tmp_path):
    assert run("report", CAPTURE, "--format", "parquet", "-o", str(tmp_path / "d")).exit_code == 0
    assert len(list((tmp_path / "d").iterdir())) == 5


def test_tables_can_be_selected(run, tmp_path):
    capture = str(CAPTURES / "eap-md5-radius.pcapng")
    for name, options in (("all", ()), ("some", ("--tables", "handshakes, exchanges"))):
        done = run("report", capture, "--format", "parquet", "-o", str(tmp_path / name), *options)
        assert (done.exit_code, done.stderr) == (0, "")
    assert sorted(path.name for path in (tmp_path / "some").iterdir()) == ["exchanges.parquet", "handshakes.parquet"]
    for path in (tmp_path / "some").iterdir():
        assert path.read_bytes() == (tmp_path / "all" / path.name).read_bytes()


def test_one_handshake_can_be_selected(run, reader):
    done = run("report", CAPTURE, "--handshake", "2", "--format", "json")
    document = json.loads(done.stdout)
    assert [h["id"] for h in document["handshakes"]] == [2]
    assert document["totals"]["handshakes"] == 1
    assert "Handshake 2: completed" in run("report", CAPTURE, "--handshake", "2").stdout


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((), "Missing argument 'CAPTURE...'"),
        ((CAPTURE, "--format", "xml"), "'xml' is not one of 'terminal', 'json', 'jsonl', 'csv'"),
        ((CAPTURE, "--format", "parquet"), "parquet is a directory: name it with -o"),
        (
            (CAPTURE, "--format", "parquet", "-o", "d", "--tables", "frams"),
            "unknown table 'frams'; did you mean frames?",
        ),
        (
            (CAPTURE, "--format", "parquet", "-o", "d", "--tables", ""),
            "unknown table ''; there are captures, handshakes",
        ),
        ((CAPTURE, "--tables", "frames"), "only for --format parquet"),
        ((CAPTURE, "--vantage", "here"), "'here' is not one of 'initiator', 'responder'"),
        ((CAPTURE, "--rtt", "-1"), "-1.0 is not a time in milliseconds"),
        ((CAPTURE, "--rtt", "nan"), "nan is not a time in milliseconds"),
        ((CAPTURE, "--rtt", "1e300"), "1e+300 is not in the range 0 to 1e+07 milliseconds"),
        ((CAPTURE, "--port", "0"), "--port"),
        ((CAPTURE, "--port", "65536"), "--port"),
        ((CAPTURE, "--handshake", "99"), "there is no handshake 99: they are numbered 1 to 5"),
        (("-", "--keys", "-"), "standard input can be read only once"),
        ((CAPTURE, "--keys", "-", "--keys", "-"), "standard input can be read only once"),
        (("-", "-"), "standard input can be read only once"),
    ],
)
def test_wrong_usage_exits_with_2(run, reader, arguments, what):
    done = run("report", *arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert what in done.stderr
    assert done.stderr.startswith("ikeanalyze: ")
    assert len(done.stderr.splitlines()) == 1
    assert "ikeanalyze report --help" in done.stderr


def test_the_capture_is_not_overwritten(run, reader, tmp_path):
    capture = tmp_path / "capture"  # without a suffix by which it would be refused as well
    capture.write_bytes(b"precious")
    (tmp_path / "link").symlink_to(capture)
    for path in (capture, tmp_path / "link"):
        done = run("report", str(capture), "-o", str(path))
        assert done.exit_code == 2
        assert "it would be overwritten" in done.stderr
    assert capture.read_bytes() == b"precious"


def test_keys_are_not_overwritten(run, reader, tmp_path):
    keys = tmp_path / "keys"
    keys.write_bytes(b"precious")
    done = run("report", CAPTURE, "--keys", str(keys), "-o", str(keys))
    assert done.exit_code == 2
    assert f"{keys} is an input file, it would be overwritten" in done.stderr
    assert keys.read_bytes() == b"precious"


def test_unreadable_captures_are_an_error(run, reader, tmp_path):
    reader.analysis = replace(
        analysis([], skipped=[SkippedFile("bad.pcap", "no pcap or pcapng file. Name a capture")]), captures=[]
    )
    out = tmp_path / "out"
    done = run("report", "bad.pcap", "-o", str(out))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "ikeanalyze: bad.pcap: no pcap or pcapng file. Name a capture\n"
    assert not out.exists()


def test_skipped_captures_are_reported(run, reader):
    reader.analysis = analysis(skipped=[SkippedFile("bad.pcap", "empty file"), SkippedFile("-", "empty file")])
    done = run("report", CAPTURE, "bad.pcap", "-", "--quiet")
    assert done.exit_code == 3
    assert done.stdout
    assert done.stderr == "ikeanalyze: bad.pcap: empty file\nikeanalyze: standard input: empty file\n"


def test_damaged_is_done_with_a_warning(run, reader):
    a = analysis()
    reader.analysis = replace(a, captures=[replace(a.captures[0], damaged=True)])
    done = run("report", CAPTURE)
    assert done.exit_code == 0
    assert f"{CAPTURE}: truncated or damaged after packet 42" in done.stderr
    reader.analysis = replace(reader.analysis, warnings=[AnalysisWarning(CAPTURE, None, "cut in packet 43")])
    assert run("report", CAPTURE).stderr == f"ikeanalyze: {CAPTURE}: cut in packet 43\n"
    assert run("report", CAPTURE, "--quiet").stderr == ""


def test_ten_warnings_per_capture(run, reader):
    warnings = [AnalysisWarning(path, i, "odd") for i in range(1, 13) for path in (CAPTURE, "other")]
    reader.analysis = replace(
        analysis(warnings=warnings), captures=[analysis_examples.summary(CAPTURE), analysis_examples.summary("other")]
    )
    lines = run("report", CAPTURE, "other").stderr.splitlines()
    assert lines[0] == f"ikeanalyze: {CAPTURE}: packet 1: odd"
    assert lines[10] == f"ikeanalyze: {CAPTURE}: 2 more warnings. --verbose shows all of them"
    assert len(lines) == 22
    assert len(run("report", CAPTURE, "--verbose").stderr.splitlines()) == 25
    assert len(json.loads(run("report", CAPTURE, "--format", "json").stdout)["warnings"]) == 24


def test_a_capture_without_handshakes_is_reported(run, reader):
    reader.analysis = analysis([])
    done = run("report", CAPTURE)
    assert done.exit_code == 0
    # the capture of this example has packets of ESP
    assert "no handshake found. There is ESP, whose handshake may have been before the capture began. If IKE uses" in (
        done.stderr
    )


def test_a_capture_without_packets_needs_no_other_port(run, tmp_path):
    path = tmp_path / "header.pcap"
    path.write_bytes((CAPTURES / "psk-classic.pcap").read_bytes()[:24])
    done = run("report", str(path))
    assert (done.exit_code, done.stderr) == (0, "ikeanalyze: no handshake found: the capture has no packets\n")


def test_a_damaged_first_packet_is_not_a_capture_without_packets(run, tmp_path):
    path = tmp_path / "damaged.pcap"
    path.write_bytes((CAPTURES / "psk-classic.pcap").read_bytes()[:24] + b"\xff" * 100)
    done = run("report", str(path))
    assert done.stderr.endswith("ikeanalyze: no handshake found: no packet can be read, see the warnings\n")
    assert "damaged at byte 24" in done.stderr


def test_a_capture_and_its_compressed_copy_are_named(run, tmp_path):
    content = (CAPTURES / "psk-classic.pcap").read_bytes()
    plain, copy = tmp_path / "a.pcap", tmp_path / "a.pcap.gz"
    plain.write_bytes(content)
    copy.write_bytes(gzip.compress(content))
    expected = (
        f"ikeanalyze: {plain} and {copy} have the same packets, which are counted for each: name one of them only"
    )
    assert expected in run("report", str(plain), str(copy)).stderr.splitlines()
    assert "have the same packets" not in run("report", str(plain), str(CAPTURES / "pq-mlkem768-psk.pcap")).stderr


def test_no_handshake_because_packets_are_truncated(run, tmp_path):
    whole = (CAPTURES / "psk-classic.pcap").read_bytes()
    cut, at = bytearray(whole[:24]), 24
    while at < len(whole):
        seconds, fraction, captured, length = struct.unpack_from("<IIII", whole, at)
        # 60 bytes: Ethernet 14, IPv4 20, UDP 8, of the IKE header 18 of 28
        cut += struct.pack("<IIII", seconds, fraction, 60, length) + whole[at + 16 : at + 76]
        at += 16 + captured
    path = tmp_path / "cut.pcap"
    path.write_bytes(cut)
    done = run("report", str(path))
    assert "Packets were truncated when they were captured: capture whole ones (tcpdump -s 0). If IKE" in done.stderr


def test_no_handshake_because_packets_cannot_be_read(run, tmp_path):
    path = write_wrapped(tmp_path / "macsec.pcap", CAPTURES / "psk-classic.pcap", tunnel.ENCRYPTED_MACSEC)
    done = run("report", str(path))
    assert "4 packets are inside encrypted MACsec, which cannot be read: counted as other" in done.stderr
    assert "no handshake found. It may be in the packets that cannot be read, see the warnings" in done.stderr


def test_the_tunnel_is_shown(run, tmp_path):
    path = write_wrapped(tmp_path / "vxlan.pcap", CAPTURES / "psk-classic.pcap", tunnel.ALL["vxlan"])
    assert "tunnel" in run("report", str(path)).stdout
    assert "vxlan:42" in run("report", str(path)).stdout
    (handshake,) = json.loads(run("report", str(path), "--format", "json").stdout)["handshakes"]
    assert handshake["tunnel"] == "vxlan:42"
    many = write_wrapped(tmp_path / "many.pcap", CAPTURES / "loss20-classic.pcap", tunnel.ALL["vxlan"])
    assert "vxlan:42" in run("report", str(many)).stdout
    assert "  tunnel " not in run("report", str(CAPTURES / "loss20-classic.pcap")).stdout
    assert "vxlan:42" in run("report", str(many), "--format", "csv").stdout


def test_output_that_cannot_be_written(run, reader, tmp_path):
    done = run("report", CAPTURE, "-o", str(tmp_path / "no" / "such"))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"ikeanalyze: {tmp_path}/no/such: the directory {tmp_path}/no does not exist")
    assert reader.asked == {}, "nobody waits for the reading to learn it"


def test_what_a_capture_says_does_not_reach_the_terminal(run, reader):
    reader.analysis = analysis(warnings=[AnalysisWarning(CAPTURE, 1, "bad \x1b[2J\nname")])
    assert run("report", CAPTURE).stderr == f"ikeanalyze: {CAPTURE}: packet 1: bad \\x1b[2J name\n"

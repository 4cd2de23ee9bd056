"""The command as a process of its own: pipes, signals, devices, and how fast it starts."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ikeanalyze import core
from tests.craft import SECOND, Handshake, Trace, transport
from tests.paths import ROOT

CAPTURE, LOG = (str(ROOT / "captures" / f"pq-mlkem768-psk.{suffix}") for suffix in ("pcap", "charon.log.gz"))

# The command line with captures read by hand: 2,000 handshakes, more than a pipe holds.
STAND_IN = """
import ikeanalyze.analysis.read
from tests.render import analysis_examples
def analyse_captures(paths, options):
    if paths == ["slow"]:
        import time
        print("reading", flush=True)
        time.sleep(300)
    return analysis_examples.analysed(analysis_examples.analysis([1] * 2000))
ikeanalyze.analysis.read.analyse_captures = analyse_captures
from ikeanalyze.cli import main
main()
"""


def run(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ikeanalyze", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, **options)


def stand_in(*arguments: str, **options) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", STAND_IN, *arguments],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        **options,
    )


@pytest.mark.parametrize("arguments", [["--help"], ["report", "--help"], ["ladder", "-h"], ["doctor", "--help"]])
def test_help_is_printed(arguments):
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ikeanalyze")
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("options", [["--format", "html"], ["--figures", "figures"]])
def test_figures_without_docstrings_are_an_error_of_one_line(options, tmp_path):
    command = [sys.executable, "-OO", "-m", "ikeanalyze", "report", ROOT / "captures" / "psk-classic.pcap", "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "without docstrings. Run Python without -OO" in done.stderr


def test_the_version_is_printed():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("ikeanalyze ")


@pytest.mark.parametrize("arguments", [["rep"], ["--nonsense"], ["report"], ["ladder", "a", "b"]])
def test_wrong_usage_exits_with_2(arguments):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ikeanalyze: ")
    assert len(done.stderr.splitlines()) == 1


def test_without_arguments_help_is_printed():
    done = run()
    assert done.returncode == 2
    assert "Usage: ikeanalyze" in done.stdout + done.stderr


def test_a_closed_pipe_is_not_an_error():
    process = stand_in("report", "x", "--format", "jsonl", stdout=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        (["verify", CAPTURE, "--keys", LOG, "--psk", "PSK"], 1, b"2 checks failed"),
        (["report", CAPTURE, "--fail-on", "setup_ms>1"], 4, b"setup_ms>1"),
        (["report", CAPTURE, "no.pcap"], 3, b"no.pcap"),
        (["ladder", CAPTURE, "--keys", LOG, "--keys", "PSK"], 3, b"PSK"),
        (["keys", LOG, "PSK"], 3, b"PSK"),
    ],
    ids=["verify", "report --fail-on", "report", "ladder", "keys"],
)
def test_a_closed_pipe_does_not_hide_a_failure(arguments, status, problem, tmp_path):
    (tmp_path / "PSK").write_text("another secret\n")
    reader, out = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ikeanalyze", *arguments, "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, timeout=60, cwd=tmp_path, env=environment)
    os.close(out)
    assert done.returncode == status
    assert problem in done.stderr


def test_an_interrupt_ends_without_traceback():
    process = stand_in("report", "slow", stdout=subprocess.PIPE)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.stderr.read() == b"ikeanalyze: interrupted\n"
    assert process.wait(timeout=60) == 130


def test_an_interrupt_while_modules_are_imported_ends_without_traceback(tmp_path):
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-m", "ikeanalyze", "report", "captures/psk-classic.pcap"]
    done = subprocess.run(command, capture_output=True, timeout=60, cwd=ROOT, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"ikeanalyze: interrupted\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_an_error():
    with open("/dev/full", "wb") as full:
        process = stand_in("report", "x", "--format", "json", stdout=full)
        reported = process.stderr.read()
    assert process.wait(timeout=60) == 1
    assert reported.startswith(b"ikeanalyze: standard output: cannot be written: No space left on device")
    assert len(reported.splitlines()) == 1


def processor_seconds() -> float:
    """What ended processes of ours took, however long they had to wait for it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.alone
def test_starting_is_fast():
    code = "import sys, ikeanalyze; print({'polars', 'numpy', 'typer', 'rich'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
    code = "import sys, ikeanalyze.cli; print({'polars', 'numpy', 'rich', 'dpkt'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
    best = float("inf")
    for _ in range(5):
        start = processor_seconds()
        run("--help")
        best = min(best, processor_seconds() - start)
    assert best < 0.25


def list_loaded_modules(*arguments: str) -> set[str]:
    """The modules that a command loads."""
    command = [sys.executable, "-X", "importtime", "-m", "ikeanalyze", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.mark.parametrize("form", ["terminal", "json"])
def test_a_small_report_loads_little_but_numpy_and_polars(form):
    """Most of the time of a small report is that of imports."""
    loaded = list_loaded_modules("report", "captures/pq-mlkem768-psk.pcap", "--format", form)
    unused = {"altair", "cryptography", "jinja2", "numpy.ma", "pydantic", "rich.console", "scipy"}
    assert not unused & loaded
    protocols = ("ikev1.message", "eap", "radius", "hip", "x509")
    assert not {f"ikeanalyze.wire.{name}" for name in protocols} & loaded
    assert sum(name.startswith("ikeanalyze") for name in loaded) <= 142


def test_a_large_capture_with_few_ike_packets_loads_as_little(tmp_path):
    trace = Trace()
    trace.play(Handshake(1).setup())
    for number in range(7000):
        trace.send(SECOND, transport.esp(1, number, bytes(1400)), sport=4500, dport=4500)
    path = trace.write(tmp_path / "esp.pcap")
    assert path.stat().st_size > core.MIN_FILE_BYTES
    loaded = list_loaded_modules("report", str(path), "--format", "parquet", "-o", str(tmp_path / "tables"))
    unused = {"numpy.ma", "ikeanalyze.analysis.handshakes.diagnosis.diagnose"}
    if core.compiled is not None:  # it writes the tables
        unused.add("polars")
    assert not unused & loaded


@pytest.mark.skipif(core.compiled is None, reason="without the core polars writes the tables")
@pytest.mark.parametrize("keys", [[], ["--keys", "captures/pq-mlkem768-psk.keys.json"]], ids=["clear", "decrypted"])
def test_the_core_writes_tables_without_polars(keys, tmp_path):
    command = ["report", "captures/pq-mlkem768-psk.pcap", *keys, "--format", "parquet", "-o", str(tmp_path / "tables")]
    loaded = list_loaded_modules(*command)
    assert "ikeanalyze.render.report.parquet_columns" in loaded
    assert not {"polars", "numpy.ma"} & loaded
    assert len(list((tmp_path / "tables").iterdir())) == 5


@pytest.mark.skipif(core.compiled is None, reason="without the core polars writes the tables")
def test_a_diagnosis_needs_no_polars(tmp_path):
    command = ["report", "captures/faults/mtu-black-hole.pcapng", "--format", "parquet", "-o", str(tmp_path / "tables")]
    loaded = list_loaded_modules(*command)
    assert "ikeanalyze.analysis.handshakes.diagnosis.diagnose" in loaded
    assert not {"polars", "numpy.ma"} & loaded


def test_a_small_report_makes_few_dataclasses():
    """Each takes half a millisecond, thirty times as long as a msgspec.Struct."""
    code = """
import sys
from dataclasses import is_dataclass
import ikeanalyze.analysis.pipeline, ikeanalyze.cli.captures.report
classes = {value for name, module in list(sys.modules.items()) if name.startswith("ikeanalyze")
           for value in vars(module).values() if isinstance(value, type) and is_dataclass(value)}
print(len(classes))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert int(done.stdout) <= 10


def test_closed_standard_streams():
    process = stand_in("report", "x", preexec_fn=lambda: os.close(1))
    assert process.stderr.read().startswith(b"ikeanalyze: standard output: is closed.")
    assert process.wait(timeout=60) == 1


SMALL = [
    ["--help"],
    ["--version"],
    ["report", "--help"],
    ["doctor"],
    ["doctor", "--format", "json"],
    ["wireshark", "status"],
    ["keys", "captures/psk-classic.keys.json"],
    ["report", "captures/psk-classic.pcap"],
    ["live", "captures/psk-classic.pcap"],
    ["live", "captures/psk-classic.pcap", "--format", "jsonl"],
]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("buffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("arguments", SMALL, ids=" ".join)
def test_little_output_on_a_full_disk(arguments, buffered, tmp_path):
    """What fits into a buffer fails when that is flushed, at the end."""
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONUNBUFFERED": buffered}
    command = [sys.executable, "-m", "ikeanalyze", *arguments]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, cwd=ROOT, env=environment)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(b"ikeanalyze: standard output: cannot be written: No space left on device")
    assert done.returncode == 1


@pytest.mark.parametrize("arguments", SMALL, ids=" ".join)
def test_nobody_reads_the_output(arguments, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "ikeanalyze", *arguments]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60, cwd=ROOT, env=environment)
    os.close(writing)
    assert done.returncode == 0
    assert b"error" not in done.stderr


@pytest.mark.parametrize("command", ["report", "ladder"])
def test_a_closed_standard_error_changes_nothing(command):
    """Nobody can be told of anything, and the result is the same."""
    arguments = [sys.executable, "-m", "ikeanalyze", command, "captures/psk-classic.pcap"]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, cwd=ROOT, timeout=60, preexec_fn=lambda: os.close(2))
    assert (done.returncode, done.stdout.decode()) == (0, run(*arguments[3:]).stdout)
    assert done.stdout


def test_colour_that_is_forced_stays_out_of_files(tmp_path):
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    arguments = ["report", "captures/psk-classic.pcap"]
    assert "\x1b[" in run(*arguments, env=environment).stdout
    path = tmp_path / "report.txt"
    run(*arguments, "-o", str(path), env=environment)
    assert "Handshake 1" in path.read_text()
    assert "\x1b" not in path.read_text()

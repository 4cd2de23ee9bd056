"""Under `ulimit -v`, as shared machines set it, drawing is refused before anything is read or written."""

import resource
import subprocess
import sys

import pytest

from tests.paths import CAPTURES

CAPTURE = str(CAPTURES / "psk-classic.pcap")
GIGABYTES = 10


def limited(*arguments, gigabytes=GIGABYTES):
    size = gigabytes << 30

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (size, size))

    command = [sys.executable, "-m", "ikeanalyze", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, preexec_fn=limit)


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", CAPTURE, "--format", "html", "-o", "report.html"],
        ["report", CAPTURE, "--format", "html"],
        ["report", CAPTURE, "--figures", "figures"],
        ["rank", "epc-aka", "--figures", "figures"],
    ],
    ids=" ".join,
)
def test_a_limit_that_drawing_needs_more_than_is_an_error_of_one_line(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    done = limited(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ikeanalyze: figures: cannot be drawn: the address space is limited to 10,485,760 KiB")
    assert list(tmp_path.iterdir()) == []


def test_formats_without_figures_need_no_more(tmp_path):
    done = limited("report", CAPTURE, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_limit_that_suffices_is_no_error(tmp_path):
    """A terabyte of addresses."""
    page = tmp_path / "page.html"
    done = limited("report", CAPTURE, "--format", "html", "-o", str(page), gigabytes=1024)
    assert (done.returncode, done.stderr) == (0, "")
    assert page.read_text().endswith("</html>\n")

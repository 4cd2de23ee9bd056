import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

from tests.paths import CAPTURES

ALTERNATE_SCREEN_LEFT = b"\x1b[?1049l"


class Terminal:
    """The command in a terminal of its own."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "ikeanalyze", "view", *arguments]
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30", **environment},
            start_new_session=True,
        )
        os.close(theirs)
        self.fd = ours
        self.seen = b""

    def until(self, text: bytes, seconds: float = 60) -> bool:
        """Wait for output; False: it did not come."""
        end = time.monotonic() + seconds
        while text not in self.seen and time.monotonic() < end:
            ready, _, _ = select.select([self.fd], [], [], 0.2)
            if ready:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:  # the other side is closed
                    break
        return text in self.seen

    def keys(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def end(self) -> int:
        """Its exit status, with all output read."""
        self.until(b"\0never")
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            os.close(self.fd)


def test_the_browser_ends_with_its_terminal():
    """Its process has no controlling terminal, and so gets no SIGHUP."""
    terminal = Terminal(str(CAPTURES / "psk-classic.pcap"))
    assert terminal.until(b"completed"), terminal.seen
    os.close(terminal.fd)
    try:
        terminal.process.wait(30)
    finally:
        terminal.process.kill()


@pytest.mark.parametrize("leave", [b"q", b"\x03"])
def test_the_browser_runs_in_a_terminal(leave):
    capture = CAPTURES / "psk-classic.pcap"
    terminal = Terminal(str(capture), "--keys", str(CAPTURES / "psk-classic.keys.json"))
    assert terminal.until(b"established"), terminal.seen
    terminal.keys(b"\r")
    assert terminal.until(b"IKE_AUTH 1 request"), terminal.seen
    if leave == b"q":  # back to the list first
        terminal.seen = b""
        terminal.keys(b"q")
        assert terminal.until(b"established"), terminal.seen
    terminal.keys(leave)
    assert terminal.end() == 0
    assert ALTERNATE_SCREEN_LEFT in terminal.seen
    assert b"Traceback" not in terminal.seen


def test_a_growing_capture_is_followed(tmp_path):
    data = (CAPTURES / "loss20-classic.pcap").read_bytes()
    path = tmp_path / "growing.pcap"
    path.write_bytes(data[:1000])
    terminal = Terminal(str(path), "--follow")
    assert terminal.until(b"no handshake has ended yet"), terminal.seen
    with open(path, "ab") as file:
        file.write(data[1000:])
    # the last ones end when the file has not grown for some seconds
    assert terminal.until(b"2,847.942"), terminal.seen
    terminal.keys(b"q")
    assert terminal.end() == 0
    assert b"Traceback" not in terminal.seen


def test_a_broken_capture_is_one_line_before_the_screen(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(b"no capture at all")
    terminal = Terminal(str(path))
    assert terminal.end() == 1
    assert terminal.seen.decode().split("\r\n") == [
        f"ikeanalyze: {path}: not a pcap or pcapng file; it looks like text",
        "",
    ]


def test_colours_are_the_terminals_own_and_none_with_no_color():
    capture = str(CAPTURES / "loss20-classic.pcap")
    for more in ({}, {"NO_COLOR": "1"}):
        terminal = Terminal(capture, **more)
        assert terminal.until(b"25 handshakes")
        assert terminal.until(b"quit")
        terminal.keys(b"q")
        assert terminal.end() == 0
        assert b"[38;2;" not in terminal.seen
        assert b";38;2;" not in terminal.seen
        assert b"48;2;" not in terminal.seen
        assert bool(re.search(rb"[\[;]35[;m]", terminal.seen)) == (not more), "magenta: retransmissions"
        assert re.search(rb"[\[;]7[;m]", terminal.seen), "the cursor is reversed, with colours and without"


def test_a_terminal_that_sends_no_utf8():
    terminal = Terminal(str(CAPTURES / "psk-classic.pcap"))
    assert terminal.until(b"quit")
    terminal.keys(b"\xe9")
    terminal.keys(b"q")  # what follows it shows that it is none
    assert terminal.end() == 1
    assert terminal.seen.count(b"ikeanalyze: the terminal cannot be read: ") == 1
    assert b"Set it to UTF-8" in terminal.seen
    assert b"Traceback" not in terminal.seen


def test_the_browser_needs_a_terminal():
    command = [sys.executable, "-m", "ikeanalyze", "view", str(CAPTURES / "psk-classic.pcap")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ikeanalyze: view needs a terminal, but standard input is not one. ")
    assert done.stderr.count("\n") == 1


def test_a_terminal_that_cannot_move_its_cursor():
    terminal = Terminal("x", TERM="dumb")
    assert terminal.end() == 2
    assert b"Set TERM" in terminal.seen


def test_a_missing_extra_is_an_error(tmp_path):
    # Python looks here first, and finds a package that says it is not there
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'textual' else find(name, *more)\n"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    terminal = Terminal(str(CAPTURES / "psk-classic.pcap"), PYTHONPATH=paths)
    assert terminal.end() == 1
    said = rb"ikeanalyze: view needs Textual, which is not installed: (\S+ -m )?pip install textual\r\n"
    assert re.fullmatch(said, terminal.seen)


def test_who_quits_while_a_handshake_is_read_leaves_nothing_behind(tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    (tmp_path / "sitecustomize.py").write_text(
        "import os, time\nfrom ikeanalyze.view import session\nread = session.read_captures\n"
        "def slowly(*a, **k):\n    while not os.path.exists(os.environ['MAY_GO_ON']):\n        time.sleep(0.01)\n"
        "    return read(*a, **k)\nsession.read_captures = slowly\n"
    )
    may_go_on = tmp_path / "may-go-on"
    paths = os.pathsep.join([str(tmp_path), os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    terminal = Terminal(
        str(CAPTURES / "psk-classic.pcap"), PYTHONPATH=paths, TMPDIR=str(room), MAY_GO_ON=str(may_go_on)
    )
    assert terminal.until(b"quit")
    terminal.keys(b"\r")
    assert terminal.until(b"loading...")
    end = time.monotonic() + 60
    while not list(room.iterdir()) and time.monotonic() < end:
        time.sleep(0.01)
    assert list(room.iterdir())
    terminal.keys(b"\x03")
    assert terminal.until(ALTERNATE_SCREEN_LEFT), terminal.seen  # it has been quit, and the handshake is still read
    assert list(room.iterdir())
    may_go_on.touch()
    assert terminal.end() == 0
    assert list(room.iterdir()) == []


@pytest.mark.parametrize(
    "where", ["widgets.handshake_list.HandshakeList.choose", "session.CaptureSession.load_handshake"]
)
def test_a_bug_of_ours_is_one_line_and_shows_no_values(tmp_path, where):
    module, name, method = where.rsplit(".", 2)
    (tmp_path / "sitecustomize.py").write_text(
        f"from ikeanalyze.view.{module} import {name}\n"
        "def fails(self, *_):\n    key = 'SK_' + 'secret'\n    raise RuntimeError('oops')\n"
        f"{name}.{method} = fails\n"
    )
    paths = os.pathsep.join([str(tmp_path), os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    terminal = Terminal(str(CAPTURES / "psk-classic.pcap"), PYTHONPATH=paths)
    assert terminal.until(b"1 handshake")
    terminal.keys(b" " if method == "choose" else b"\r")
    assert terminal.end() == 1
    reported = terminal.seen.rpartition(b"\x1b")[2]
    assert b"ikeanalyze: internal error: " in reported
    assert b"oops" in reported
    assert b"Traceback" not in terminal.seen
    assert b"SK_secret" not in terminal.seen


@pytest.mark.parametrize("arguments", [["-"], ["x", "--keys", "-"]])
def test_standard_input_is_for_keys(run, arguments):
    done = run("view", *arguments)
    assert done.exit_code == 2
    assert "name a file" in done.stderr
    assert done.stderr.count("\n") == 1

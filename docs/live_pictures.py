"""Makes docs/images/live*.{svg,png} anew: `ikeanalyze live -i eth0` in a terminal, and its metrics in Chromium.

    sudo unshare --net .venv/bin/python -m docs.live_pictures

sends recorded packets through a pair of virtual interfaces at their own pace, all of it in the network namespace that
unshare makes. Needs dumpcap, editcap, iproute2, and what docs/html_pictures.py needs. Takes a minute. Look at the
pictures before they are committed.
"""

import fcntl
import io
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

from docs.html_pictures import open_browser, set_width, write_png
from docs.view_picture import replace_fonts

ROOT = Path(__file__).parents[1]
PORT = 9465
COMMAND = ("live", "-i", "eth0", "--settle", "3", "--timeout", "15", "--metrics", str(PORT))
#: Recordings between different hosts, and the seconds after which each is sent.
RECORDINGS = ((0, "captures/faults/mtu-black-hole.pcapng"), (1, "captures/pq-loss15.pcap"))
COLUMNS, LINES = 124, 40
#: After these seconds, the last recording that is shown has ended.
SECONDS = 32
METRICS_SIZE = (900, 930)  # px


def connect() -> None:
    """Make the interface eth0, and `cable`, which leads to it."""
    if [name for _index, name in socket.if_nameindex()] != ["lo"]:
        sys.exit("live_pictures: not in a network namespace of its own: see the beginning of this file")
    for command in (
        "link set lo up",
        "link add cable type veth peer name eth0",
        "link set eth0 arp off addrgenmode none up",
        "link set cable arp off addrgenmode none up",
    ):
        subprocess.run(["ip", *command.split()], check=True)


def send_recordings(folder: Path) -> None:
    """Send them, and wait until SECONDS have passed."""
    start = time.monotonic()
    senders = []
    for after, name in RECORDINGS:
        packets = folder / f"{len(senders)}.pcap"
        subprocess.run(["editcap", "-F", "pcap", ROOT / name, packets], check=True)
        time.sleep(max(0, start + after - time.monotonic()))
        command = [sys.executable, "-m", "benchmarks.live.send", str(packets), "cable"]
        senders.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL))
    time.sleep(max(0, start + SECONDS - time.monotonic()))
    for sender in senders:
        sender.wait()


def start_live() -> tuple[subprocess.Popen[bytes], io.BytesIO]:
    """Start the program on a terminal; return it, and what it writes there."""
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", LINES, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "ikeanalyze", *COMMAND]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    written = io.BytesIO()

    def read() -> None:
        try:
            while data := os.read(ours, 4096):
                written.write(data)
        except OSError:  # the program has ended
            os.close(ours)

    threading.Thread(target=read, daemon=True).start()
    return process, written


def draw_terminal(written: bytes) -> str:
    """What the terminal shows, as SVG."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="256")
    for line in written.decode().replace("\r\n", "\n").splitlines():
        console.print(Text.from_ansi(line), soft_wrap=True)
    return replace_fonts(console.export_svg(title=f"ikeanalyze {' '.join(COMMAND)}"))


def main() -> None:
    """Make both."""
    connect()
    with TemporaryDirectory() as folder, open_browser() as driver:
        process, written = start_live()
        try:
            time.sleep(5)  # until dumpcap captures
            send_recordings(Path(folder))
            shown = written.getvalue()
            set_width(driver, METRICS_SIZE[0])
            driver.get(f"http://127.0.0.1:{PORT}/metrics")
            write_png(driver, "live-metrics", 0, *METRICS_SIZE)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
    (ROOT / "docs/images/live.svg").write_text(draw_terminal(shown), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Wireshark's window on a virtual screen: `python -m tests.dissectors.windows TREE FOLDER` writes screenshots of it.

TREE is a Debian tree with Wireshark, an X server and tools, which `make windows` makes: bookworm-wireshark has
Wireshark 4.0, forky-wireshark the newest one.
"""

import gzip
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.paths import CAPTURES, ROOT
from tests.tsharks import Room, Tshark, find, trees

DISSECTORS = ROOT / "dissectors"
PROFILE = "home/.config/wireshark/profiles"
#: Releases of Debian whose Wireshark is tested, as `make windows` names their trees.
TREES = ("bookworm-wireshark", "forky-wireshark")
SCREEN = (1400, 900)
SECONDS = 60  # until a window appears
#: Of Wireshark: no updates, no questions when it exits, the window as large as the screen.
RECENT = (
    f"gui.geometry_main_maximized: TRUE\ngui.geometry_main_width: {SCREEN[0]}\ngui.geometry_main_height: {SCREEN[1]}\n"
)
PREFERENCES = "gui.ask_unsaved: FALSE\ngui.update.enabled: FALSE\n"


def find_wireshark(name: str) -> Tshark | str:
    """The tree of this name, or why there is none."""
    missing = [
        program
        for program in ("wireshark", "Xvfb", "xdotool", "import", "openbox")
        if not os.path.lexists(trees() / name / "usr/bin" / program)  # links of a tree lead nowhere outside of it
    ]
    if missing:
        return f"no {', '.join(missing)} in {trees() / name}: make windows"
    return find(name)


def _enter(room: Room, *words: str) -> list[str]:
    """The command line of a program in the room, whose tree has /proc."""
    mount = 'mount -t proc proc "$0/proc" && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mount, str(room.tshark.root), *room.command(*words, own_config=False)]


@dataclass
class Screen:
    """A virtual screen with a window manager, in a room."""

    room: Room
    display: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def _command(self, *words: str) -> list[str]:
        runtime = f"XDG_RUNTIME_DIR={self.room.path}/runtime"
        return _enter(self.room, "env", f"DISPLAY={self.display}", runtime, *words)

    def start(self, *words: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start a program on the screen."""
        errors = (self.room.path / "errors").open("ab")
        process = subprocess.Popen(self._command(*words), stdin=stdin, stdout=errors, stderr=errors)
        self.processes.append(process)
        return process

    def run(self, *words: str) -> str:
        """Run a program on the screen, and return its output."""
        done = subprocess.run(self._command(*words), capture_output=True, text=True, timeout=SECONDS, check=False)
        return done.stdout

    def titles(self) -> list[str]:
        """The titles of the visible windows."""
        windows = self.run("xdotool", "search", "--onlyvisible", "--name", ".").split()
        return [self.run("xdotool", "getwindowname", window).strip() for window in windows]

    def wait_for(self, title: str) -> None:
        """Wait for a window whose title matches a regular expression."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            if any(re.search(title, shown) for shown in self.titles()):
                time.sleep(1)  # it is drawn
                return
            time.sleep(0.5)
        raise TimeoutError(f"no window {title!r}, but {self.titles()}; {self.errors()}")

    def focus(self, title: str) -> None:
        """Bring a window to the front."""
        self.run("xdotool", "search", "--onlyvisible", "--name", title, "windowactivate", "--sync", "%1")

    def press(self, *keys: str) -> None:
        """Press keys one after another, as xdotool names them."""
        for key in keys:
            self.run("xdotool", "key", key)
            time.sleep(0.3)

    def type(self, text: str) -> None:
        """Type a text."""
        self.run("xdotool", "type", "--delay", "20", text)

    def click(self, x: int, y: int, button: int = 1) -> None:
        """Click at a position of the screen."""
        self.run("xdotool", "mousemove", str(x), str(y), "click", str(button))
        time.sleep(0.5)

    def shoot(self, path: Path) -> Path:
        """Write a picture of the screen."""
        inside = self.room.path / "home/shot.png"
        self.run("import", "-window", "root", "+dither", "-colors", "64", "-strip", f"png8:{inside}")
        path.write_bytes(inside.read_bytes())
        return path

    def count_pixels(self, color: str) -> int:
        """How many pixels of the screen have this color: "FFCCCC"."""
        inside = self.room.path / "home/pixels.png"
        self.run("import", "-window", "root", str(inside))
        histogram = self.run("convert", str(inside), "-depth", "8", "-format", "%c", "histogram:info:-")
        match = re.search(rf"(\d+): .*#{color}(?:FF)? ", histogram)
        return int(match[1]) if match else 0

    def errors(self) -> str:
        """What the programs wrote."""
        return (self.room.path / "errors").read_text(errors="replace")


@contextmanager
def open_screen(tree: Tshark, *, keys: bytes | None = None) -> Iterator[Screen]:
    """A screen whose Wireshark has the plugin, the profile, and a key file in the personal folder."""
    with ExitStack() as stack:
        room = stack.enter_context(tree.room())
        room.put("home/.local/lib/wireshark/plugins", DISSECTORS)
        room.put(PROFILE, DISSECTORS / "profiles")
        room.put("home/.config/wireshark/recent_common", RECENT)
        room.put("home/.config/wireshark/preferences", PREFERENCES)
        if keys is not None:
            room.put("home/.config/wireshark/ikex_keys", keys)
        room.put("runtime/.keep", "")
        sockets = tree.root / "tmp/.X11-unix"
        sockets.mkdir(exist_ok=True)
        sockets.chmod(0o1777)
        read, write = os.pipe()
        size = f"{SCREEN[0]}x{SCREEN[1]}x24"
        command = ["Xvfb", "-displayfd", str(write), "-screen", "0", size, "-nolisten", "tcp"]
        server = subprocess.Popen(
            _enter(room, *command), pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(write)
        stack.callback(_end, server)
        with os.fdopen(read) as display:
            screen = Screen(room, f":{display.readline().strip()}")
        stack.callback(lambda: [_end(process) for process in reversed(screen.processes)])
        time.sleep(1)
        screen.start("openbox")
        time.sleep(1)
        yield screen


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def open_capture(screen: Screen, capture: Path, *arguments: str) -> None:
    """Open a capture in Wireshark with the profile "IKE", and wait for its window."""
    path = screen.room.put(f"captures/{capture.name}", capture)
    screen.start("wireshark", "-n", "-C", "IKE", "-r", str(path), *arguments)
    screen.wait_for(re.escape(capture.name))


def open_statistics(screen: Screen, number: int, title: str) -> None:
    """Choose an item of Statistics, IKE by its number, and wait for its window.

    Before 4.2, these items are not in a menu of their own. Their place depends on the items of the version before them.
    """
    has_submenu = screen.room.tshark.version >= (4, 2, 0)
    before = 10 if screen.room.tshark.version >= (4, 6, 0) else 9
    downs = ["Down"] * before + (["Right"] + ["Down"] * number if has_submenu else ["Down"] * number)
    screen.press("alt+s", *downs, "Return")
    screen.wait_for(title)


def open_packet_menu(screen: Screen, number: int) -> None:
    """Choose an item of the menu IKE of a packet, by its number."""
    screen.click(400, 190, button=3)
    screen.press(*["Down"] * 6, "Right", *["Down"] * number, "Return")


def feed_capture(screen: Screen, capture: Path, seconds: float) -> None:
    """Capture in Wireshark from a pipe, for some seconds: each packet comes at its own time."""
    data, start, records = capture.read_bytes(), 24, []
    while start < len(data):
        end = start + 16 + int.from_bytes(data[start + 8 : start + 12], "little")
        when, microseconds = (int.from_bytes(data[start + at : start + at + 4], "little") for at in (0, 4))
        records.append((when + microseconds / 1e6, data[start:end]))
        start = end
    read, write = os.pipe()
    screen.start("wireshark", "-n", "-C", "IKE", "-k", "-i", "-", stdin=read)
    os.close(read)
    with os.fdopen(write, "wb", buffering=0) as pipe:
        pipe.write(data[:24])
        screen.wait_for("^Capturing")
        begin, first = time.monotonic(), records[0][0]
        for when, record in records:
            if when - first > seconds:
                break
            time.sleep(max(0, when - first - (time.monotonic() - begin)))
            pipe.write(record)
        time.sleep(1)
        screen.shoot(screen.room.path / "live.png")


def take_pictures(tree: Tshark, folder: Path) -> None:
    """Write the pictures of the documentation."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = gzip.decompress((CAPTURES / "pq-mlkem768-psk.charon.log.gz").read_bytes())
    with open_screen(tree, keys=keys) as screen:
        open_capture(screen, CAPTURES / "loss20-classic.pcap")
        open_statistics(screen, 0, "IKE handshakes")
        screen.press("Tab", "Tab", "Tab", "space", "space")  # Filter next, twice
        time.sleep(2)
        screen.shoot(folder / "wireshark-handshakes.png")
    with open_screen(tree) as screen:
        open_capture(screen, CAPTURES / "faults" / "mlkem-black-hole.pcapng")
        open_statistics(screen, 2, "IKE diagnosis")
        screen.shoot(folder / "wireshark-diagnosis.png")
    with open_screen(tree, keys=keys) as screen:
        open_capture(screen, CAPTURES / "pq-mlkem768-psk.pcap", "-Y", "isakmp")
        screen.press("alt+s", *["Down"] * 18, "Return")
        screen.wait_for("Flow")
        screen.shoot(folder / "wireshark-flow-graph.png")
    with open_screen(tree) as screen:
        feed_capture(screen, CAPTURES / "pq-loss15.pcap", 18)
        (folder / "wireshark-live.png").write_bytes((screen.room.path / "live.png").read_bytes())


if __name__ == "__main__":
    chosen = find_wireshark(sys.argv[1])
    if not isinstance(chosen, Tshark):
        sys.exit(chosen)
    take_pictures(chosen, Path(sys.argv[2]))

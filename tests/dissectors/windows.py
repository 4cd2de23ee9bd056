"""Wireshark's window on a virtual screen.

Wireshark is in Debian trees that `make windows` makes: bookworm-wireshark has
Wireshark 4.0, forky-wireshark the newest one.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.paths import ROOT
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

    def active(self) -> str:
        """The title of the active window: also of a dialog, which is not in `titles`."""
        return self.run("xdotool", "getactivewindow", "getwindowname").strip()

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

    def shoot(self, path: Path, part: str = "") -> Path:
        """Write a picture of the screen, or of a part of it: "400x300+0+0", width, height, and position."""
        inside = self.room.path / "home/shot.png"
        crop = ["-crop", part, "+repage"] if part else []
        self.run("import", "-window", "root", *crop, "+dither", "-colors", "64", "-strip", f"png8:{inside}")
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


def open_statistics(screen: Screen, number: int, title: str | None) -> None:
    """Choose an item of Statistics, IKE by its number, and wait for its window; without a title, only show the menu.

    Before 4.2, these items are not in a menu of their own. Their place depends on the items of the version before them.
    """
    has_submenu = screen.room.tshark.version >= (4, 2, 0)
    before = 10 if screen.room.tshark.version >= (4, 6, 0) else 9
    downs = ["Down"] * before + (["Right"] + ["Down"] * number if has_submenu else ["Down"] * number)
    screen.press("alt+s", *downs)
    if title is not None:
        screen.press("Return")
        screen.wait_for(title)


def open_packet_menu(screen: Screen, number: int, *, choose: bool = True) -> None:
    """Show the menu IKE of a packet, and choose an item by its number."""
    screen.click(400, 190, button=3)
    screen.press(*["Down"] * 6, "Right", *["Down"] * number)
    if choose:
        screen.press("Return")


def open_expert_info(screen: Screen) -> None:
    """Choose Analyze, Expert Information, and wait for its window."""
    screen.press("alt+a", "Up", "Return")
    screen.wait_for("Expert Information")


def open_flow_graph(screen: Screen) -> None:
    """Choose Statistics, Flow Graph, and wait for its window."""
    before = 18 if screen.room.tshark.version >= (4, 2, 0) else 22
    screen.press("alt+s", *["Down"] * before, "Return")
    screen.wait_for("Flow")


def open_preferences(screen: Screen) -> None:
    """Open the plugin's page of the preferences."""
    screen.press("ctrl+shift+p")
    screen.wait_for("Preferences")
    screen.type("Protocols")
    screen.press("Right")
    time.sleep(1)
    screen.type("IKEX")
    time.sleep(1)


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

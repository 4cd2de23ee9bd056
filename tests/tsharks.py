"""The tsharks that tests ask: this machine's own, and those of other Debian releases (`ikeanalyze/lab/debian_tree.sh`).

A test takes the fixture `tshark` (tests/conftest.py) and runs once with each of them:

    def test_inner_payloads_are_seen(tshark, tmp_path):
        done = tshark.run("-n", "-Tfields", "-e", "isakmp.exchangetype", capture=tmp_path / "out.pcapng")
        assert done.status == 0, done.stderr
        assert done.lines == ["34", "34", "43"]

    @pytest.mark.parametrize("tshark", ["forky"], indirect=True)     # or with some of them

    @pytest.mark.turns                                               # or each case with one of them, in turns
    @pytest.mark.parametrize("name", NAMES_OF_MANY_CAPTURES)

`turns` is for products of many cases and all versions in which the case matters more than the version: the first case
runs with the first version, the second case with the second one, and so on, whatever is selected. With `--all-tsharks`
(`make test ALL_TSHARKS=1`), each case runs with every version, and an item that is named runs in any case.

tshark runs as an ordinary user, since newer ones run no Lua for root, with an empty home and an empty configuration
folder. So it sees none of the caller's files: captures, scripts and settings are handed over by name or content.
Where several runs share a home (what a plugin leaves there, say), they share a `Room`:

    with tshark.room() as room:
        room.put("home/.config/wireshark/preferences", "gui.update.enabled: FALSE\\n")
        room.run("-G", "folders", own_config=False)

What differs between versions is asked of `tshark.version`, or better of tshark itself (`tshark.has_field("...")`).
A tshark that is not there skips the test, and fails it where CI is set. Tests that take the fixture carry the marker
`tshark`, those of a tree `tree` as well: nobody has to write them.
"""

import atexit
import os
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: This machine's own, and the releases of which `make test` makes trees.
HOST = "host"
TREES = ("trixie", "forky")
NAMES = (HOST, *TREES)
#: Who runs tshark when the tests run as root: nobody.
ORDINARY = 65534
#: Where rooms are: the same folder here and in a tree.
TEMPORARY = Path("/tmp")

Content = Path | bytes | str
SECONDS = 120


@dataclass(frozen=True, slots=True)
class Done:
    """What a run of tshark left."""

    status: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        """Standard output, line by line, without empty lines at the end."""
        return self.stdout.rstrip("\n").split("\n") if self.stdout.strip("\n") else []


@dataclass(frozen=True, slots=True)
class Room:
    """A folder with the same name for the test and for tshark, which runs in it; `home` and `config` start empty."""

    #: Whose folder it is.
    tshark: "Tshark"
    path: Path

    def put(self, name: str, content: Content) -> Path:
        """A file of the room, with the content of another file, or this one; an existing folder is copied whole."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path) and content.is_dir():
            shutil.copytree(content, path, dirs_exist_ok=True)
        elif isinstance(content, Path):
            shutil.copyfile(content, path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        # alone: to go through the whole room for each of a thousand files would take seconds
        self.give_away(Path(name).parts[0])
        return path

    def link(self, name: str, target: Path) -> None:
        """A link of the room to what is in another room of the same tshark."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        self.give_away(Path(name).parts[0])

    def give_away(self, name: str = "") -> None:
        """Make a file or folder of the room the ordinary user's, with all that is in it; "": the whole room."""
        if os.geteuid() == 0:
            # resolved: the kernel follows a link in /tmp for its owner alone, so the room's own link stays ours
            top = self.path.resolve() / name
            if not top.is_dir():
                os.chown(top, ORDINARY, ORDINARY, follow_symlinks=False)
            for folder, _, files in os.walk(top):
                for path in (folder, *(os.path.join(folder, file) for file in files)):
                    os.chown(path, ORDINARY, ORDINARY, follow_symlinks=False)

    def environment(self, *, own_config: bool = True) -> dict[str, str]:
        """The environment of tshark, without the caller's. `own_config`: the settings are in `config`."""
        known = {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }
        known["HOME"] = str(self.path / "home")
        if own_config:
            known["WIRESHARK_CONFIG_DIR"] = str(self.path / "config")
        return known

    def command(self, *words: str, own_config: bool = True) -> list[str]:
        """The command line that runs this one in the room, as an ordinary user, from wherever it is called."""
        settings = [f"{name}={value}" for name, value in self.environment(own_config=own_config).items()]
        inside = ["env", "-i", "-C", str(self.path), *settings, *words]
        root, superuser = str(self.tshark.root), os.geteuid() == 0
        if root == "/":
            become = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups"]
            return [*become, *inside] if superuser else inside
        if superuser:
            return ["chroot", f"--userspec={ORDINARY}:{ORDINARY}", "--groups=", root, *inside]
        return ["unshare", "--user", "--map-current-user", f"--root={root}", "--wd=/", *inside]

    def program(self) -> Path:
        """A program for whoever wants to start tshark by its name: in this room, with the settings in its home.

        It lets the ordinary user read what is in the room's `tmp`, where temporary files for tshark may go.
        """
        path, temporary = self.path / "bin" / "tshark", self.path / "tmp"
        temporary.mkdir(exist_ok=True)
        path.parent.mkdir(exist_ok=True)
        command = shlex.join(self.command("tshark", own_config=False))
        path.write_text(f'#!/bin/sh\nchmod -R a+rX {temporary}\nexec {command} "$@"\n')
        path.chmod(0o755)
        return path

    def run(
        self,
        *arguments: str,
        capture: Content | None = None,
        lua: Iterable[Content] = (),
        own_config: bool = True,
        seconds: float = SECONDS,
    ) -> Done:
        """Run tshark: `capture` is read (-r), `lua` scripts are loaded (-X) in this order, before `arguments`."""
        words: list[str] = []
        for number, script in enumerate(lua):
            words += ["-X", f"lua_script:{self.put(f'script{number}.lua', script)}"]
        if capture is not None:
            words += ["-r", str(self.put("capture", capture))]
        command = self.command("tshark", *words, *arguments, own_config=own_config)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
        return Done(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Tshark:
    """A tshark of this machine, or of a tree."""

    #: One of NAMES.
    name: str
    #: Its file system.
    root: Path

    @property
    def version(self) -> tuple[int, int, int]:
        """(4, 0, 17)."""
        return _version(self)

    def has_field(self, name: str) -> bool:
        """Does this version know a field of this name?"""
        return name in _fields(self)

    @contextmanager
    def room(self) -> Iterator[Room]:
        """A new room, which goes with all that is in it."""
        name = f"ikeanalyze-{uuid.uuid4().hex}"
        here, there = TEMPORARY / name, self.root / TEMPORARY.relative_to("/") / name
        there.mkdir(mode=0o755)
        try:
            if here != there:
                here.symlink_to(there)
            room = Room(self, here)
            for folder in ("home", "config"):
                (there / folder).mkdir(mode=0o755)
            room.give_away()
            yield room
        finally:
            if here != there:
                here.unlink(missing_ok=True)
            shutil.rmtree(there, ignore_errors=True)

    def run(
        self,
        *arguments: str,
        capture: Content | None = None,
        lua: Iterable[Content] = (),
        plugins: Path | None = None,
        config: Mapping[str, Content] | None = None,
        files: Mapping[str, Content] | None = None,
        seconds: float = SECONDS,
    ) -> Done:
        """Run tshark once, in a room of its own.

        `capture`: what it reads. `lua`: scripts that it loads. `plugins`: a folder that is its personal plugin folder,
        of which one copy serves all runs of this process.
        `config`: files of its configuration folder, by name (preferences, ikev2_decryption_table, profiles/...).
        `files`: other files by name, to which `arguments` refer.
        """
        with self.room() as room:
            if plugins is not None:
                room.link("home/.local/lib/wireshark/plugins", _copy(self, plugins))
            for name, content in (config or {}).items():
                room.put(f"config/{name}", content)
            for name, content in (files or {}).items():
                room.put(name, content)
            return room.run(*arguments, capture=capture, lua=lua, seconds=seconds)


@cache
def _copy(tshark: Tshark, folder: Path) -> Path:
    """A copy of a folder, in a room that goes when this process ends.

    The plugin has 80 files: to copy them for each run took a tenth of the processor time of tshark.
    """
    room = ExitStack()
    atexit.register(room.close)
    return room.enter_context(tshark.room()).put("copy", folder)


@cache
def _version(tshark: Tshark) -> tuple[int, int, int]:
    first = tshark.run("--version").lines[0]  # TShark (Wireshark) 4.6.9.
    major, minor, patch = first.split()[2].rstrip(".").split(".")[:3]
    return int(major), int(minor), int(patch)


@cache
def _fields(tshark: Tshark) -> frozenset[str]:
    lines = (line.split("\t") for line in tshark.run("-G", "fields").lines)
    return frozenset(line[2] for line in lines if line[0] in ("F", "P"))


def trees() -> Path:
    """Where `ikeanalyze/lab/debian_tree.sh` makes trees."""
    cache_folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("IKEANALYZE_TREES") or Path(cache_folder) / "ikeanalyze")


def find(name: str) -> Tshark | str:
    """The tshark of this name, or why there is none."""
    if name == HOST:
        return Tshark(HOST, Path("/")) if shutil.which("tshark") else "tshark is not installed (apt-get install tshark)"
    tree = trees() / name
    if not os.access(tree / "usr/bin/tshark", os.X_OK):
        return f"no tree of Debian {name} with tshark in {tree.parent}: as root, ikeanalyze/lab/debian_tree.sh {name} tshark"
    if os.geteuid() != 0:
        enter = ["unshare", "--user", "--map-current-user", f"--root={tree}", "--wd=/", "/bin/true"]
        if subprocess.run(enter, capture_output=True, check=False).returncode:
            return f"entering {tree} needs root, or user namespaces"
    return Tshark(name, tree)

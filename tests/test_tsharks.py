"""The tsharks of the tests are what they are said to be."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.tsharks import NAMES, TEMPORARY, TREES, find

SCRIPT = Path(__file__).parent.parent / "ikeanalyze" / "lab" / "debian_tree.sh"
CAPTURE = Path(__file__).parent.parent / "captures" / "pq-mlkem768-psk.pcap"
#: The oldest version of Wireshark in the release, from Debian's archive.
LEAST = {"trixie": (4, 4), "forky": (4, 6)}


def test_an_ordinary_user_runs_it_with_its_own_home(tshark):
    script = 'print(io.popen("id -u"):read("*l"), os.getenv("HOME"), #Dir.personal_config_path())'
    done = tshark.run(capture=CAPTURE, lua=[script])
    user, home, _ = done.lines[0].split("\t")
    assert int(user) == (os.geteuid() or 65534)
    assert home.startswith("/tmp/ikeanalyze-")


def test_its_version_is_its_releases(tshark):
    assert tshark.version >= LEAST.get(tshark.name, (3, 0))


def test_files_settings_and_plugins_reach_it(tshark, tmp_path):
    (tmp_path / "greeting.lua").write_text('print("plugin here")')
    done = tshark.run(
        *("-Y", "ike_port.number", "-X", "lua_script:other.lua"),
        capture=CAPTURE.read_bytes(),
        plugins=tmp_path,
        config={"preferences": "isakmp.no_such: 1\n"},
        files={"other.lua": 'local p = Proto("ike_port", "x") p.fields = {ProtoField.uint8("ike_port.number")}'},
    )
    assert done.status == 0, done.stderr
    assert done.lines == ["plugin here"]
    assert "isakmp.no_such" in done.stderr
    assert tshark.run("-Tfields", "-e", "no.such", capture=CAPTURE).status != 0


def test_a_room_lasts_for_several_runs_and_then_goes(tshark):
    with tshark.room() as room:
        assert room.run("-a", "packets:2", "-w", "two.pcap", capture=CAPTURE).status == 0
        assert len(room.run(capture=room.path / "two.pcap").lines) in (
            2,
            8,
        )  # before 4.2, -a is for live captures
        assert room.path.name in os.listdir(TEMPORARY)
    assert room.path.name not in os.listdir(TEMPORARY)
    assert not os.path.lexists(room.path)


def test_a_run_has_the_plugins_that_it_names(tshark, tmp_path):
    """Runs share the copy of a folder, and have no others."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.lua").write_text(f'print("{name}")')
    folders = [tmp_path / "one", tmp_path / "other", tmp_path / "one", None]
    shown = [tshark.run("-Y", "frame.number == 0", capture=CAPTURE, plugins=folder).lines for folder in folders]
    assert shown == [["one"], ["other"], ["one"], []]


def test_what_is_put_in_a_room_belongs_to_the_ordinary_user(tshark, tmp_path):
    """Files, folders with what is in them, and the folders above them; also files that were there before."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "one.lua").write_text("")
    with tshark.room() as room:
        root = room.path.resolve()
        (root / "files").mkdir()
        (root / "files" / "before").write_text("")
        room.put("home/.local/lib/plugins", tmp_path)
        room.put("files/keys", "secret")
        room.put("capture", CAPTURE)
        paths = [path for path in root.rglob("*") if path.name not in ("home", "config")]
        assert {str(path.relative_to(root)) for path in paths} == {
            *("home/.local", "home/.local/lib", "home/.local/lib/plugins", "home/.local/lib/plugins/inside"),
            *("home/.local/lib/plugins/inside/one.lua", "files", "files/before", "files/keys", "capture"),
        }
        user = os.geteuid() or 65534
        assert {(path.stat().st_uid, path.stat().st_gid == path.parent.stat().st_gid) for path in paths} == {
            (user, True)
        }


def test_fields_by_name(tshark):
    assert tshark.has_field("isakmp.messageid")
    assert not tshark.has_field("isakmp.no_such_field")


def make(trees: Path, *arguments: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    environment = {"IKEANALYZE_TREES": str(trees), "PATH": path, "HOME": str(trees)}
    return subprocess.run(
        [shutil.which("bash") or "bash", SCRIPT, *arguments], capture_output=True, text=True, env=environment
    )


def test_a_tree_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "forky").mkdir()
    (tmp_path / "forky" / ".ikeanalyze-packages").write_text("strongswan-charon\ntshark\n")
    done = make(tmp_path, "forky", "tshark")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/forky\n")
    assert os.listdir(tmp_path) == ["forky"]


@pytest.mark.parametrize("packages", ["", "tshark-no\n", "wireshark\n"])
def test_a_tree_without_the_package_is_not_taken_for_one_with_it(tmp_path, packages):
    (tmp_path / "forky").mkdir()
    (tmp_path / "forky" / ".ikeanalyze-packages").write_text(packages)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("grep", "id"):
        (programs / name).symlink_to(shutil.which(name))
    done = make(tmp_path, "forky", "tshark", path=str(programs))
    assert done.returncode == 1
    assert "debootstrap is missing" in done.stderr or "needs root" in done.stderr
    assert (tmp_path / "forky" / ".ikeanalyze-packages").read_text() == packages


def test_a_missing_tree_says_how_to_make_it(tmp_path, monkeypatch):
    monkeypatch.setenv("IKEANALYZE_TREES", str(tmp_path))
    for name in TREES:
        assert find(name).endswith(f"ikeanalyze/lab/debian_tree.sh {name} tshark")


#: Tests of products: names with the same index, two parameters, and one without cases besides the versions.
IN_TURNS = """
import pytest

pytestmark = pytest.mark.turns

@pytest.mark.parametrize(("number", "square", "cube"), [(number, number**2, number**3) for number in range(7)])
def test_numbers(tshark, number, square, cube):
    pass

@pytest.mark.parametrize("letter", ["a", "b", "c", "d"])
@pytest.mark.parametrize("number", range(2))
def test_letters(number, letter, tshark):
    pass

def test_nothing():
    pass
"""


def list_items(folder, *arguments, inside=("",)):
    """The items of IN_TURNS, or of those named `inside` it, that would run: function, case and tshark of each."""
    path = folder / "test_in_turns.py"
    path.write_text(IN_TURNS)
    options = ["-P", "-m", "pytest", "--collect-only", "-c", ROOT / "pyproject.toml", "-p", "tests.conftest"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *options, *arguments, *(f"{path}{name}" for name in inside)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout
    items = []
    for function, parameters in re.findall(r"::(\w+)(?:\[(.*)\])?$", done.stdout, re.MULTILINE):
        values = parameters.split("-")
        [version] = [value for value in values if value in NAMES] or [None]
        items.append((function, *(value for value in values if value not in NAMES), version))
    return items


def test_cases_run_with_the_versions_in_turns(tmp_path):
    turns = list_items(tmp_path)
    assert len(turns) == len(set(turns)) == 7 + 8 + 1
    assert {item for item in turns if item[0] != "test_letters"} == {
        *(("test_numbers", *map(str, (number, number**2, number**3)), NAMES[number % 3]) for number in range(7)),
        ("test_nothing", "", None),
    }
    letters = {item[1:-1]: item[-1] for item in turns if item[0] == "test_letters"}
    assert set(letters) == {(str(number), letter) for number in range(2) for letter in "abcd"}
    assert {*Counter(letters.values()).values()} == {2, 3}
    every = list_items(tmp_path, "--all-tsharks")
    assert len(every) == 3 * (len(turns) - 1) + 1
    assert set(turns) < set(every)


def test_the_turn_of_a_case_does_not_depend_on_what_is_selected(tmp_path):
    turns = list_items(tmp_path)
    assert list_items(tmp_path, "-k", "test_letters and 1-c") == [
        item for item in turns if item[:3] == ("test_letters", "1", "c")
    ]
    assert list_items(tmp_path, inside=["::test_letters"]) == [item for item in turns if item[0] == "test_letters"]
    # an item that is named runs, whoever has the turn
    named = [f"::test_numbers[{version}-5-25-125]" for version in NAMES]
    assert list_items(tmp_path, inside=named) == [("test_numbers", "5", "25", "125", version) for version in NAMES]

"""Imports go one way, and what docs/architecture.md names exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ikeanalyze"

#: For each room, the rooms that it may import from.
ALLOWED = {
    "io": set(),
    "wire": set(),
    "keys": {"io", "wire"},
    "capture": {"io"},
    "analysis": {"io", "wire", "keys", "capture"},
    "render": {"io", "analysis", "wire", "keys", "dataset", "model", "replay"},
    "plugin": {"io"},
    "lab": {"io", "wire", "keys"},
    "model": {"io", "analysis", "wire"},
    "dataset": {"io", "analysis", "capture", "keys", "wire"},
    "replay": {"io", "analysis", "capture", "keys", "wire", "model"},
    "view": {"io", "render", "analysis", "capture", "keys", "wire"},
    "cli": {
        *("render", "view", "dataset", "model", "replay", "analysis", "capture", "keys", "wire"),
        *("plugin", "lab", "io"),
    },
}
#: Libraries that one room alone may import.
OWNED = {
    "dpkt": "capture",
    "scapy": "replay",
    "typer": "cli",
    "cryptography": "keys",
    "Crypto": "keys",
    "textual": "view",
    "distributed": "dataset",
    "altair": "render",
    "jinja2": "render",
}
#: Files that may import another room's library: X.509 is cryptography's too.
BORROWED = {
    ("wire/x509/certificates.py", "cryptography"),
    ("lab/daemons/certificates.py", "cryptography"),
    ("replay/initiator/key_exchange.py", "cryptography"),
    ("replay/credentials.py", "cryptography"),
}

SOURCES = sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
    return names


def room_of(path: Path) -> str | None:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    room = room_of(path)
    if path.name in ("__init__.py", "__main__.py") and room is None:
        return  # the package itself brings everything together
    if room is None:  # for every room, so it knows none
        assert not any(name.split(".")[0] in {"ikeanalyze", *OWNED} for name in imported(path))
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "ikeanalyze" and len(parts) > 1 and (PACKAGE / parts[1]).is_dir():
            assert parts[1] == room or parts[1] in ALLOWED[room], f"{room} imports {name}"
        owner = OWNED.get(parts[0])
        borrowed = (str(path.relative_to(PACKAGE)), parts[0]) in BORROWED
        assert owner is None or owner == room or borrowed, f"{room} imports {name}"


def test_all_rooms_are_known():
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms == set(ALLOWED)


DESCRIBED = (ROOT / "docs" / "architecture.md").read_text()


def test_what_the_description_names_is_there():
    places = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", DESCRIBED)
    assert places
    for place in places:
        assert any((base / place).exists() for base in (ROOT, PACKAGE, PACKAGE / "render")), place

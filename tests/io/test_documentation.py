"""Who has installed the package has the files of the documentation that its texts name."""

import re
import zipfile

import pytest
from hatchling.build import build_wheel

from ikeanalyze.cli.setup import doctor
from ikeanalyze.io import documentation
from ikeanalyze.io.documentation import find_documentation
from tests.paths import ROOT

#: Pages that texts of the program name.
NAMED = {
    name
    for path in (ROOT / "ikeanalyze").rglob("*")
    if path.suffix in (".py", ".json", ".j2", ".sh")
    for name in re.findall(r"\bdocs/([\w-]+\.md)\b", path.read_text())
}


def test_each_page_that_is_named_exists():
    assert {"diagnosis.md", "replay.md", "install.md"} <= NAMED
    assert {path.name for path in (ROOT / "docs").glob("*.md")} >= NAMED


def test_the_wheel_contains_the_pages(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("IKEANALYZE_CORE", "0")
    with zipfile.ZipFile(tmp_path / build_wheel(str(tmp_path))) as wheel:
        for page in NAMED:
            assert wheel.read(f"ikeanalyze/_docs/{page}") == (ROOT / "docs" / page).read_bytes()


def test_the_folder_of_an_installed_package_comes_first(tmp_path, monkeypatch):
    package = tmp_path / "ikeanalyze"
    monkeypatch.setattr(documentation, "__file__", str(package / "io" / "documentation.py"))
    assert find_documentation() is None
    for folder in (tmp_path / "docs", package / "_docs"):
        folder.mkdir(parents=True)
        (folder / "diagnosis.md").touch()
        assert find_documentation() == folder


@pytest.mark.parametrize("folder", [ROOT / "docs", None])
def test_doctor_tells_the_folder(folder, monkeypatch):
    monkeypatch.setattr(doctor, "find_documentation", lambda: folder)
    (check,) = [check for check in doctor.check_requirements() if check.name == "documentation"]
    assert check.state == ("ok" if folder else "lacks")
    assert check.found == (str(folder) if folder else "not installed")

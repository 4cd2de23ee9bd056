"""What the README and the pages of docs show is what the program prints, and what they link to is there."""

import re

import pytest

from tests import readme

README = readme.PAGES[0].read_text()
BLOCKS = [(page, *block) for page in readme.PAGES for block in readme.blocks(page)]


def test_the_pages_show_the_commands():
    shown = {(page.name, arguments.split()[0]) for page, arguments, _ in BLOCKS}
    assert shown >= {
        ("README.md", "report"),
        ("README.md", "ladder"),
        ("report.md", "report"),
        ("keys.md", "keys"),
        ("verification.md", "verify"),
    }


@pytest.mark.parametrize(
    ("page", "arguments", "output"),
    BLOCKS,
    ids=[f"{page.name}: {arguments}" for page, arguments, _ in BLOCKS],
)
def test_output_is_that_of_the_program(page, arguments, output):
    assert readme.run(arguments) == output


def test_the_comparison_is_that_of_the_program(tmp_path):
    shown = re.search(
        r"^```text\n\$ ikeanalyze (compare lab [^\n]*)\n\.\.\.\n(.*?)^```$", README, re.MULTILINE | re.DOTALL
    )
    (capture,) = re.findall(r"`ikeanalyze batch '(captures/[^']*)' -o lab`", README)
    readme.run(f"batch {readme.ROOT / capture} -o lab", tmp_path)
    assert readme.run(shown[1], tmp_path).endswith(f"\n{shown[2]}")


@pytest.mark.parametrize("page", readme.PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for path, anchor in readme.links(page):
        assert path.exists(), path
        assert anchor is None or anchor in readme.anchors(path), f"{path}#{anchor}"


def test_every_page_and_picture_is_linked_from_another():
    linked = {path for page in readme.PAGES for path, _ in readme.links(page) if path != page}
    images = (readme.ROOT / "docs" / "images").iterdir()
    assert {*readme.PAGES[1:], *images} <= linked

"""README and docs show the current output of the program, and their links lead to existing files and headings."""

import re

import pytest

from tests import readme

BLOCKS = [(page, *block) for page in readme.PAGES for block in readme.find_blocks(page)]


def test_the_pages_show_the_commands():
    shown = {(page.name, arguments.split()[0]) for page, arguments, _ in BLOCKS}
    assert shown >= {
        ("README.md", "report"),
        ("report.md", "report"),
        ("ladder.md", "ladder"),
        ("keys.md", "keys"),
        ("verification.md", "verify"),
        ("predict.md", "predict"),
    }


@pytest.mark.parametrize(
    ("page", "arguments", "output"),
    BLOCKS,
    ids=[f"{page.name}: {arguments}" for page, arguments, _ in BLOCKS],
)
def test_blocks_show_the_output_of_the_program(page, arguments, output):
    assert readme.abridge(readme.run(arguments), output) == output


def test_the_readme_shows_the_demo_with_and_without_keys():
    shown = [arguments for arguments, _ in readme.find_blocks(readme.README)]
    demo = re.search(r"^DEMO := (.*)$", (readme.ROOT / "Makefile").read_text(), re.MULTILINE)
    assert shown[0] == f"report {demo[1]}"
    assert shown[1].startswith(f"report {demo[1]} --keys ")


def test_an_excerpt_selects_paragraphs_by_their_first_line():
    output = "a\n 1\n\nb\n 2\n\nc\n 3\n\nd\n 4\n"
    assert readme.abridge(output, "...\n\nb\n old\n\n...\n") == "...\n\nb\n 2\n\n...\n"
    assert readme.abridge(output, "a\n") == output
    with pytest.raises(ValueError, match="not in the output: e"):
        readme.abridge(output, "...\n\ne\n")


def test_the_comparison_is_that_of_the_program(tmp_path):
    page = (readme.ROOT / "docs" / "compare.md").read_text()
    shown = re.search(
        r"^```text\n\$ ikeanalyze (compare lab [^\n]*)\n\.\.\.\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    (capture,) = re.findall(r"`ikeanalyze batch '(captures/[^']*)' -o lab`", page)
    readme.run(f"batch {readme.ROOT / capture} -o lab", tmp_path)
    assert readme.run(shown[1], tmp_path).endswith(f"\n{shown[2]}")


@pytest.mark.parametrize(
    "page", [*readme.PAGES, *readme.OTHER_PAGES], ids=lambda page: str(page.relative_to(readme.ROOT))
)
def test_links_lead_somewhere(page):
    for path, anchor in readme.find_links(page):
        assert path.exists(), path
        assert anchor is None or anchor in readme.find_anchors(path), f"{path}#{anchor}"


def test_every_page_and_picture_is_linked_from_another():
    pages = [*readme.PAGES, *readme.OTHER_PAGES]
    linked = {path for page in pages for path, _ in readme.find_links(page) if path != page}
    images = [path for path in (readme.ROOT / "docs" / "images").rglob("*") if path.is_file()]
    assert {*readme.DOCS, *readme.OTHER_PAGES, *images} <= linked


def test_the_readme_is_short():
    assert len(readme.README.read_text().splitlines()) <= 200

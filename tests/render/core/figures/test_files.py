import re
import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from ikeanalyze.render.core.figures.style import COLOURS
from ikeanalyze.render.core.output import OutputError
from ikeanalyze.render.report.figures import write_report_figures
from tests.render.analysis_examples import analysis


def png_size(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG (ISO/IEC 15948, 11.2.2)."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def png_dpi(data: bytes) -> float:
    """Of its pHYs chunk, 11.3.4.3: pixels per metre."""
    at = data.index(b"pHYs")
    return struct.unpack(">I", data[at + 4 : at + 8])[0] * 0.0254


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("figures") / "new" / "folder"
    written = write_report_figures(analysis([1, 2]), str(path))
    assert sorted(written) == sorted(path.iterdir())
    return path


def test_each_as_svg_pdf_and_png(folder):
    names = {path.name.rsplit(".", 1)[0] for path in folder.iterdir()}
    ladders = {f"handshake-{number}-ladder{axis}" for number in (1, 2) for axis in ("", "-time")}
    assert names == {"setup-parts", "round-trips", "link-bytes", "setup-cumulative"} | ladders
    for name in names:
        assert (folder / f"{name}.svg").exists()
        assert (folder / f"{name}.png").exists()
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF-")


@pytest.mark.parametrize(
    ("name", "mm", "dpi", "points"), [("setup-parts", 88, 600, 7), ("handshake-1-ladder", 180, 300, 7)]
)
def test_as_wide_as_a_column_with_letters_that_can_be_read(folder, name, mm, dpi, points):
    root = ET.parse(folder / f"{name}.svg").getroot()
    width = float(root.get("width").removesuffix("mm"))
    assert width == pytest.approx(mm, abs=0.5)
    units = float(root.get("viewBox").split()[2])
    to_points = width / 25.4 * 72 / units
    sizes = [float(n.get("font-size").removesuffix("px")) for n in root.iter() if n.tag.endswith("}text")]
    assert min(sizes) * to_points >= points - 0.01
    data = (folder / f"{name}.png").read_bytes()
    assert png_dpi(data) == pytest.approx(dpi, rel=0.01)
    assert png_size(data)[0] / dpi * 25.4 == pytest.approx(mm, abs=0.6)
    box = re.search(rb"/MediaBox ?\[0 0 ([0-9.]+) ", (folder / f"{name}.pdf").read_bytes())
    assert float(box[1]) / 72 * 25.4 == pytest.approx(width, abs=0.1)


def test_files_are_on_paper(folder):
    for path in folder.glob("*.svg"):
        text = path.read_text()
        assert "var(" not in text
        assert COLOURS["ground"] in text


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        write_report_figures(analysis([1]), str(tmp_path / "file" / "folder"))
    assert Path(tmp_path / "file").read_text() == ""


def test_a_figure_that_cannot_be_written_names_the_option_of_its_directory(tmp_path):
    (tmp_path / "setup-parts.pdf").mkdir()
    with pytest.raises(
        OutputError, match=r"setup-parts\.pdf: cannot be written: .*\. Name another output with --figures$"
    ):
        write_report_figures(analysis([1, 2]), str(tmp_path))

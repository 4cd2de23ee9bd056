import subprocess
import sys

from ikeanalyze.render import Format, write
from tests.render.handmade import analysis


def test_every_format_can_be_written(tmp_path):
    for form in Format:
        write(analysis(), form, str(tmp_path / form))
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(Format)


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = "import sys, ikeanalyze.render; print(sorted({'polars', 'numpy', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"

import subprocess
import sys


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = "import sys, ikeanalyze.render; print(sorted({'polars', 'numpy', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"

"""The package stands alone: the standard library, and the classes of msgspec for values."""

import subprocess
import sys

CODE = """
import pkgutil, sys
import ikeanalyze
before = set(sys.modules)
import ikeanalyze.wire as room
for found in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
    __import__(found.name)
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
print(*sorted(name for name in sys.modules if name.startswith("ikeanalyze.")))
"""


#: msgspec, and what it imports.
VALUES = {"msgspec", "typing_extensions"}


def test_imports_the_standard_library_and_itself_only():
    output = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout
    roots, ours = (line.split() for line in output.splitlines())
    assert set(roots) - {"ikeanalyze"} <= sys.stdlib_module_names | VALUES
    assert {name.split(".")[1] for name in ours} == {"wire"}

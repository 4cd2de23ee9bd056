"""Checks that figures can be drawn: the drawing engine ends the process if it cannot reserve enough address space."""

import resource
import subprocess
import sys
from functools import cache
from typing import Final

from ikeanalyze.render.core.output import OutputError

#: Address space that the process may use in addition to that of the trial: for the analysis, and for later figures.
_MARGIN_BYTES: Final = 8 << 30
_TRIAL: Final = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import vl_convert
vl_convert.vega_to_scenegraph({})
"""


@cache
def check_address_space() -> None:
    """Check that the limit of the address space (`ulimit -v`), if there is one, allows drawing.

    vl-convert contains V8, which reserves tens of gigabytes of address space (not memory), and aborts the process if
    the limit is lower. How much it needs depends on its version, so another process tries.

    Raises:
        OutputError: drawing would abort this process.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    command = [sys.executable, "-c", _TRIAL, str(max(limit - _MARGIN_BYTES, 0))]
    trial = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if trial.returncode:
        raise OutputError(
            "figures",
            f"cannot be drawn: the address space is limited to {limit >> 10:,} KiB, and the drawing engine reserves more. "
            "Raise the limit (ulimit -v unlimited), or choose another output",
        )

"""The compiled core (core/, in Rust): faster replacements of some functions, with equal results, where it is installed.

The Python functions are the definition, and used without it. Each tests `core.compiled` when it is called.
"""

import os
from typing import Final

#: Set to 0, this environment variable leaves the core out.
SWITCH: Final = "IKEANALYZE_CORE"
#: Number of the interface, equal to that in core/src/lib.rs: a core of other sources is not used.
INTERFACE: Final = 19

__all__ = ["INTERFACE", "SWITCH", "compiled", "problem"]

try:
    import ikeanalyze._core as compiled

    problem = None  #: why the core is not in use; None: it is
except ImportError as error:
    problem = "not built" if isinstance(error, ModuleNotFoundError) else f"cannot be loaded: {error}"
else:
    if os.environ.get(SWITCH) == "0":
        problem = f"left out, because {SWITCH} is 0"
    elif compiled.INTERFACE != INTERFACE:
        problem = "built from other sources"
if problem is not None:
    compiled = None  # type: ignore[assignment]  # so that callers test for None, and have the types of its functions

"""Puts the documentation into wheels, and the compiled core where cargo is installed.

Without cargo, the wheel is pure Python, and works on all machines. IKEANALYZE_CORE=0 leaves the core out; with 1, a
wheel without it is an error. Editable installs compile nothing: `make core` does.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Exit status of compile.py without cargo.
_NO_CARGO: Final = 2


class CoreBuildHook(BuildHookInterface[Any]):
    """Compiles the core for a wheel, and adds the documentation that texts of the program refer to."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the documentation and the compiled core to the files of the wheel; `version` is the kind of wheel."""
        if version == "editable":
            return
        for page in sorted(Path(self.root, "docs").glob("*.md")):
            build_data["force_include"][str(page)] = f"ikeanalyze/_docs/{page.name}"
        switch = os.environ.get("IKEANALYZE_CORE")
        if switch == "0":
            return
        folder = Path(self.directory).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        core = folder / "_core.abi3.so"
        compiler = Path(self.root, "core", "compile.py")
        status = subprocess.run([sys.executable, str(compiler), str(core)], check=False).returncode
        if status == _NO_CARGO and switch != "1":
            self.app.display_warning("The wheel has no compiled core: large captures take several times as long")
            return
        if status:
            raise RuntimeError("the core cannot be compiled")
        build_data["force_include"][str(core)] = "ikeanalyze/_core.abi3.so"
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the compiled core, which is in the wheel."""
        Path(self.directory, "_core.abi3.so").unlink(missing_ok=True)

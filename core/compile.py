"""Compiles the core with cargo, and puts it at a path: `python core/compile.py PATH`.

Exit status 2: there is no cargo.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

NO_CARGO: Final = 2


def main(path: str) -> int:
    """Compile the core and copy it to this path; the exit status."""
    cargo = shutil.which("cargo")
    if cargo is None:
        print("no cargo: install it, or the packages rustc-web and cargo-web of Debian 12", file=sys.stderr)
        return NO_CARGO
    manifest = Path(__file__).with_name("Cargo.toml")
    command = [cargo, "build", "--release", "--locked", "--lib", f"--manifest-path={manifest}"]
    command.append("--message-format=json-render-diagnostics")
    # the stable interface is the same for all interpreters; PyO3 would compile again wherever PATH finds another one
    environment = {**os.environ, "PYO3_NO_PYTHON": "1"}
    built = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    if built.returncode:
        return 1
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith(b"{")]
    libraries = [
        name
        for message in messages
        if message["reason"] == "compiler-artifact" and message["target"]["name"] == "_core"
        for name in message["filenames"]
        if name.endswith((".so", ".dylib"))
    ]
    target = Path(path)
    # replaced, not overwritten: running programs keep the old file
    draft = target.with_name(f".{target.name}.new")
    shutil.copyfile(libraries[0], draft)
    draft.replace(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

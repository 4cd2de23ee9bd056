"""The recorded faults of captures/faults: what daemons log about them, and what the report says.

`python -m tests.lab.faults` updates the table in docs/diagnosis.md.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from benchmarks.generated_section import replace_section
from ikeanalyze.analysis.handshakes.diagnosis.captures import diagnose_captures
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from tests.paths import CAPTURES, ROOT

FOLDER = CAPTURES / "faults"
PAGE = ROOT / "docs" / "diagnosis.md"


@dataclass(frozen=True)
class Fault:
    name: str
    log: str
    words: str
    codes: list[str]
    codes_with_keys: list[str] | None = None
    codes_of_capture: tuple[str, ...] | list[str] = ()

    @property
    def title(self) -> str:
        """The first line of the scenario."""
        return (FOLDER / "scenarios" / f"{self.name}.toml").read_text().splitlines()[0].removeprefix("# ")

    @property
    def log_path(self) -> Path:
        return FOLDER / f"{self.name}.{self.log}.log.gz"

    @property
    def keys(self) -> Path | None:
        path = FOLDER / f"{self.name}.keys.json"
        return path if path.exists() else None

    def diagnose(self, *, with_keys: bool = False) -> tuple[list[str], list[str]]:
        """The codes of the last handshake, and those of the capture."""
        options = ReadOptions(keys=[str(self.keys)] if with_keys and self.keys else [])
        handshakes = read_captures(FOLDER / f"{self.name}.pcapng", options).handshakes
        last = handshakes.sort("handshake")["diagnosis"].to_list()[-1] or []
        return [entry["code"] for entry in last], [entry.code for entry in diagnose_captures(handshakes)]


FAULTS = [Fault(name, **values) for name, values in tomllib.loads((FOLDER / "faults.toml").read_text()).items()]


def make_table() -> str:
    """The table of docs/diagnosis.md."""
    lines = ["| set-up | a daemon logs | diagnosis | with keys |", "|---|---|---|---|"]
    for fault in FAULTS:
        codes, of_capture = fault.diagnose()
        with_keys, _ = fault.diagnose(with_keys=True)
        shown = _format(codes + [f"{code} (capture)" for code in of_capture])
        same = with_keys == codes
        lines.append(
            f"| {fault.title} | {fault.log}: {fault.words} | {shown} | {'the same' if same else _format(with_keys)} |"
        )
    return "\n".join(lines) + "\n"


def _format(codes: list[str]) -> str:
    return " or ".join(codes) or "none"


if __name__ == "__main__":
    replace_section(PAGE, "faults", make_table())

"""Folders of the repository that tests read from."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
CAPTURES = ROOT / "captures"
LAB_CAPTURES = CAPTURES / "lab"
#: Recordings for tests alone.
DATA = ROOT / "tests" / "analysis" / "data"

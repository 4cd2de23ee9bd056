"""The JSON document of a verification, schema "ikeanalyze.verification/1"."""

from collections import Counter
from typing import Any, Final

from ikeanalyze.analysis.verification.checks import VerificationCheck
from ikeanalyze.analysis.verification.verify import Verification
from ikeanalyze.render.core.json import select_attributes

SCHEMA: Final = "ikeanalyze.verification/1"


def build_document(verification: Verification) -> dict[str, Any]:
    """Return the document."""
    outcomes = Counter(check.outcome for check in verification.checks)
    return {
        "schema": SCHEMA,
        "captures": [item.path for item in verification.captures],
        "totals": {word.replace(" ", "_"): outcomes[word] for word in ("passed", "failed", "not made")},
        "handshakes": [
            {
                **select_attributes(item, "id", "spi_i", "spi_r", "replaces"),
                "checks": [_build_check(check) for check in item.checks],
            }
            for item in verification.handshakes
        ],
        "warnings": [
            {"capture": item.capture, "frame": item.frame, "message": item.message} for item in verification.warnings
        ],
        "skipped": [select_attributes(item, "path", "reason") for item in verification.skipped],
    }


def _build_check(check: VerificationCheck) -> dict[str, Any]:
    return {
        **select_attributes(
            check, "what", "outcome", "why", "how", "expected", "found", "epoch", "side", "exchange", "frame"
        ),
        "file": None if check.origin is None else check.origin.path,
        "line": None if check.origin is None else check.origin.line,
    }

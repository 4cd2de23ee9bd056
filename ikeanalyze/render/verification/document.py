"""A verification for programs: the JSON document of schema "ikeanalyze.verification/1"."""

from collections import Counter
from typing import Any, Final

from ikeanalyze.analysis.verification.checks import VerificationCheck
from ikeanalyze.analysis.verification.verify import Verification

SCHEMA: Final = "ikeanalyze.verification/1"


def build_document(verification: Verification) -> dict[str, Any]:
    """The document of schema "ikeanalyze.verification/1"."""
    outcomes = Counter(check.outcome for check in verification.checks)
    return {
        "schema": SCHEMA,
        "captures": [one.path for one in verification.captures],
        "totals": {word.replace(" ", "_"): outcomes[word] for word in ("passed", "failed", "not made")},
        "handshakes": [
            {
                "id": one.id,
                "spi_i": one.spi_i,
                "spi_r": one.spi_r,
                "replaces": one.replaces,
                "checks": [_check(check) for check in one.checks],
            }
            for one in verification.handshakes
        ],
        "warnings": [
            {"capture": one.capture, "frame": one.frame, "message": one.what} for one in verification.warnings
        ],
        "skipped": [{"path": one.path, "reason": one.reason} for one in verification.skipped],
    }


def _check(check: VerificationCheck) -> dict[str, Any]:
    return {
        "what": check.what,
        "outcome": check.outcome,
        "why": check.why,
        "how": check.how,
        "expected": check.expected,
        "found": check.found,
        "epoch": check.epoch,
        "side": check.side,
        "exchange": check.exchange,
        "frame": check.frame,
        "file": None if check.origin is None else check.origin.path,
        "line": None if check.origin is None else check.origin.line,
    }

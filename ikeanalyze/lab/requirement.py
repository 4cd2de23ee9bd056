"""Requirements of the lab, as `ikeanalyze lab doctor` lists them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequirementFinding:
    """A requirement or recommendation of the lab."""

    name: str
    there: bool | None  # whether it is available; None: only root can check
    found: str  # version or problem
    needed: bool  # whether the lab cannot run without it
    remedy: str | None = None  # how to install it; None: available or not installable


def make_finding(
    name: str, available: str | bool | None, missing: str, *, needed: bool = False, remedy: str | None = None
) -> RequirementFinding:
    """Return what was found out about one requirement.

    `available`: the version or path, or whether it is available. `missing`: the text if it is not.
    """
    text = available if isinstance(available, str) else "yes"
    if available:
        return RequirementFinding(name, True, text, needed)
    return RequirementFinding(name, False, missing, needed, remedy)

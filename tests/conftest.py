"""Nothing is skipped for want of a tool where everything is meant to run."""

import os
import shutil

import pytest


def pytest_configure() -> None:
    missing = [tool for tool in ("tshark", "editcap", "mergecap") if not shutil.which(tool)]
    if os.environ.get("CI") and missing:
        raise pytest.UsageError(f"{', '.join(missing)} missing: `make test` installs Debian's tshark")

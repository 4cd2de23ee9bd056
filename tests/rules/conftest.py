"""Each rule is tested with the Python functions alone and with the compiled core."""

import pytest

from ikeanalyze import core


@pytest.fixture(params=["Python", "core"])
def implementation(request, monkeypatch):
    if request.param == "core":
        request.getfixturevalue("compiled_core")
    else:
        monkeypatch.setattr(core, "compiled", None)

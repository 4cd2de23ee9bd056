from ikeanalyze.lab.scenario.settings import KEYS
from tests.paths import ROOT


def test_the_documentation_has_every_key_with_its_default_and_what_is_allowed():
    text = (ROOT / "docs" / "lab.md").read_text()
    rows = {
        cells[1].strip("` "): (cells[2].strip("` "), cells[4].strip())
        for line in text.splitlines()
        if len(cells := line.split("|")) == 6
    }
    for name, key in KEYS.items():
        if name.startswith("aaa_link."):
            name = name.removeprefix("aaa_")
        default = str(key.default).lower() if isinstance(key.default, bool) else key.default
        shown = "" if default in ((), None) else f"{default:g}" if isinstance(default, float) else str(default)
        assert rows[name] == (shown, key.allowed), name

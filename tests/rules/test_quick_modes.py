"""The Wireshark plugin diagnoses the test vectors of refused quick modes as the report does.

Python: tests/analysis/handshakes/diagnosis.
"""

import pytest

from tests.dissectors.test_diagnosis import list_reported, list_shown
from tests.rules.quick_modes import make_quick_mode_trace, read_quick_mode_cases


@pytest.mark.turns
@pytest.mark.parametrize("case", read_quick_mode_cases(), ids=str)
def test_the_plugin_has_the_diagnosis(tshark, tmp_path, case):
    trace, keys = make_quick_mode_trace(case)
    path = tmp_path / "capture.pcap"
    path.write_bytes(trace.pcap())
    path.with_suffix(".keys").write_text(keys)
    shown = list_shown(tshark, path, keys)
    assert shown[0][0] == "|".join(case.codes)
    assert case.says in shown[0][3]
    assert shown == list_reported(path, [path.with_suffix(".keys")])


@pytest.mark.turns
@pytest.mark.parametrize("case", read_quick_mode_cases(), ids=str)
def test_the_plugin_has_that_of_the_report_without_keys(tshark, tmp_path, case):
    path = tmp_path / "capture.pcap"
    path.write_bytes(make_quick_mode_trace(case)[0].pcap())
    assert list_shown(tshark, path, None) == list_reported(path, [])

"""Python, the compiled core and the Wireshark plugin find the capture duplicates of the test vectors."""

import pytest

import ikeanalyze
from tests.dissectors.run_plugin import fields
from tests.rules.vectors import make_duplicates_capture, read_duplicates

CASES = read_duplicates()


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_reports_have_the_duplicates(case, tmp_path):
    frames = ikeanalyze.read(make_duplicates_capture([case], tmp_path / "capture.pcap")).frames
    assert frames["capture_duplicate"].to_list() == [packet.copy for packet in case.packets]


def test_the_plugin_has_the_duplicates(tshark, tmp_path):
    path = make_duplicates_capture(CASES, tmp_path / "capture.pcap")
    rows = iter(fields(tshark, path, "ikex.duplicate_of"))
    for case in CASES:
        assert [bool(next(rows)[0]) for _ in case.packets] == [packet.copy for packet in case.packets], case
    assert not list(rows)

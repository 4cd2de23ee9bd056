"""The plugin and `ikeanalyze report` agree on every recorded capture and on damaged copies, or the reason is listed."""

import pytest

from tests.dissectors.differential import RECORDED, find_differences, find_differences_of_copy, find_reason

#: Of the copies that `python -m tests.dissectors.differential` reads: each damage, most captures, and one in which the
#: first message of an exchange of IKEv1 comes again after the third.
COPIES = (*range(0, 504, 11), 637)
newest = pytest.mark.parametrize("tshark", ["forky"], indirect=True)


def list_unknown(capture, damage, differences):
    return [difference for difference in differences if find_reason(capture, damage, difference) is None]


@newest
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_every_number_of_a_recorded_capture_equals_that_of_the_report(tshark, path):
    assert list_unknown(path.name, "recorded", find_differences(tshark, path)) == []


@newest
@pytest.mark.parametrize("number", COPIES)
def test_every_number_of_a_damaged_copy_equals_that_of_the_report(tshark, number):
    assert list_unknown(*find_differences_of_copy(tshark, number)) == []

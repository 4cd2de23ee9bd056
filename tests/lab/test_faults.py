"""What a report says about recorded faults, next to what the daemons log about them."""

import gzip

import pytest

from tests.lab.faults import FAULTS, FOLDER, PAGE, make_table


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_daemon_logs_the_fault(fault):
    with gzip.open(fault.log_path, "rt", errors="replace") as log:
        assert fault.words in log.read()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_diagnosis_names_the_fault(fault):
    assert fault.diagnose() == (fault.codes, list(fault.codes_of_capture))


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.keys], ids=lambda fault: fault.name)
def test_with_keys_the_diagnosis_names_the_cause(fault):
    expected = fault.codes if fault.codes_with_keys is None else fault.codes_with_keys
    assert fault.diagnose(with_keys=True)[0] == expected


def test_each_recorded_fault_is_listed():
    assert {fault.name for fault in FAULTS} == {path.stem for path in (FOLDER / "scenarios").iterdir()}


def test_the_documentation_has_the_table():
    assert make_table() in PAGE.read_text()

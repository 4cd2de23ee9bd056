"""The Wireshark plugin diagnoses the test vectors as expected; Python: tests/analysis/handshakes/diagnosis."""

import pytest

from tests.dissectors.run_plugin import fields
from tests.rules.diagnosis import make_diagnosis_trace, read_diagnosis_cases

NAMES = tuple(f"ikex.diagnosis.{name}" for name in ("code", "concerns", "frame", "confidence", "message"))


@pytest.mark.turns
@pytest.mark.parametrize("case", read_diagnosis_cases(), ids=str)
def test_the_plugin_has_the_diagnosis(tshark, tmp_path, case):
    capture = make_diagnosis_trace(case).write(tmp_path / "capture.pcap")
    rows = fields(tshark, capture, *NAMES, only="ikex.handshake", separator="|")
    [shown] = {tuple(row) for row in rows}  # each packet of a handshake shows it
    codes, concerns, frames, confidence, messages = (values.split("|") for values in shown)
    assert codes == (case.codes or [""])
    if case.codes:
        exchange, number, kind, sender = (case.message or "").split()
        assert concerns[0] == f"{exchange} {number} {kind} of the {sender}"
        assert confidence[0] == case.confidence
        assert case.says in messages[0]
        if case.frames is not None:
            assert frames[: len(case.frames)] == [str(number) for number in case.frames]

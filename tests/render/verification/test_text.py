import json

import pytest

from ikeanalyze.analysis.verification.checks import VerificationCheck
from ikeanalyze.analysis.verification.verify import Verification, VerifiedHandshake
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.keys.key_set import Origin
from ikeanalyze.render import Format
from ikeanalyze.render.verification.formats import FORMATS
from ikeanalyze.render.verification.text import format_check_label, format_summary
from tests.analysis.verify_recordings import recorded
from tests.keys.logs_of import LOGS
from tests.render.render_text import written

PASSED = VerificationCheck(
    0,
    "AUTH",
    "passed",
    how="PSK of the log",
    expected="aa",
    found="aa",
    epoch=1,
    side="initiator",
    exchange="IKE_AUTH 2 request",
    frame=5,
)
FAILED = VerificationCheck(
    0, "SKEYSEED", "failed", why="another", expected="01", found="02", epoch=1, origin=Origin("a.log", 7)
)
ABSENT = VerificationCheck(0, "AUTH", "not made", why="no PSK", side="responder")


def text(verification, **options):
    return written(FORMATS, verification, Format.TERMINAL, **options)


def made(*checks, count=1):
    return Verification(
        [VerifiedHandshake(i + 1, Protocol.IKEV2, "01" * 8, "02" * 8, None, checks) for i in range(count)], []
    )


def test_a_check_is_labelled_with_its_message_epoch_or_side():
    assert format_check_label(PASSED) == "AUTH in IKE_AUTH 2 request"
    assert format_check_label(FAILED) == "SKEYSEED of epoch 1"
    assert format_check_label(ABSENT) == "AUTH of the responder"


def test_a_summary_counts_checks_by_result():
    assert format_summary([PASSED, PASSED, FAILED]) == "2 passed, 1 failed"
    assert format_summary([ABSENT]) == "1 not made"
    assert format_summary([]) == "none"


def test_one_ike_sa():
    lines = text(made(PASSED, FAILED, ABSENT), width=100).splitlines()
    assert [line.split() for line in lines if line.startswith("  AUTH  ")] == [
        ["AUTH", "1", "IKE_AUTH", "2", "request", "PSK", "of", "the", "log", "passed"],
        ["AUTH", "-", "responder", "not", "made"],
    ]
    start = lines.index("Failed")
    assert lines[start + 1] == ("  SKEYSEED of epoch 1  another (handshake 1, a.log line 7, expected 01, found 02)")
    assert lines[-1] == "  AUTH of the responder  no PSK (handshake 1)"


def test_several_handshakes_have_a_row_each_and_share_reasons():
    lines = text(made(PASSED, FAILED, ABSENT, count=2)).splitlines()
    row = next(i for i, line in enumerate(lines) if line.startswith("  #"))
    assert lines[row].split() == ["#", "ICV", "keys", "IntAuth", "AUTH", "outcome"]
    assert lines[row + 1].split() == ["1", "-", "0/1", "-", "1/1", "failed"]
    # the same of both is said once
    assert sum("no PSK" in line for line in lines) == 1
    assert "2 handshakes from 1 on" in "\n".join(lines)


def test_without_keys_there_is_nothing_to_list():
    nothing = VerificationCheck(0, "ICV", "not made", why="no key")
    checked = VerifiedHandshake(3, Protocol.IKEV2, "03" * 8, "04" * 8, 2, (PASSED,))
    lines = text(Verification([*made(nothing, count=2).handshakes, checked], [])).splitlines()
    assert lines[1:6] == [
        "  checks      1 passed, 2 not made",
        "  IKE SAs     1 of 3 with keys",
        "  handshake   3",
        "  SPIi, SPIr  0303030303030303, 0404040404040404",
        "  replaces    handshake 2",
    ]
    assert lines[-1] == "  ICV  no key (2 handshakes from 1 on)"
    lines = text(made(nothing)).splitlines()
    assert "  IKE SAs  0 of 1 with keys" in lines
    assert "Checks" not in lines


def test_many_handshakes_are_cut_unless_all_are_wanted():
    many = made(PASSED, count=40)
    assert "... and 10 more (--no-limit shows them)" in text(many)
    assert "more" not in text(many, every=True)
    reasons = Verification(
        [
            VerifiedHandshake(
                i,
                Protocol.IKEV2,
                "",
                "",
                None,
                (VerificationCheck(i, "ICV", "failed", why=f"reason {i}", exchange="X"),),
            )
            for i in range(1, 41)
        ],
        [],
    )
    assert "and 10 more (--no-limit shows them)" in text(reasons)
    assert "reason 40" in text(reasons, every=True)


def test_text_out_of_files_is_harmless():
    bad = VerificationCheck(
        0,
        "AUTH",
        "failed",
        why="x\x1b[31m",
        how="X.509 CN=\x1b]0;a\a",
        exchange="IKE_AUTH 1 request",
        origin=Origin("a\nb", None),
    )
    assert not {"\x1b", "\a"} & set(text(made(bad)))


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_lines_fit_the_width_of_the_terminal(width):
    lines = text(recorded("pq-mlkem768-psk"), width=width).splitlines()
    assert max(map(len, lines)) <= max(width, 80)


def test_a_recorded_one():
    shown = text(recorded("rsa"))
    assert "checks      16 passed" in shown
    assert "its chain, dates and" in shown


def test_json_has_every_check_of_each_handshake():
    document = json.loads(written(FORMATS, recorded("pq-mlkem768-psk"), Format.JSON))
    assert document["schema"] == "ikeanalyze.verification/1"
    assert document["totals"] == {"passed": 24, "failed": 0, "not_made": 0}
    (handshake,) = document["handshakes"]
    assert (handshake["id"], handshake["spi_i"], handshake["replaces"]) == (1, "904a132d2b087803", None)
    assert len(handshake["checks"]) == 24
    last = handshake["checks"][-1]
    assert last == {
        "what": "AUTH",
        "outcome": "passed",
        "why": None,
        "how": "PSK of the log",
        "expected": last["found"],
        "found": last["found"],
        "epoch": 1,
        "side": "responder",
        "exchange": "IKE_AUTH 2 response",
        "frame": 8,
        "file": None,
        "line": None,
    }


def test_json_of_what_was_skipped(tmp_path):
    bad = tmp_path / "bad"
    bad.write_text("x")
    result = recorded("psk-classic", bad, LOGS / "charon-5.9.8-rekeys.i.log.gz")
    document = json.loads(written(FORMATS, result, Format.JSON))
    assert [item["path"] for item in document["skipped"]] == [str(bad)]
    assert document["totals"]["not_made"] == 1

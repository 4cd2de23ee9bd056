"""JUnit XML of a report, read by another parser than the writer's library has: pyexpat, through minidom."""

import io
from dataclasses import replace
from xml.dom.minidom import parseString

from ikeanalyze.analysis.result import SkippedFile
from ikeanalyze.analysis.tables.fail_conditions import parse_conditions
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.report.gate.junit import write_junit
from tests.render.analysis_examples import CAPTURE, analysis


def written(example, fail_on=None):
    out = io.StringIO()
    write_junit(example, out, RenderOptions(fail_on=() if fail_on is None else parse_conditions(fail_on)))
    return parseString(out.getvalue().encode()).documentElement


def attributes(element):
    return dict(element.attributes.items())


def test_each_handshake_is_a_test_case_of_its_capture():
    example = analysis(range(1, 9))
    root = written(example)
    (suite,) = root.getElementsByTagName("testsuite")
    rows = [row for row in example.handshakes.to_dicts() if not row["rekeyed"]]
    failed = [row for row in rows if row["outcome"] in ("failed", "unanswered", "half-open")]
    counts = {"tests": str(len(rows)), "failures": str(len(failed)), "errors": "0"}
    assert attributes(root) == {"name": "ikeanalyze", **counts}
    assert attributes(suite) == {"name": CAPTURE, "timestamp": "2025-11-24T16:00:10.123456789Z", **counts}
    cases = suite.getElementsByTagName("testcase")
    for case, row in zip(cases, rows, strict=True):
        assert case.getAttribute("classname") == CAPTURE
        assert case.getAttribute("name") == f"handshake {row['handshake']}"
        assert float(case.getAttribute("time")) * 1e9 == (row["setup_ns"] or 0) // 1000 * 1000
        failures = [failure.getAttribute("type") for failure in case.getElementsByTagName("failure")]
        assert failures == ([row["outcome"]] if row in failed else [])


def test_the_conditions_decide_what_fails():
    root = written(analysis([3, 1]), "retransmissions>0,bytes>1")
    first, second = root.getElementsByTagName("failure")
    assert first.getAttribute("message").startswith("retransmissions ")
    assert first.firstChild.data.splitlines()[1].startswith(f"{CAPTURE}: handshake 1: bytes ")
    assert second.getAttribute("type") == "bytes>1"
    assert root.getAttribute("failures") == "2"


def test_what_could_not_be_read_is_an_error_and_no_handshake_a_failure():
    example = replace(analysis([], skipped=[SkippedFile("<b>.pcap", "not a pcap or pcapng file")]))
    root = written(example, "no-handshake")
    (error,) = root.getElementsByTagName("error")
    assert attributes(error) == {"message": "not a pcap or pcapng file", "type": "skipped"}
    assert error.parentNode.getAttribute("classname") == "<b>.pcap"
    (failure,) = root.getElementsByTagName("failure")
    assert failure.getAttribute("message") == "no handshake"
    assert (root.getAttribute("tests"), root.getAttribute("errors"), root.getAttribute("failures")) == ("2", "1", "1")


def test_hostile_names_are_text():
    name = 'a"<&\x1b\x00]]>.pcap'
    example = analysis([], skipped=[SkippedFile(name, "\x07")])
    (case,) = written(example).getElementsByTagName("testcase")
    assert case.getAttribute("classname") == 'a"<&\\x1b\\x00]]>.pcap'

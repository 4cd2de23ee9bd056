"""A report as JUnit XML, the format in which servers of continuous integration show tests.

A capture is a test suite, a handshake is a test case, and fails if it meets a condition of `--fail-on`; without any, if
it did not succeed. A capture or key file that was skipped is a test case with an error. There is no standard; the
elements are those that Jenkins and GitLab read.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, TextIO
from xml.etree import ElementTree as ET

from ikeanalyze.analysis.result import Analysis, CaptureSummary
from ikeanalyze.analysis.tables.fail_conditions import NO_SUCCESS
from ikeanalyze.analysis.tables.search_table import build_search_table
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.core.values import escape_text, format_iso_time
from ikeanalyze.render.report.gate.violations import Violation, find_violations
from ikeanalyze.render.report.selection import select_set_ups

#: Attributes of suites that count cases, and the elements that are counted.
_COUNTS: Final = {"tests": "testcase", "failures": "testcase/failure", "errors": "testcase/error"}


def write_junit(analysis: Analysis, out: TextIO, view: RenderOptions) -> None:
    """Write the report as one XML document."""
    root = ET.Element("testsuites", name="ikeanalyze")
    violations: dict[int | None, list[Violation]] = {}
    for violation in find_violations(analysis, view.fail_on or NO_SUCCESS):
        violations.setdefault(violation.handshake, []).append(violation)
    table = build_search_table(select_set_ups(analysis).handshakes)
    rows = {path: list(group) for path, group in groupby(table.iter_rows(named=True), lambda row: row["capture"])}
    for capture in analysis.captures:
        root.append(_make_suite(capture, rows.get(capture.path, ()), violations))
    for violation in violations.get(None, ()):
        name = "ikeanalyze" if violation.capture is None else escape_text(violation.capture)
        _add_case(_add_suite(root, name), name, "handshakes", [violation])
    for skipped in analysis.skipped:
        name = escape_text(skipped.path)
        case = _add_case(_add_suite(root, name), name, "read")
        ET.SubElement(case, "error", message=escape_text(skipped.reason), type="skipped")
    for suite in (*root, root):
        for name, element in _COUNTS.items():
            suite.set(name, str(len(suite.findall(f"{'testsuite/' if suite is root else ''}{element}"))))
    ET.indent(root)
    out.write(f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n')


def _make_suite(
    capture: CaptureSummary, rows: Iterable[Mapping[str, Any]], violations: Mapping[int | None, Sequence[Violation]]
) -> ET.Element:
    name = escape_text(capture.path)
    suite = ET.Element("testsuite", name=name)
    if (time := format_iso_time(capture.first_ns)) is not None:
        suite.set("timestamp", time)
    for row in rows:
        case = _add_case(suite, name, f"handshake {row['handshake']}", violations.get(row["handshake"], ()))
        case.set("time", f"{(row['setup'] or 0) / 1e9:.6f}")
        facts = ET.SubElement(case, "system-out")
        facts.text = " ".join(
            escape_text(str(row[key])) for key in ("initiator", "responder", "spii", "spir") if row[key]
        )
    return suite


def _add_suite(root: ET.Element, name: str) -> ET.Element:
    return ET.SubElement(root, "testsuite", name=name)


def _add_case(suite: ET.Element, class_name: str, name: str, violations: Sequence[Violation] = ()) -> ET.Element:
    case = ET.SubElement(suite, "testcase", classname=class_name, name=name)
    if violations:  # servers show the first failure of a test case only
        message = "; ".join(dict.fromkeys(violation.problem for violation in violations))
        failure = ET.SubElement(case, "failure", message=message, type=violations[0].condition)
        failure.text = "\n".join(f"{violation} ({violation.condition})" for violation in violations)
    return case

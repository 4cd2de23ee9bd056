"""The diagnosis of handshakes in the formats of a report."""

import csv
import io
import json

import polars as pl

from ikeanalyze.analysis.read import read_captures
from ikeanalyze.render import Format
from ikeanalyze.render.ladder.text import render_heading
from ikeanalyze.render.report.sections.diagnosis import format_evidence, render_diagnosis_table
from tests.craft import SECOND, Handshake, Trace
from tests.json_schemas import list_errors
from tests.render.analysis_examples import analysis
from tests.render.handshake_examples import SILENT_RESPONDER


def test_json_has_a_list_which_is_empty_without_a_problem(rendered):
    clean, silent = json.loads(rendered(analysis([1, 4]), Format.JSON))["handshakes"]
    assert clean["diagnosis"] == []
    assert [entry["code"] for entry in silent["diagnosis"]] == ["responder-silent", "udp-4500-blocked"]
    assert silent["diagnosis"][0] == SILENT_RESPONDER


def test_csv_has_the_codes_and_columns_for_the_rest(rendered):
    clean, silent = csv.DictReader(io.StringIO(rendered(analysis([1, 4]), Format.CSV)))
    assert clean["diagnosis"] == clean["diagnosis_message"] == ""
    assert silent["diagnosis"] == "responder-silent; udp-4500-blocked"
    assert silent["diagnosis_confidence"] == "consistent with; consistent with"
    assert silent["diagnosis_frames"] == "1 2; 1 2"
    assert silent["diagnosis_rfc"] == "RFC 7296, 2.1; RFC 7296, 2.23"
    assert silent["diagnosis_message"].startswith("No IKE response of 192.0.2.2 is in the capture: ")


def test_a_report_of_one_handshake_begins_with_the_diagnosis(rendered):
    lines = rendered(analysis([4]), Format.TERMINAL).splitlines()
    title = lines.index("Handshake 1: unanswered")
    assert lines[title + 1].split()[:3] == ["diagnosis", "No", "IKE"]
    assert [line.split()[0] for line in lines if line.startswith("  or  ")] == ["or"]


def test_evidence_names_the_message_its_packets_and_how_sure_it_is():
    text = format_evidence(SILENT_RESPONDER)
    assert text == "IKE_SA_INIT 0 request of the initiator, packets 1, 2: consistent with this, not proved"
    certain = SILENT_RESPONDER | {"frames": [1234], "confidence": "certain"}
    assert format_evidence(certain) == "IKE_SA_INIT 0 request of the initiator, packet 1234: certain"
    many = SILENT_RESPONDER | {"frames": list(range(1, 13))}
    assert "packets 1, 2, 3, 4, 5, 6, 7, 8, ...:" in format_evidence(many)
    assert format_evidence(SILENT_RESPONDER | {"frames": []}).startswith("IKE_SA_INIT 0 request of the initiator:")


def test_a_report_of_many_handshakes_counts_codes():
    (table,) = render_diagnosis_table(analysis([4, 1, 4, 2, 4]).handshakes, every=False)
    assert list(table.rows) == [("responder-silent", "3", "1", SILENT_RESPONDER["message"])]


def test_a_report_without_problems_has_no_table():
    assert list(render_diagnosis_table(analysis([1, 2, 3]).handshakes, every=False)) == []


def test_text_from_a_capture_is_escaped():
    evil = SILENT_RESPONDER | {"message": "\x1b[31m"}
    handshakes = analysis([4]).handshakes
    handshakes = handshakes.with_columns(pl.Series("diagnosis", [[evil]], dtype=handshakes.schema["diagnosis"]))
    (table,) = render_diagnosis_table(handshakes, every=False)
    assert "\x1b" not in "".join(table.rows[0])


def test_a_page_begins_with_the_diagnosis(rendered):
    page = rendered(analysis([4]), Format.HTML)
    assert 0 < page.index(SILENT_RESPONDER["message"]) < page.index('<section id="summary"') < page.index("<svg")
    assert page.count(SILENT_RESPONDER["message"]) == 1
    several = rendered(analysis([1, 4]), Format.HTML)
    assert several.index('<h2 id="diagnosis">') < several.index('<section id="summary"')
    # in the table, and above its ladder
    assert several.count(SILENT_RESPONDER["message"]) == 2
    assert '<a href="#diagnosis">' in several
    assert 'id="diagnosis"' not in rendered(analysis([1]), Format.HTML)


def test_a_ladder_begins_with_the_diagnosis():
    title, diagnosis, evidence, remedy, *_ = render_heading(analysis([4]))
    assert title == "Handshake 1: unanswered"
    assert diagnosis == f"diagnosis: {SILENT_RESPONDER['message']} (responder-silent)"
    assert evidence.startswith("evidence: IKE_SA_INIT 0 request of the initiator, packets 1, 2")
    assert remedy == f"try: {SILENT_RESPONDER['remedy']}"


def test_a_capture_with_a_flood_says_so_first(rendered, tmp_path):
    path = tmp_path / "flood.pcap"
    trace = Trace()
    for number in range(20):
        trace.play(Handshake(number).init(), at=number * SECOND)
    flood = read_captures(trace.write(path))
    document = json.loads(rendered(flood, Format.JSON))
    assert list_errors(document) == []
    (capture,) = document["captures"]
    (entry,) = capture["diagnosis"]
    assert set(entry) == {"code", "confidence", "message", "handshakes", "remedy", "rfc"}
    assert entry["code"] == "half-open-flood"
    assert entry["handshakes"] == list(range(1, 13))
    lines = rendered(flood, Format.TERMINAL).splitlines()
    first = next(line for line in lines if line.startswith("  "))  # after the path, which may take several lines
    assert first.startswith("  diagnosis  20 of 20 handshakes with 192.0.2.2 stop after IKE_SA_INIT")
    (row,) = [line for line in lines if line.startswith("  half-open-flood")]
    assert row.split()[1:3] == ["-", "1"]
    assert "half-open-flood" in rendered(flood, Format.HTML)

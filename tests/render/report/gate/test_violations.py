from dataclasses import replace

import polars as pl

from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.tables.fail_conditions import parse_conditions
from ikeanalyze.render.report.gate.violations import check_diagnosis_codes, find_violations
from tests.craft import SECOND, Handshake, Trace
from tests.render.analysis_examples import CAPTURE, analysis

EXAMPLE = analysis(range(1, 9))


def find(example, text):
    return [str(violation) for violation in find_violations(example, parse_conditions(text))]


def test_each_handshake_with_an_outcome_is_named_with_its_reason():
    rows = [row for row in EXAMPLE.handshakes.to_dicts() if row["outcome"] == "failed"]
    expected = [f"{CAPTURE}: handshake {row['handshake']}: failed: {row['reason']}" for row in rows]
    assert find(EXAMPLE, "failed") == expected != []


def test_numbers_are_compared_and_shown_in_their_unit():
    slow = [row for row in EXAMPLE.handshakes.to_dicts() if (row["setup_ns"] or 0) > 500_000_000]
    expected = [f"{CAPTURE}: handshake {row['handshake']}: setup_ms {row['setup_ns'] / 1e6:,.3f}" for row in slow]
    assert find(EXAMPLE, "setup_ms>500") == expected != []
    again = [row["handshake"] for row in EXAMPLE.handshakes.to_dicts() if row["retransmitted_messages"] >= 1]
    assert [
        violation.handshake for violation in find_violations(EXAMPLE, parse_conditions("retransmissions>=1"))
    ] == again


def test_violations_of_several_conditions_are_in_the_order_of_handshakes():
    found = find_violations(EXAMPLE, parse_conditions("unanswered,failed,bytes>0"))
    ids = [violation.handshake for violation in found]
    assert ids == sorted(ids)
    assert {violation.condition for violation in found} == {"unanswered", "failed", "bytes>0"}


def test_an_unknown_set_up_time_is_not_above_a_limit():
    unknown = EXAMPLE.handshakes.with_columns(pl.lit(None, pl.Int64).alias("setup_ns"))
    assert find(replace(EXAMPLE, handshakes=unknown), "setup_ms>0") == []


def test_handshakes_with_messages_that_are_not_decrypted():
    (first, *rest) = EXAMPLE.exchanges.filter(pl.col("type").cast(pl.String) == "IKE_AUTH")["exchange"]
    opened = pl.when(pl.col("exchange") == first).then(False).otherwise(True).alias("decrypted")
    changed = replace(EXAMPLE, exchanges=EXAMPLE.exchanges.with_columns(opened))
    handshake = EXAMPLE.exchanges.filter(pl.col("exchange") == first)["handshake"].item()
    assert find(changed, "undecrypted") == [f"{CAPTURE}: handshake {handshake}: not decrypted"]
    assert rest


def test_no_handshake_is_a_violation_if_it_is_asked_for():
    assert find(analysis([]), "no-handshake") == ["no handshake"]
    assert find(analysis([]), "failed") == find(EXAMPLE, "no-handshake") == []


def test_rekeyed_ike_sas_are_not_handshakes():
    rekeyed = EXAMPLE.handshakes.with_columns(pl.lit(True).alias("rekeyed"))
    assert find(replace(EXAMPLE, handshakes=rekeyed), "bytes>0") == []


def test_a_diagnosis_of_the_capture_as_a_whole_is_a_violation_of_the_capture(tmp_path):
    trace = Trace()
    for number in range(20):
        trace.play(Handshake(number).init(), at=number * SECOND)
    flood = read_captures(trace.write(tmp_path / "flood.pcap"))
    conditions = parse_conditions("diagnosis:half-open-flood")
    check_diagnosis_codes(conditions)
    (violation,) = find_violations(flood, conditions)
    assert (violation.handshake, violation.capture) == (None, str(tmp_path / "flood.pcap"))
    assert "20 of 20 handshakes with 192.0.2.2 stop after IKE_SA_INIT" in str(violation)
    assert find(EXAMPLE, "diagnosis:half-open-flood") == []

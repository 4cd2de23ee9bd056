import csv
import io
import json

from ikeanalyze.render import Format
from ikeanalyze.render.prediction.document import build_document, build_rows
from ikeanalyze.render.prediction.formats import FORMATS
from tests.render.prediction_examples import bursts, failed, prediction, repeated, sweep
from tests.render.render_text import written


def test_json_has_each_handshake_and_prediction():
    result = json.loads(written(FORMATS, [prediction(), bursts()], Format.JSON))
    assert result["schema"] == "ikeanalyze.prediction/1"
    assert [handshake["capture"] for handshake in result["handshakes"]] == ["made.pcap", "b.pcap"]
    first, second = result["predictions"]
    # by hand from tests/render/prediction_examples.py
    assert result["handshakes"][0]["messages"] == 4
    assert result["handshakes"][0]["bytes"] == 342 + 362 + 1246 + 346 + 946
    assert result["handshakes"][0]["initiator_ms"] == 2
    assert result["handshakes"][0]["responder_ms"] == 4.5
    assert (result["handshakes"][0]["aaa_ms"], result["handshakes"][0]["aaa_round_trips"]) == (4, 2)
    assert result["handshakes"][0]["path_rtt_ms"] is None
    assert result["handshakes"][1]["path_rtt_ms"] == 0.3
    assert result["handshakes"][0]["exchanges"][1]["request"] == {"datagrams": 2, "frames": 2, "bytes": 1592}
    assert first["link"]["burst"] is None
    assert second["link"]["burst"] == {"mean": 3, "of_frames": True, "loss": 0.5}
    assert second["link"]["scenario"] == "ship"
    assert first["failure"] == {"probability": 0.0066, "low": 0.0052, "high": 0.0084}
    assert first["failed_in"] == {"IKE_SA_INIT 0": 20, "IKE_AUTH 1": 46}
    assert first["once"] == {"messages": 4, "frames": 5, "bytes": 3206}
    assert first["setup_ms"]["mean"] == 13342.4
    assert round(first["closed_form"]["setup_ms"], 6) == 13424.3
    assert second["closed_form"] is None
    assert second["no_closed_form"] == "losses come in bursts"
    assert second["policy"]["jitter"] == 0.1


def test_predictions_that_never_succeed_have_no_times():
    result = build_document([failed()])["predictions"][0]
    assert result["setup_ms"] is result["bytes"] is result["closed_form"] is None
    assert result["all_bytes_mean"] == 5802.2


def test_csv_has_a_row_for_each_prediction():
    text = written(FORMATS, [*sweep(), bursts(), failed()], Format.CSV)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 8
    assert [row["loss"] for row in rows[:3]] == ["0", "0.1", "0.2"]
    assert [row["setup_ms_mean"] for row in rows[:3]] == ["100", "200", "300"]
    assert rows[0]["capture"] == "/x/a.pcap"
    assert rows[0]["burst_unit"] == rows[0]["mtu"] == rows[0]["largest_message_bytes"] == ""
    assert [rows[0][f"{name}_once"] for name in ("messages", "frames", "bytes")] == ["4", "5", "3206"]
    assert rows[0]["drop_ip_fragments"] == "false"
    assert (rows[6]["burst_mean"], rows[6]["burst_unit"], rows[6]["scenario"]) == ("3", "frames", "ship")
    assert (rows[7]["failure"], rows[7]["setup_ms_mean"], rows[7]["closed_bytes"]) == ("1.0", "", "")
    assert all(None not in row and None not in row.values() for row in rows)


def test_attempts_and_budgets():
    document = build_document([repeated()])["predictions"][0]
    assert (document["until_established"], document["attempts_mean"]) == (True, 1.25)
    assert document["budgets"][0] == {"ms": 50, "share": 0.25, "low": 0.24, "high": 0.26}
    (row,) = build_rows([repeated()])
    assert (row["within_50_ms"], row["within_300_ms"], row["attempts_mean"]) == (0.25, 0.9, 1.25)
    assert row["until_established"] == "true"

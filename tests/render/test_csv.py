import csv
import io

from ikeanalyze.analysis import schema
from ikeanalyze.render import Format
from ikeanalyze.render import csv as ours
from tests.render.handmade import analysis


def test_a_row_per_handshake(rendered):
    rows = list(csv.DictReader(io.StringIO(rendered(analysis(), Format.CSV))))
    assert [row["handshake"] for row in rows] == ["1", "2", "3", "4", "5"]
    pq, eap, loss, silent, _ = rows
    assert pq["start_time"] == "2025-11-24T16:00:10.123456789Z"
    assert pq["setup_ms"] == "12.75"
    assert pq["additional_key_exchanges"] == "1 ML-KEM-768"
    assert pq["responder_supports"] == "IKEV2_FRAGMENTATION_SUPPORTED; INTERMEDIATE_EXCHANGE_SUPPORTED"
    assert pq["phase_IKE_INTERMEDIATE_bytes"] == "2605"
    assert pq["phase_Informational_bytes"] == ""
    assert loss["phase_IKE_INTERMEDIATE_bytes"] == ""
    assert loss["extra_round_trips"] == "INVALID_KE_PAYLOAD"
    assert eap["aaa_request_bytes"] == "402"
    assert silent["setup_ms"] == ""


def test_every_column_is_there_and_flat():
    table = ours.flat(analysis().handshakes)
    flat = {name.replace("_ms", "_ns").replace("_time", "_ns") for name in table.columns}
    assert set(schema.HANDSHAKES) - {"phases"} <= flat
    assert not any(kind.is_nested() for kind in table.dtypes)


def test_in_slices(rendered, monkeypatch):
    whole = rendered(analysis(), Format.CSV)
    monkeypatch.setattr(ours, "_ROWS_AT_ONCE", 2)
    assert rendered(analysis(), Format.CSV) == whole


def test_no_handshake(rendered):
    (heading,) = rendered(analysis([]), Format.CSV).splitlines()
    assert heading.startswith("capture,handshake,protocol,")

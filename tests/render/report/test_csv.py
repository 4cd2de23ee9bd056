import csv
import io

from ikeanalyze.analysis import schema
from ikeanalyze.render import Format
from ikeanalyze.render.report import csv as ours
from tests.render.analysis_examples import analysis
from tests.render.handshake_examples import BAD_KEY


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
    handshakes = analysis([1, 2, 3, 4, 5, 6, 7]).handshakes
    table = ours.flatten_handshakes(handshakes, ours.find_list_names(handshakes))
    flat = {name.replace("_ms", "_ns").replace("_time", "_ns") for name in table.columns} | set(table.columns)
    assert set(schema.HANDSHAKES) - {"rekeyed", "phases", "payload_bytes"} <= flat
    assert not any(kind.is_nested() for kind in table.dtypes)


def test_what_decrypted_payloads_tell(rendered):
    pq, eap, plain = csv.DictReader(io.StringIO(rendered(analysis([6, 8, 7, 1]), Format.CSV)))
    assert pq["key_exchanges"] == ("IKE SA 0 ECP-384 96/96; IKE SA 1 ML-KEM-768 1184/1088; rekeying 0 ECP-384 96/?")
    assert pq["key_exchange_bytes"] == str(96 + 96 + 1184 + 1088), "of the set-up alone"
    assert pq["key_exchange_findings"] == BAD_KEY
    assert pq["certificates"] == (
        "initiator X.509 CN=gw.example,O=Example, ECDSA P-384, signed with ECDSA with SHA2-384"
    )
    parts = ("certificate_key_bytes", "certificate_signature_bytes", "certificate_other_bytes")
    assert [pq[part] for part in parts] == ["97", "103", "395"]
    assert pq["certificate_bytes"] == "595"
    assert (pq["payload_KE_bytes"], pq["payload_frame_headers_bytes"]) == ("2484", "824")
    assert (eap["payload_CERT_bytes"], eap["certificate_bytes"]) == ("0", "0")
    for name in ("key_exchanges", "key_exchange_bytes", "certificates", "certificate_bytes", "payload_KE_bytes"):
        assert plain[name] == ""


def test_columns_of_before_come_first(rendered):
    heading = rendered(analysis([6]), Format.CSV).splitlines()[0].split(",")
    assert heading.index("one_sided") < heading.index("replaces") < heading.index("phase_IKE_AUTH_bytes")
    assert heading.index("phase_IKE_AUTH_bytes") < heading.index("key_exchange_bytes")


def test_rows_are_written_in_slices(rendered, monkeypatch):
    whole = rendered(analysis(), Format.CSV)
    monkeypatch.setattr(ours, "_ROWS_AT_ONCE", 2)
    assert rendered(analysis(), Format.CSV) == whole


def test_without_handshakes_there_is_only_the_header(rendered):
    (heading,) = rendered(analysis([]), Format.CSV).splitlines()
    assert heading.startswith("capture,handshake,protocol,")

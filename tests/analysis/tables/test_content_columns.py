"""The columns of the tables that come out of messages' contents."""

from datetime import datetime

import polars as pl
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import ikeanalyze
from ikeanalyze.analysis import schema
from ikeanalyze.analysis.tables.content_columns import list_payload_names
from tests.analysis.decrypt_captures import look
from tests.analysis.encrypted_handshakes import CHILD, IDENTITIES, Sa, table
from tests.analysis.ikev1_phase1 import Phase
from tests.analysis.recorded_captures import followup_keys, log_of
from tests.craft import SECOND, Trace, ike
from tests.craft import radius as radius_
from tests.paths import CAPTURES, ROOT

MADE = ROOT / "tests" / "wire" / "x509" / "certificates"


def test_decoded_messages_are_columns_as_in_the_log():
    """charon's log of pq-mlkem768-psk, in the words of the table."""
    path = CAPTURES / "pq-mlkem768-psk.pcap"
    result = look(path, log_of("pq-mlkem768-psk"))
    messages = result.analysis.messages
    assert messages.select("type", "kind", "decrypted", "epoch", "verified").rows() == [
        ("IKE_SA_INIT", "request", None, None, None),
        ("IKE_SA_INIT", "response", None, None, None),
        ("IKE_INTERMEDIATE", "request", True, 0, True),
        ("IKE_INTERMEDIATE", "response", True, 0, True),
        ("IKE_AUTH", "request", True, 1, True),
        ("IKE_AUTH", "response", True, 1, True),
    ]
    assert messages["payloads"].to_list()[2:4] == [["KE(ML-KEM-768)"]] * 2
    assert messages["payloads"][5].to_list()[:2] == ["IDr(res)", "AUTH(PSK)"]


def test_exchanges_tell_of_all_that_the_capture_has_of_them():
    sa = Sa()
    messages = sa.whole()
    trace = Trace()
    trace.play(messages[:-1])
    trace.message(10 * SECOND, messages[-1])
    # with the keys of one epoch alone
    result = look(trace, table(sa.key_sets[0]))
    exchanges = result.analysis.exchanges.select("type", "epoch", "decrypted").rows()
    assert exchanges == [
        ("IKE_SA_INIT", None, None),
        ("IKE_INTERMEDIATE", 0, True),
        ("IKE_AUTH", None, False),
    ]
    # one message of two
    both = look(trace, table(*sa.key_sets).replace(sa.key_sets[1].sk_er.hex(), "00" * 36))
    assert both.analysis.exchanges["decrypted"].to_list() == [None, True, False]
    assert both.analysis.exchanges["epoch"].to_list() == [None, 0, 1]


def test_ids_go_through_all_captures(tmp_path):
    """Two captures in one call: the second's handshakes, exchanges and RADIUS packets are numbered on."""
    first = CAPTURES / "eap-md5-radius.pcapng"
    logs = [CAPTURES / "eap-md5-radius.charon.log.gz"]
    analysis = ikeanalyze.read([first, first], keys=logs)
    messages, handshakes = analysis.messages, analysis.handshakes
    half = messages.height // 2
    for row in messages.filter(pl.col("same_eap").is_not_null()).iter_rows(named=True):
        other = messages.row(row["same_eap"], named=True)
        assert other["same_eap"] == row["message"]
        assert (other["message"] < half) == (row["message"] < half)
    exchanges = [[item["exchange"] for item in row] for row in handshakes["key_exchanges"].to_list()]
    assert exchanges == [[0], [5]]
    assert analysis.exchanges.filter(pl.col("exchange") == 5)["type"].to_list() == ["IKE_SA_INIT"]


def test_a_replaced_ike_sa_is_named_by_its_id(tmp_path):

    (tmp_path / "keys").write_text(followup_keys())
    paths = [CAPTURES / "psk-classic.pcap", CAPTURES / "pq-followup-ke.pcap"]
    analysis = ikeanalyze.read(paths, keys=tmp_path / "keys")
    assert analysis.handshakes["handshake"].to_list() == [1, 2, 3, 4]
    assert analysis.handshakes["replaces"].to_list() == [None, None, 2, 3]


def test_certificate_sizes_add_up():
    """Sizes by hand: all of them add up to the certificate; FIPS 204, table 2."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gw.example")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1)
    made = builder.not_valid_before(datetime(2026, 1, 1)).not_valid_after(datetime(2027, 1, 1))
    mine = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    theirs = (MADE / "mldsa44.der").read_bytes()
    algorithm = bytes.fromhex("300b0609608648016503040311")
    signed = ike.auth(14, bytes([len(algorithm)]) + algorithm + bytes(2420))
    ecdsa = ike.auth(9, bytes(64))
    sa = Sa(proposals=(ike.CLASSIC,))
    messages = sa.init()
    messages += sa.authenticated(
        request=[IDENTITIES[True], (ike.CERT, b"\x04" + mine), ecdsa, *CHILD],
        response=[IDENTITIES[False], (ike.CERT, b"\x04" + theirs), signed, *CHILD],
        fragments=(1, 4),
    )
    trace = Trace()
    trace.play(messages)
    (row,) = look(trace, table(*sa.key_sets)).analysis.handshakes.iter_rows(named=True)
    assert (row["auth_initiator"], row["auth_responder"]) == ("ecdsa-256", "ml-dsa-44")
    first, second = row["certificates"]
    assert (first["side"], first["key"], first["bytes"]) == ("initiator", "ECDSA P-256", len(mine))
    assert (second["side"], second["key"], second["signature"]) == ("responder", "ML-DSA-44", "ML-DSA-44")
    assert (second["bytes"], second["key_bytes"], second["signature_bytes"]) == (len(theirs), 1312, 2420)
    for one in (first, second):
        assert one["bytes"] == one["key_bytes"] + one["signature_bytes"] + one["other_bytes"]


def test_radius_without_a_handshake():
    """Rows of the table that no contents belong to."""
    sa = Sa(proposals=(ike.CLASSIC,))
    trace = Trace()
    trace.play(sa.whole())
    request = radius_.access_request(1, bytes(5), sa.rng)
    trace.send(90 * SECOND, request, sport=40000, dport=1812)
    messages = look(trace, table(*sa.key_sets)).analysis.messages
    last = messages.row(-1, named=True)
    assert last["type"] == "Access-Request"
    names = ("decrypted", "epoch", "verified", "payloads", "same_eap", "matched_by")
    assert [last[name] for name in names] == [None] * 6


def test_the_schema_is_kept_without_keys():
    analysis = ikeanalyze.read(CAPTURES / "psk-classic.pcap")
    for name in ("decrypted", "epoch", "verified", "payloads", "same_eap"):
        assert analysis.messages[name].dtype == schema.MESSAGES[name]
        assert analysis.messages[name].null_count() == analysis.messages.height


def test_names_of_both_versions():
    phase = Phase()
    result = look(phase.trace(), phase.table())
    names = [list_payload_names(item) for item in result.contents.all if item.encrypted]
    assert names == [["ID(gateway.example)", "HASH"]] * 2

from dataclasses import replace

import polars as pl

from ikeanalyze.analysis import schema
from tests.render.analysis_examples import analysis
from tests.render.conftest import titled


def test_the_link_to_the_aaa_server_has_rows_of_its_own():
    assert len(titled(analysis([2]), "Links").rows) == 4


def test_guesses_are_marked():
    assert ("authentication", "initiator eap, EAP-MD5 (a guess: not decrypted)") in titled(
        analysis([2]), "Handshake"
    ).rows


def test_decrypted_values_are_marked():
    facts = dict(titled(analysis([6]), "Handshake").rows)
    assert facts["authentication"] == "initiator ecdsa-384, responder psk (read: decrypted)"
    assert facts["decrypted"] == "5 of 6 encrypted messages, epochs 0 to 1"
    assert facts["CHILD_SA"] == "refused: TS_UNACCEPTABLE"
    assert "replaces" not in facts


def test_without_keys_nothing_is_said_of_them():
    facts = dict(titled(analysis([1]), "Handshake").rows)
    assert facts["authentication"] == "initiator psk, responder psk"
    assert not {"decrypted", "CHILD_SA", "replaces"} & set(facts)


def test_the_replacing_ike_sa_is_named():
    facts = dict(titled(analysis([8]), "Rekeyed IKE SA 1: established").rows)
    assert facts["replaces"] == "the IKE SA of handshake 1"
    assert facts["authentication"] == "not known"


def test_how_radius_was_matched():
    def aaa(a):
        return dict(titled(a, "Handshake").rows)["AAA server"]

    assert aaa(analysis([7])) == "198.51.100.9 (asked by 198.51.100.2, packets matched by EAP)"
    a = analysis([7])
    by_time = a.messages.with_columns(pl.col("matched_by").replace("EAP", "time"))
    assert aaa(replace(a, messages=by_time)) == "198.51.100.9 (asked by 198.51.100.2, packets matched by time)"


def test_hip_has_hits_and_no_spis():
    a = analysis([1])
    changed = a.handshakes.with_columns(
        pl.lit("HIP", dtype=schema.PROTOCOLS).alias("protocol"),
        pl.lit(None, dtype=pl.String).alias("spi_i"),
        pl.lit("2001:21::1").alias("initiator_hit"),
    )
    facts = titled(replace(a, handshakes=changed), "Handshake").rows
    assert [value for name, value in facts if name == "  its HIT"] == ["2001:21::1", "-"]
    assert "SPIi, SPIr" not in dict(facts)


def test_announcements_that_the_snapshot_length_hides_are_not_called_missing():
    whole = analysis([1])
    truncated = whole.handshakes.with_columns(
        pl.lit(True).alias("initiator_init_truncated"),
        pl.lit(True).alias("responder_init_truncated"),
        pl.lit(None, whole.handshakes.schema["responder_supports"]).alias("responder_supports"),
    )
    shown = dict(titled(replace(whole, handshakes=truncated), "Supports").rows)
    assert shown["initiator"].endswith("; the rest is truncated in the capture")
    assert shown["responder"] == "not known: truncated in the capture"
    assert "truncated" not in " ".join(dict(titled(whole, "Supports").rows).values())

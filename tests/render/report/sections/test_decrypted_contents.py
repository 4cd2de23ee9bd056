import polars as pl

from ikeanalyze.render.report.sections import decrypted_contents
from tests.render.analysis_examples import analysis
from tests.render.conftest import titled
from tests.render.handshake_examples import BAD_KEY


def first_row(a) -> dict:
    return a.handshakes.row(0, named=True)


def test_key_exchanges_name_what_their_data_are():
    a = analysis([6])
    during, after = decrypted_contents.render_key_exchanges(first_row(a), a.exchanges)
    assert [tuple(row) for row in during.rows] == [
        ("IKE_SA_INIT", "0", "0", "ECP-384", "public 96", "public 96"),
        ("IKE_INTERMEDIATE", "1", "1", "ML-KEM-768", "key 1,184", "ciphertext 1,088"),
    ]
    assert [tuple(row) for row in after.rows] == [
        ("CREATE_CHILD_SA", "3", "IKE SA", "0", "ECP-384", "public 96", "none")
    ]


def test_a_finding_takes_the_place_of_the_check():
    a = analysis([6])
    during, after = decrypted_contents.render_key_exchanges(first_row(a), a.exchanges)
    assert f"IKE_INTERMEDIATE 1: {BAD_KEY}" in during.notes
    assert not any(note.startswith("checked") for note in during.notes)
    assert any(note.startswith("checked") for note in after.notes)


def test_a_method_of_which_nothing_is_known_is_not_checked():
    a = analysis([7])
    row = first_row(a)
    row["key_exchanges"][0] |= {"method": "1024", "id": 1024}
    (table,) = decrypted_contents.render_key_exchanges(row, a.exchanges)
    assert "not checked, since their sizes are not known: 1024" in table.notes
    assert not any(note.startswith("checked") for note in table.notes)


def test_nothing_without_keys():
    a = analysis([1])
    assert not list(decrypted_contents.render_key_exchanges(first_row(a), a.exchanges))
    assert not list(decrypted_contents.render_certificates(first_row(a)))
    assert not list(decrypted_contents.render_payload_bytes(a.handshakes))
    assert decrypted_contents.describe_decryption(a.messages) is None
    assert decrypted_contents.describe_radius_matching(a.messages) == ""


def test_a_certificate_is_shown_with_its_key_signature_and_sizes():
    (table,) = decrypted_contents.render_certificates(first_row(analysis([6])))
    (row,) = table.rows
    assert row == (
        "initiator",
        "CN=gw.example,O=Example",
        "ECDSA P-384",
        "ECDSA with SHA2-384",
        "595",
        "97",
        "103",
        "395",
    )


def test_a_certificate_of_which_little_is_known():
    a = analysis([6])
    row = first_row(a)
    unknown = dict.fromkeys(("key", "signature", "key_bytes", "signature_bytes", "other_bytes"))
    row["certificates"][0] |= {"name": "hash and URL", **unknown}
    (table,) = decrypted_contents.render_certificates(row)
    assert tuple(table.rows[0]) == ("initiator", "hash and URL", "-", "-", "595", "-", "-", "-")


def test_bytes_by_payload_add_up():
    table = titled(analysis([6, 7, 1]), "Bytes by payload")
    # 3,012 of 6,336
    assert table.rows[0] == ("KE", "3,012", "47.5 %")
    assert table.rows[-1] == ("total", "6,336", "100.0 %")
    assert sum(int(row[1].replace(",", "")) for row in table.rows[:-1]) == 6336
    assert table.notes == ["of the 2 handshakes that were decrypted"]
    assert not titled(analysis([6, 7]), "Bytes by payload").notes


def test_radius_matched_by_both():
    a = analysis([7])
    row = pl.int_range(pl.len())
    some = a.messages.with_columns(pl.when(row == 5).then(pl.lit("time")).otherwise("matched_by").alias("matched_by"))
    assert decrypted_contents.describe_radius_matching(some) == "3 of 4 packets matched by EAP"


def test_text_from_a_capture_is_harmless():
    a = analysis([6])
    row = first_row(a)
    row["certificates"][0]["name"] = "X.509 \x1b[2J"
    row["key_exchanges"][1]["findings"] = ["\x1b[2J"]
    (certificates,) = decrypted_contents.render_certificates(row)
    during, _ = decrypted_contents.render_key_exchanges(row, a.exchanges)
    assert certificates.rows[0][1] == "\\x1b[2J"
    assert "IKE_INTERMEDIATE 1: \\x1b[2J" in during.notes

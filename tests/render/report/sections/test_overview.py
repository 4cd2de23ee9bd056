from dataclasses import replace

import polars as pl

from tests.render.analysis_examples import analysis
from tests.render.conftest import titled


def test_what_all_have_in_common_is_said_once():
    common = dict(titled(analysis([1, 1, 3]), "3 handshakes, all with").rows)
    assert common == {"protocol": "IKEv2", "initiator": "192.0.2.1", "responder": "192.0.2.2"}
    assert [c.name for c in titled(analysis([1, 1, 3]), "Handshakes").columns][3:5] == [
        "key exchange",
        "authentication",
    ]


def test_common_is_what_all_handshakes_have_not_those_shown():
    a = analysis([1] * 35 + [3])
    assert "key exchange" in [c.name for c in titled(a, "Handshakes").columns]


def test_authentication_that_was_read_is_no_guess():
    table = titled(analysis([2, 7]), "Handshakes")
    place = [column.name for column in table.columns].index("authentication")
    assert [row[place] for row in table.rows] == ["EAP-MD5/? (guess)", "EAP-MD5/psk"]


def test_the_eap_method_stands_for_eap_among_several_authentications():
    a = analysis([2, 7])
    several = pl.lit("rsa+eap").alias("auth_initiator")
    table = titled(replace(a, handshakes=a.handshakes.with_columns(several)), "Handshakes")
    place = [column.name for column in table.columns].index("authentication")
    assert table.rows[1][place] == "rsa+EAP-MD5/psk"


def test_rekeyed_ike_sas_are_not_handshakes():
    """They have a table of their own with the IKE SA that they replaced."""
    several = analysis([6, 8, 7])
    assert [row[0] for row in titled(several, "Handshakes").rows] == ["1", "3"]
    assert dict(titled(several, "Together").rows)["handshakes"] == "2: 2 established"
    (row,) = titled(several, "Rekeyed IKE SAs").rows
    assert row[:3] == ("2", "1", several.handshakes["spi_i"][1])
    # a single handshake is shown in detail
    titled(analysis([6, 8]), "Handshake 1: established")
    titled(analysis([6, 8]), "Rekeyed IKE SAs")


def test_an_ike_sa_without_its_child_sa():
    table = titled(analysis([6, 7]), "Handshakes")
    assert [row[-1] for row in table.rows] == ["established, no CHILD_SA: TS_UNACCEPTABLE", "established"]


def test_retransmissions_to_the_aaa_server_are_a_line_of_their_own():
    """As in the details of a handshake: those between initiator and responder do not have them."""
    both = analysis([2, 7])
    rows = [label for label, _ in titled(both, "Together").rows]
    assert "  to and from AAA" not in rows
    numbers = {"messages": [2, 1], "frames": [2, 1], "bytes": [312, 90]}
    repeated = [pl.Series(f"aaa_retransmitted_{count}", of_both) for count, of_both in numbers.items()]
    table = both.handshakes.with_columns(*repeated)
    together = titled(replace(both, handshakes=table), "Together").rows
    assert ("  to and from AAA", "3 messages, 3 frames, 402 bytes") in together
    assert dict(together)["retransmissions"] == "0 messages, 0 frames, 0 bytes"


def test_sums_of_what_was_decrypted():
    together = dict(titled(analysis([6, 8, 7, 1]), "Together").rows)
    assert together["decrypted"] == ("15 of 16 encrypted messages, epochs 0 to 1, 1 of them without an integrity check")
    assert together["key exchanges"] == "4 read, findings in 1, see the warnings"
    assert dict(titled(analysis([7, 7]), "Together").rows)["key exchanges"] == "2 read, no finding"
    assert not {"decrypted", "key exchanges"} & set(dict(titled(analysis([1, 2]), "Together").rows))

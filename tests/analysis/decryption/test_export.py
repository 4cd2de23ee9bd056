"""Decrypted messages as they would stand in clear."""

import struct
from dataclasses import replace

import polars as pl

from ikeanalyze.analysis.decryption.export import build_cleartext_message
from tests.analysis.decrypt_captures import look
from tests.analysis.encrypted_handshakes import CHILD, IDENTITIES, PSK, Sa, table
from tests.analysis.handshakes.contents.test_authenticated_outcome import content
from tests.analysis.ikev1_phase1 import NAME, Phase
from tests.craft import MS, Trace, ike
from tests.craft.ike import ike_header


def texts(found):
    """By handshake's SPI, message ID, flags."""
    return {
        (text.message[:8].hex(), int.from_bytes(text.message[20:24], "big"), text.message[19]): text
        for text in found.analysis.cleartexts.values()
    }


def test_what_was_encrypted_stands_in_clear():
    sa = Sa()
    trace = Trace()
    trace.play(sa.whole(fragments=(3, 2), auth=(4, 1)))
    result = look(trace, table(*sa.key_sets), cleartext=True)
    assert len(texts(result)) == 4
    for (ident, exchange, initiator, response), put in sa.inside.items():
        flags = ike.INITIATOR * initiator | ike.RESPONSE * response
        text = texts(result)[sa.spi_i.hex(), ident, flags]
        length = 28 + len(put.plaintext)
        header = ike_header(sa.spi_i, sa.spi_r, put.first, exchange, flags, ident, length)
        assert text.message == header + put.plaintext
        assert (text.epoch, text.verified) == (put.epoch, True)
    assert sorted(text.fragments for text in texts(result).values()) == [1, 2, 3, 4]


def test_clear_payloads_stay_in_front():
    sa = Sa(proposals=(ike.CLASSIC,))
    notify, strange = ike.notify(ike.COOKIE, b"clear"), (200, b"critical")
    messages = [
        *sa.init(),
        sa.put(ike.IKE_AUTH, [IDENTITIES[True], PSK, *CHILD], clear=[notify, strange]),
        sa.put(ike.INFORMATIONAL, [], message_id=2, clear=[notify]),
    ]
    trace = Trace()
    trace.play(messages)
    result = look(trace, table(*sa.key_sets), cleartext=True)
    inside = [notify, strange, IDENTITIES[True], PSK, *CHILD]
    whole = ike.message(sa.spi_i, sa.spi_r, ike.IKE_AUTH, ike.INITIATOR, 1, inside)
    alone = ike.message(sa.spi_i, sa.spi_r, ike.INFORMATIONAL, ike.INITIATOR, 2, [notify])
    assert [text.message for text in result.analysis.cleartexts.values()] == [whole, alone]


def test_the_critical_bit_stays():
    listed = content(ike.IKE_AUTH, [ike.nonce(b"n"), (200, b"c")])

    payloads = (listed.payloads[0], replace(listed.payloads[1], critical=True))
    header = ike_header(bytes(8), bytes(8), 46, ike.IKE_AUTH, 8, 1, 100)
    text = build_cleartext_message(replace(listed, payloads=payloads, clear=2, header=header))
    assert text[28:] == struct.pack(">BBH", 200, 0, 5) + b"n" + struct.pack(">BBH", 0, 0x80, 5) + b"c"
    assert text[16] == ike.NONCE
    assert int.from_bytes(text[24:28], "big") == len(text)


def test_an_empty_message():
    sa = Sa(proposals=(ike.CLASSIC,))
    trace = Trace()
    trace.play([*sa.whole(), *sa.swap(ike.INFORMATIONAL, [], [])])
    result = look(trace, table(*sa.key_sets), cleartext=True)
    empty = texts(result)[sa.spi_i.hex(), 2, 8].message
    assert empty == ike.message(sa.spi_i, sa.spi_r, ike.INFORMATIONAL, ike.INITIATOR, 2, [])
    assert len(empty) == 28


def test_ikev1_messages_are_exported_in_clear():
    phase = Phase()
    result = look(phase.trace(), phase.table(), cleartext=True)
    first, _ = result.analysis.cleartexts.values()
    payloads = [NAME, phase.sender.hash_payload()]
    kind, chain = ike.chain(payloads)
    # the encryption bit is 0 (RFC 2408, section 3.1)
    header = phase.encrypted[0][:16] + bytes([kind, 0x10, 2, 0]) + bytes(4) + (28 + len(chain)).to_bytes(4, "big")
    assert first.message == header + chain
    assert (first.epoch, first.verified, first.fragments) == (None, False, 1)


def test_clear_messages_are_left_alone():
    sa = Sa(proposals=(ike.CLASSIC,))
    trace = Trace()
    trace.play(sa.init())
    result = look(trace, table(*sa.key_sets), cleartext=True, payloads=True)
    assert (result.contents.of_message >= 0).all()
    assert result.analysis.cleartexts == {}


def test_transmissions_of_a_message_share_its_cleartext():
    sa = Sa(proposals=(ike.CLASSIC,))
    *init, request, response = sa.whole()
    trace = Trace()
    time = trace.play([*init, request])
    trace.play([request, response], at=time + 2000 * MS)
    result = look(trace, table(*sa.key_sets), cleartext=True)
    messages = result.analysis.messages.filter(pl.col("type") == "IKE_AUTH")
    first, again, answer = (result.analysis.cleartexts[number] for number in messages["message"].to_list())
    assert first is again
    assert first != answer
    assert len(result.analysis.cleartexts) == 3

"""What the warning says about keys that fit no message of a capture, and when it is not said."""

import struct
from dataclasses import replace

import pytest
from msgspec import structs

from ikeanalyze.keys.export import build_key_json
from tests.analysis.decrypt_captures import look, make_trace
from tests.analysis.encrypted_handshakes import Sa, nameless, table
from tests.craft import MS, SECOND, ike

#: Transform ID of ENCR_IDEA.
IDEA = 5
NONE_FITS = "none of the keys fits any of its encrypted messages"


def warn(trace, text):
    """The rest of the warning; None: there is none."""
    found = [said for _, said in look(trace, text).findings if said.startswith(NONE_FITS)]
    assert len(found) <= 1
    return found[0].removeprefix(NONE_FITS) if found else None


def take_spis(sa, other):
    """The key sets of the other IKE SA with the SPIs of the first one."""
    return [structs.replace(keys, spi_i=sa.spi_i, spi_r=sa.spi_r) for keys in other.key_sets]


def name(sa):
    return f"{sa.spi_i.hex()}:{sa.spi_r.hex()}"


def test_keys_of_another_ike_sa():
    sa, other = Sa(1), Sa(2)
    said = warn(make_trace(*sa.whole()), table(*other.key_sets))
    assert said == f": they are of other IKE SAs, such as {name(other)}. Give those of {name(sa)}"


def test_keys_with_the_spi_of_one_side_only():
    sa, other = Sa(1), Sa(2)
    text = table(*(structs.replace(keys, spi_r=other.spi_r) for keys in sa.key_sets))
    said = f": they are of other IKE SAs, such as {sa.spi_i.hex()}:{other.spi_r.hex()}. Give those of {name(sa)}"
    assert warn(make_trace(*sa.whole()), text) == said


def test_keys_of_another_epoch():
    """Only the keys after IKE_INTERMEDIATE (RFC 9370), of which the capture has no message."""
    sa = Sa(1)
    intermediate = sa.whole()[:4]
    said = warn(make_trace(*intermediate), table(sa.key_sets[1]))
    assert said.startswith(", although ")
    assert said.endswith(
        f"has keys of IKE SA {name(sa)}: they may be wrong, or of another epoch. Give those of all epochs, as a daemon's "
        "log has them"
    )


def test_keys_of_an_ike_sa_whose_negotiation_is_not_in_the_capture():
    sa = Sa(1)
    said = warn(make_trace(*sa.whole()[2:]), table(*take_spis(sa, Sa(2))))
    assert "they may be wrong, or of another epoch, or for another algorithm or length of the ICV. Give" in said


def test_keys_for_another_length_of_the_icv():
    sa = Sa(1)
    text = table(*sa.key_sets).replace("16 octet ICV", "8 octet ICV")
    said = warn(make_trace(*sa.whole()), text)
    assert f"has keys of IKE SA {name(sa)}: they are for AES-GCM-8, and it negotiated AES-GCM-16" in said
    assert said.endswith(". Correct the algorithm in the key file")


def test_keys_of_a_cipher_that_is_not_supported():
    """The keys are right: with others the messages could not be decrypted either."""
    sa = Sa(1)
    # transforms of type 1 with a key of 256 bits, AES-GCM with an ICV of 16 octets
    aes, idea = (struct.pack(">BxHHH", 1, number, 0x800E, 256) for number in (20, IDEA))
    messages = [
        replace(message, datagrams=tuple(data.replace(aes, idea) for data in message.datagrams))
        for message in sa.whole()
    ]
    text = build_key_json([structs.replace(keys, encryption=IDEA) for keys in sa.key_sets], [], [])
    said = warn(make_trace(*messages), text)
    assert said.endswith(f"has keys of IKE SA {name(sa)}: it negotiated IDEA, which is not supported")


def test_keys_without_the_salt_of_their_cipher():
    """A log of libreswan has SK_ei and SK_er without the four octets at their end that AES-GCM takes (RFC 5282)."""
    sa = Sa(1)
    unsalted = [
        structs.replace(keys, sk_ei=keys.sk_ei[:-4], sk_er=keys.sk_er[:-4], no_salt=True) for keys in sa.key_sets
    ]
    said = warn(make_trace(*sa.whole()), build_key_json(unsalted, [], []))
    assert said.startswith(", although ")
    assert said.endswith(
        f"has keys of IKE SA {name(sa)}: they lack the salt of its cipher. Give those of the other side's log, which "
        "may have it"
    )


def test_keys_without_spis():
    assert warn(make_trace(*Sa(1).whole()), nameless(*Sa(2).key_sets)) == (
        ": those without SPIs were tried on all its IKE SAs. They may be of another IKE SA or epoch, or for another "
        "algorithm or length of the ICV"
    )


def test_keys_that_fit():
    sa = Sa(1)
    assert warn(make_trace(*sa.whole()), table(*sa.key_sets)) is None


@pytest.mark.parametrize("size", [*range(74, 90), 120, 200])
def test_a_snapshot_length_that_cuts_repeated_fragments(size):
    """From before the fragment number on (offset 78): the shorter last fragment alone makes no message whole."""
    sa = Sa(1, proposals=(ike.CLASSIC,))
    *inits, request, response = sa.whole(auth=(3, 3))
    trace = make_trace(*inits)
    for copy, number in enumerate((1, 1, 2, 2, 3, 3)):
        trace.message(SECOND + copy * 5 * MS, request, only=[number], gap=0)
    trace.message(2 * SECOND, response)
    assert warn(trace.pcap(snaplen=size), table(*sa.key_sets)) is None
    # of keys of another IKE SA, the SPIs show it
    assert warn(trace.pcap(snaplen=size), table(*Sa(2).key_sets)).startswith(": they are of other IKE SAs")


def test_a_snapshot_length_that_cuts_the_messages_of_the_ike_sa_that_keys_are_for():
    """The messages of the other IKE SA are shorter, and whole: they say nothing about these keys."""
    sa, other = Sa(1, proposals=(ike.CLASSIC,)), Sa(2, proposals=(ike.CLASSIC,))
    trace = make_trace(*sa.whole())
    trace.play([*other.init(), *other.swap(ike.INFORMATIONAL, [], [])], at=SECOND)
    assert warn(trace.pcap(snaplen=150), table(*sa.key_sets)) is None
    assert warn(trace.pcap(snaplen=150), nameless(*Sa(3).key_sets)).startswith(": those without SPIs")


def test_trials_that_were_not_made_are_told(monkeypatch):
    """After the last trial, 64 of the 80 strangers are tried on the second IKE SA, and its own keys are behind them."""
    first, second = Sa(1), Sa(2)
    trace = make_trace(*first.whole())
    trace.play(second.whole(), at=SECOND)
    strangers = [keys for number in range(3, 43) for keys in Sa(number).key_sets]
    text = nameless(*strangers, *second.key_sets)
    assert len(strangers) == 80
    said = "trials of keys without SPIs failed, after which not all were tried on each message"
    assert not any(said in found for _, found in look(trace, text).findings)
    monkeypatch.setattr("ikeanalyze.keys.key_ring.MAX_TRIALS", 50)
    assert any(said in found for _, found in look(trace, text).findings)

"""Where the bytes of a handshake go."""

import pytest

from ikeanalyze.analysis.decryption.payloads.byte_counts import (
    ENCRYPTION,
    FRAMES,
    IKE_HEADERS,
    NOT_READ,
    REPEATED,
    MessageSize,
    count_payload_bytes,
    get_payload_name,
)
from tests.analysis.decrypt_captures import look
from tests.analysis.encrypted_handshakes import CHILD, IDENTITIES, PSK, Sa, table
from tests.analysis.handshakes.contents.test_authenticated_outcome import content
from tests.craft import SECOND, Trace, ike, link

#: Ethernet, IPv4, UDP.
AROUND = 14 + 20 + 8


def parts(found):
    (row,) = found.analysis.handshakes["payload_bytes"].to_list()
    return {item["payload"]: item["bytes"] for item in row}


def test_bytes_of_payloads_agree_with_a_manual_count():
    """AES-128-CBC with HMAC-SHA2-256-128: IV of 16, blocks of 16, ICV of 16."""
    sa = Sa(proposals=(ike.CLASSIC,))
    init = [
        sa.clear(ike.IKE_SA_INIT, [ike.sa([ike.CLASSIC]), ike.ke(19, b"k" * 64), ike.nonce(bytes(range(32)))],
                 spi_r=bytes(8)),
        sa.clear(ike.IKE_SA_INIT, [ike.sa([ike.CLASSIC]), ike.ke(19, b"k" * 64), ike.nonce(bytes(16))],
                 from_initiator=False, response=True),
    ]  # fmt: skip
    sa.message_id[True], sa.moved = 1, True
    auth = sa.authenticated(request=[IDENTITIES[True], PSK], response=[IDENTITIES[False], PSK, ike.notify(38)])
    trace = Trace()
    for number, message in enumerate([*init, *auth, auth[1]]):
        trace.message(number * SECOND, message)
    result = look(trace, table(*sa.key_sets))
    # request: 4+7 and 4+36 bytes are 51, padded to 64; response: 8 more are 59, padded to 64
    again = AROUND + 4 + 28 + 4 + 16 + 64 + 16
    proposal = 8 + 12 + 8 + 8 + 8
    assert parts(result) == {
        REPEATED: again,
        FRAMES: 2 * AROUND + 2 * (AROUND + 4),
        IKE_HEADERS: 4 * 28,
        "SA": 2 * (4 + proposal),
        "KE": 2 * (8 + 64),
        "No": 4 + 32 + 4 + 16,
        "IDi": 11,
        "IDr": 11,
        "AUTH": 80,
        "N": 8,
        ENCRYPTION: 2 * (4 + 16 + 16) + (64 - 51) + (64 - 59),
    }
    # the largest first
    assert list(parts(result).values()) == sorted(parts(result).values(), reverse=True)


def test_fragments_have_headers_of_their_own():
    sa = Sa(proposals=(ike.CLASSIC,))
    trace = Trace()
    trace.play(sa.whole(auth=(3, 1)))
    result = look(trace, table(*sa.key_sets))
    assert parts(result)[IKE_HEADERS] == 6 * 28
    assert parts(result)["IDi"] == 4 + 7


def test_what_is_not_read():
    sa, other = Sa(proposals=(ike.CLASSIC,)), Sa(2, proposals=(ike.CLASSIC,))
    *inits, _, response = sa.whole()
    sa.message_id[True] = 1
    request = sa.put(ike.IKE_AUTH, [IDENTITIES[True], PSK, *CHILD], keys=other.key_sets[0])
    trace = Trace()
    trace.play([*inits, request, response])
    result = look(trace, table(*sa.key_sets))
    assert parts(result)[NOT_READ] == len(request.datagrams[0]) - 4 - 28
    assert "IDi" not in parts(result)


def test_headers_of_ip_fragments_are_overhead():
    """Their headers are what is around the message."""
    sa = Sa(proposals=(ike.CLASSIC,))
    long = ike.notify(40960, bytes(3000))
    messages = [*sa.init(), *sa.authenticated(request=[IDENTITIES[True], PSK, long])]
    trace = Trace()
    trace.play(messages)
    whole = parts(look(trace, table(*sa.key_sets)))
    frames = [packet for packet in trace.packets if len(packet.data) > 1000]
    assert len(frames) == 2
    sent = sum(len(packet.data) for packet in trace.packets)
    assert whole[FRAMES] == sent - sum(len(data) for message in messages for data in message.ike)
    trace.drop(frames[1:])
    cut = parts(look(trace, table(*sa.key_sets)))
    assert cut[NOT_READ] > 0


def test_first_copies_of_refragmented_messages_are_counted():
    """The fragments of the first complete fragmentation count (see `retransmission`)."""
    sa = Sa(proposals=(ike.CLASSIC,))
    inits = sa.init()
    inside = [IDENTITIES[True], PSK, ike.notify(40960, bytes(900))]
    larger, smaller = (sa.put(ike.IKE_AUTH, inside, fragments=count) for count in (2, 4))
    response = sa.put(ike.IKE_AUTH, [IDENTITIES[False], PSK, *CHILD], from_initiator=False, response=True,
                      message_id=1)  # fmt: skip
    for seen, lost, fragments in (([1], larger, 4), ([2], larger, 4), ([1, 2], smaller, 2)):
        trace = Trace()
        trace.play(inits)
        sent = [trace.message(SECOND, larger, only=seen), trace.message(2 * SECOND, smaller)]
        trace.message(3 * SECOND, response)
        result = look(trace, table(*sa.key_sets))
        assert result.analysis.messages["decrypted"].to_list().count(False) == 0
        assert parts(result)[REPEATED] == sum(len(packet.data) for packet in sent[lost is smaller])
        # IKE_SA_INIT, the fragments, the response
        assert parts(result)[IKE_HEADERS] == (2 + fragments + 1) * 28
        assert parts(result)["IDi"] == 4 + 7
        sizes = [len(packet.data) for packet in trace.packets]
        assert sum(parts(result).values()) == sum(sizes)
        needed = sum(sizes) - parts(result)[REPEATED]
        assert result.analysis.handshakes["blowup"].to_list() == [pytest.approx(sum(sizes) / needed)]


@pytest.mark.parametrize(
    ("frame_bytes", "ike_bytes", "headers"),
    [
        (100, 0, 0),  # not kept
        (100, 101, 1),  # more than there is
        (100, 27, 1),  # less than a header
        (100, 40, 1),  # less than the payloads that were read
        (100, 70, 3),
    ],
)
def test_lengths_that_cannot_be(frame_bytes, ike_bytes, headers):
    one = content(ike.IKE_AUTH, [ike.nonce(bytes(16))])
    assert count_payload_bytes([MessageSize(one, frame_bytes, ike_bytes, headers)], 7) == {NOT_READ: 100, REPEATED: 7}


def test_unread_messages_have_frame_and_header_bytes_only():
    assert count_payload_bytes([], 0) == {}
    assert count_payload_bytes([MessageSize(None, 100, 58, 1)], 0) == {FRAMES: 42, NOT_READ: 30, IKE_HEADERS: 28}


def test_parts_have_names():
    assert get_payload_name(ike.ID_I, is_ikev1=False) == "IDi"
    assert get_payload_name(5, is_ikev1=True) == "ID"
    assert get_payload_name(200, is_ikev1=False) == "200"


def test_payload_bytes_do_not_depend_on_the_link_layer():
    """On another link the frames are of another size; the rest is the same."""
    sa = Sa(proposals=(ike.CLASSIC,))
    messages = sa.whole()
    sizes = []
    for frame in (link.ethernet, lambda packet: link.ethernet(packet, vlans=[(0x8100, 5)])):
        trace = Trace(frame=frame)
        trace.play(messages)
        sizes.append(parts(look(trace, table(*sa.key_sets))))
    assert sizes[1].pop(FRAMES) - sizes[0].pop(FRAMES) == 4 * 4
    assert sizes[0] == sizes[1]

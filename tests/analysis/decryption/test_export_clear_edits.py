"""Which packets of a capture a decrypted message stands in place of."""

import polars as pl
import pytest

from ikeanalyze.analysis.decryption.export import Cleartext, plan_decryption_edits
from tests.analysis.decrypt_captures import look
from tests.analysis.decryption.test_decrypt import send_fragments
from tests.analysis.encrypted_handshakes import CHILD, IDENTITIES, PSK, Sa, table
from tests.analysis.ikev1_phase1 import Phase
from tests.craft import MS, SECOND, Interface, Trace, ike, ikev1, transport


def edits_of(trace, *keys):
    result = look(trace, *keys, cleartext=True)
    return plan_decryption_edits(result.analysis.frames, result.analysis.cleartexts)


def shape(found):
    """By packet number: how many clear messages stand there, or the packet in whose place its message stands."""
    return {number: edit.into or len(edit.clear) for number, edit in sorted(found.edits.items())}


def comments(found):
    return {n: item.comment for n, edit in sorted(found.edits.items()) for item in edit.clear}


def whole(auth=(1, 1)):
    sa = Sa(proposals=(ike.CLASSIC,))
    return sa, sa.whole(auth=auth)


def test_a_message_in_one_frame():
    sa, messages = whole()
    trace = Trace()
    trace.play(messages)
    result = edits_of(trace, table(*sa.key_sets))
    assert shape(result) == {3: 1, 4: 1}
    assert result.messages == 2
    assert comments(result)[3] == "decrypted by ikeanalyze from frame 3 of the capture; epoch 0; ICV verified"
    assert result.edits[3].clear[0].ports == (4500, 4500)
    assert not result.edits[3].keep


def test_the_last_fragment_is_the_place():
    sa, (*inits, request, response) = whole(auth=(3, 1))
    trace = Trace()
    trace.play(inits)
    for step, number in enumerate((2, 3, 1)):
        trace.message(SECOND + step * MS, request, only=[number], gap=0)
    trace.message(2 * SECOND, response)
    result = edits_of(trace, table(*sa.key_sets))
    assert shape(result) == {3: 5, 4: 5, 5: 1, 6: 1}
    what = "decrypted by ikeanalyze from frames 3, 4, 5 of the capture; 3 fragments; epoch 0; ICV verified"
    assert comments(result)[5] == what


def test_each_whole_transmission_is_a_message():
    sa, (*inits, request, response) = whole(auth=(2, 1))
    trace = Trace()
    trace.play(inits)
    trace.message(SECOND, request)
    trace.message(2 * SECOND, request, only=[2])
    trace.message(3 * SECOND, request)
    trace.message(4 * SECOND, response)
    result = edits_of(trace, table(*sa.key_sets))
    # frame 5 is a fragment of a transmission that lacks another one: it stays as it is
    assert shape(result) == {3: 4, 4: 1, 6: 7, 7: 1, 8: 1}
    # its contents are known all the same: its transmission is one of the four that were decrypted
    assert (result.messages, result.transmissions, result.fragments_left) == (3, 4, 1)


def test_where_no_transmission_is_whole():
    sa, (*inits, request, response) = whole(auth=(4, 1))
    trace = Trace()
    trace.play(inits)
    trace.message(SECOND, request, only=[1, 2])
    trace.message(2 * SECOND, request, only=[1, 4])
    trace.message(3 * SECOND, request, only=[1, 3])
    trace.message(4 * SECOND, response)
    result = edits_of(trace, table(*sa.key_sets))
    # 1 and 2 of the first transmission, 4 of the second, 3 of the third
    assert shape(result) == {3: 8, 4: 8, 6: 8, 8: 1, 9: 1}
    # 1 of the second and of the third transmission are left
    assert (result.messages, result.transmissions, result.fragments_left) == (2, 4, 2)


def test_doubled_fragments_are_put_together_twice():
    """1, 1, 2, 2, 3, 3: a receiver uses any fragment with a valid ICV, and drops duplicates (RFC 7383, section 2.6)."""
    sa, (*inits, request, response) = whole(auth=(3, 1))
    trace = Trace()
    trace.play(inits)
    for copy in range(6):
        trace.message(SECOND + copy * 5 * MS, request, only=[1 + copy // 2], gap=0)
    trace.message(2 * SECOND, response)
    keys = table(*sa.key_sets)
    result = edits_of(trace, keys)
    assert shape(result) == {3: 7, 4: 8, 5: 7, 6: 8, 7: 1, 8: 1, 9: 1}
    assert result.messages == 3
    assert look(trace, keys).analysis.messages["decrypted"].drop_nulls().all()
    assert (result.transmissions, result.fragments_left) == (look(trace, keys).analysis.messages.height - 2, 0)


def test_doubled_fragments_of_ip_are_put_together_twice():
    """Each IKE fragment in two IP fragments: the frames of one copy stay together."""
    sa, (*inits, request, _) = whole(auth=(2, 1))
    trace = Trace(mtu=100)
    trace.play(inits)
    before = len(trace.packets)
    copies = [trace.message(SECOND + copy * 5 * MS, request, only=[1 + copy // 2], gap=0) for copy in range(4)]
    size = len(copies[0])
    assert size > 1
    result = edits_of(trace, table(*sa.key_sets))
    numbers = [range(before + 1 + copy * size, before + 1 + (copy + 1) * size) for copy in range(4)]
    for first, second in ((0, 3), (1, 2)):  # the second transmission has 1 and 2, the others lack one of them
        last = numbers[second][-1]
        own = [*numbers[first], *numbers[second]]
        assert [result.edits[number].into or number for number in own] == [last] * len(own)
    assert (result.messages, result.fragments_left) == (2, 0)


@pytest.mark.parametrize(
    ("order", "expected"), [((1, -2, 2, 3), {3: 6, 5: 6, 6: 1, 7: 1}), ((1, -2, 3, 2), {3: 6, 5: 6, 6: 1, 7: 1})]
)
def test_forged_fragments_stay(order, expected):
    """A fragment whose ICV is wrong, which a receiver drops (RFC 7383, section 2.6), is evidence: frame 4."""
    sa, trace = send_fragments(order)
    assert shape(edits_of(trace, table(*sa.key_sets))) == expected


def test_doubled_fragments_of_which_one_copy_is_missing():
    sa, (*inits, request, response) = whole(auth=(2, 1))
    trace = Trace()
    trace.play(inits)
    for step, number in enumerate((1, 1, 2)):
        trace.message(SECOND + step * 5 * MS, request, only=[number], gap=0)
    trace.message(2 * SECOND, response)
    result = edits_of(trace, table(*sa.key_sets))
    assert shape(result) == {4: 5, 5: 1, 6: 1}
    assert result.fragments_left == 1


def test_duplicates_are_replaced_by_the_same_message():
    """The same frames on two interfaces: each gets the message in clear, which is one message."""
    sa, messages = whole(auth=(2, 1))
    trace = Trace()
    for number, message in enumerate(messages):
        first = trace.message(number * SECOND, message)
        for packet in first:
            trace.add(packet.time_ns - trace.start_ns + 50_000, packet.data, interface=1)
    data = trace.pcapng(interfaces=[Interface(), Interface()])
    result = edits_of(data, table(*sa.key_sets))
    assert result.messages == 2
    assert sum(len(edit.clear) for edit in result.edits.values()) == 4


def test_in_tcp_the_segment_stays():
    sa, messages = whole()
    trace = Trace()
    sequence = {True: 1, False: 1}
    prefix = transport.TCP_PREFIX
    for number, message in enumerate(messages):
        ours = message.from_initiator
        data = transport.tcp_framed(message.ike[0])
        if number == 0:
            data = prefix + data
        ports = (40000, 4500) if ours else (4500, 40000)
        ends = ("192.0.2.1", "192.0.2.2") if ours else ("192.0.2.2", "192.0.2.1")
        trace.ip(number * 10 * MS, transport.tcp_packet(data, *ports, sequence[ours], sequence[not ours],
                                                        transport.ACK | transport.PSH, *ends))  # fmt: skip
        sequence[ours] += len(data)
    result = edits_of(trace, table(*sa.key_sets))
    assert shape(result) == {3: 1, 4: 1}
    assert all(edit.keep for edit in result.edits.values())
    assert {item.marker for edit in result.edits.values() for item in edit.clear} == {True}


def test_ikev1_fragments_are_replaced_by_one_message():
    """They do not say how many there are: a transmission that lacks some stays as it is, if another is whole."""
    phase = Phase()
    trace = phase.trace()
    sender = phase.sender
    long = sender.send(ikev1.QUICK_MODE, 7, [sender.hash_payload(), (ikev1.SA, bytes(1000))])
    parts = ikev1.fragments(long, 400)
    for time, numbers in ((1, (1, 2)), (3, (1, 2, 3))):
        for number in numbers:
            trace.send(time * SECOND + number * MS, parts[number - 1])
    result = edits_of(trace, phase.table())
    assert shape(result) == {5: 1, 6: 1, 9: 11, 10: 11, 11: 1}
    assert comments(result)[11].endswith("3 fragments; no ICV to check: unverified")


def test_a_long_list_of_frames_is_cut_short():
    sa = Sa(proposals=(ike.CLASSIC,))
    messages = sa.init()
    messages += sa.authenticated(
        request=[IDENTITIES[True], PSK, *CHILD, ike.notify(40960, bytes(600))], fragments=(25, 1)
    )
    trace = Trace()
    trace.play(messages)
    result = edits_of(trace, table(*sa.key_sets))
    numbers = ", ".join(map(str, range(3, 23)))
    assert comments(result)[27].startswith(
        f"decrypted by ikeanalyze from frames {numbers} and 5 more of the capture; 25 fragments"
    )


@pytest.mark.parametrize("texts", [{}, {99: Cleartext(b"", None, True)}])
def test_clear_captures_have_no_edits(texts):
    sa, messages = whole()
    trace = Trace()
    trace.play(messages)
    frames = look(trace, table(*sa.key_sets)).analysis.frames
    assert plan_decryption_edits(frames, texts).edits == {}
    assert plan_decryption_edits(frames.filter(pl.lit(False)), texts).messages == 0

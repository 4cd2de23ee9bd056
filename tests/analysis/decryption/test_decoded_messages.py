"""What is inside messages, as one object each."""

import numpy as np

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessages
from tests.analysis.decrypt_captures import look
from tests.analysis.encrypted_handshakes import Sa, table
from tests.analysis.handshakes.contents.test_authenticated_outcome import content
from tests.craft import Trace, ike


def test_bodies_of_one_type_in_order():
    one = content(ike.IKE_AUTH, [ike.notify(1), ike.nonce(b"n"), ike.notify(2, b"x")])
    assert one.get_bodies(ike.NOTIFY) == [ike.notify(1)[1], ike.notify(2, b"x")[1]]
    assert one.get_bodies(ike.NONCE) == [b"n"]
    assert one.get_bodies(ike.SA) == []


def test_by_handshake_in_order_of_the_exchanges_requests_first():
    first = content(ike.IKE_SA_INIT, [], ident=0)
    answer = content(ike.IKE_AUTH, [], response=True, ident=1)
    ask = content(ike.IKE_AUTH, [], ident=1)
    nobody = np.zeros(0, np.bool_)
    contents = DecodedMessages(np.zeros(0, np.int64), [answer, first, ask], nobody, nobody, [])
    assert contents.group_by_handshake() == {0: [first, ask, answer]}
    assert DecodedMessages(np.zeros(0, np.int64), [], nobody, nobody, []).group_by_handshake() == {}


def test_the_repr_has_no_secret():
    sa = Sa()
    trace = Trace()
    trace.play(sa.whole())
    result = look(trace, table(*sa.key_sets))
    shown = repr(result.contents) + repr(result.analysis.cleartexts) + repr(result.findings)
    for keys in sa.key_sets:
        for secret in (keys.sk_ei, keys.sk_er):
            assert secret.hex() not in shown
            assert repr(secret)[2:-1] not in shown
    for put in sa.inside.values():
        assert repr(put.plaintext)[2:40] not in shown


def test_transmissions_share_their_content():
    sa = Sa()
    messages = sa.whole()
    trace = Trace()
    end = trace.play(messages)
    trace.message(end + 10**9, messages[-1])
    result = look(trace, table(*sa.key_sets))
    of_message = result.contents.of_message.tolist()
    assert len(of_message) == 7
    assert of_message[-1] == of_message[-2]
    assert sorted(set(of_message)) == list(range(6))
    assert [result.contents.all[index].encrypted for index in of_message] == [False, False, *[True] * 5]

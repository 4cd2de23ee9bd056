"""A capture's IKE traffic taken apart: its columns refer to one another."""

import polars as pl

from tests.analysis.decrypt_captures import look
from tests.analysis.recorded_captures import log_of
from tests.paths import CAPTURES


def test_everything_refers_to_something():
    result = look(CAPTURES / "loss20-classic.pcap", log_of("loss20-classic"))
    talk, analysis = result.conversation, result.analysis
    # each datagram here is a frame: nothing was fragmented
    assert len(talk.datagrams) == analysis.frames.height == analysis.captures[0].accounting["ike"]
    assert sorted(set(talk.message_of_datagram.tolist())) == list(range(len(talk.messages)))
    assert len(talk.messages) == analysis.messages.height
    assert sorted(set(talk.exchange_of_message.tolist())) == list(range(len(talk.exchanges)))
    assert sorted(set(talk.exchanges.handshake.tolist())) == list(range(talk.association.count)) == list(range(25))
    assert talk.last_ns == analysis.captures[0].last_ns
    assert not talk.translated
    # the clear messages, both of each IKE_SA_INIT and their retransmissions
    inits = analysis.frames.filter(pl.col("exchange_type") == 34).height
    assert len(talk.inits.rows) == inits

"""Handshakes that tests make up, and recorded ones."""

from functools import cache

import ikeanalyze
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.model.prediction.extract import extract_flow
from ikeanalyze.model.prediction.flow import EncryptionOverhead, FlowDatagram, FlowExchange, FlowMessage, HandshakeFlow
from tests.paths import CAPTURES

GCM = EncryptionOverhead(8, 1, 16)


@cache
def capture(name):
    return ikeanalyze.read(CAPTURES / name)


def flow(name, handshake=None, **options):
    """A handshake of a recorded capture; options are those of reading it."""
    path = str(CAPTURES / name)
    analysis = read_captures(path, ReadOptions(**options)) if options else capture(name)
    return extract_flow(analysis, path, handshake)


def message(*sizes, encrypted=True, marker=4):
    """A message of parts with these bytes of IKE, over Ethernet and IPv4."""
    headers = 14 + 20 + 8 + marker
    return FlowMessage(tuple(FlowDatagram(size, (headers + size,)) for size in sizes), encrypted, marker, 8, 20, 14)


def exchange(request, response, *, before_ms=0, answer_ms=0, aaa_ms=0, trips=0, type_="IKE_AUTH"):
    """An exchange that the initiator asks for; `answer_ms` None: unknown."""
    before, aaa = (round(time * 1e6) for time in (before_ms, aaa_ms))
    answer = None if answer_ms is None else round(answer_ms * 1e6)
    return FlowExchange(type_, 1, "initiator", request, response, before, answer, aaa, trips)


def made(*exchanges, protection=GCM, fragmentation=True):
    """A handshake of these exchanges."""
    return HandshakeFlow("made.pcap", 1, 0, "IKEv2", exchanges, fragmentation, protection, 0, None, None)

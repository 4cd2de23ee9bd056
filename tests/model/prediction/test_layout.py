"""Expected sizes are those of recorded frames, which strongSwan, libreswan and the kernel cut, or counted by hand."""

from dataclasses import replace

import pytest

from ikeanalyze.model.prediction.layout import (
    LayoutError,
    PacketizedMessage,
    compute_unfragmented_bytes,
    make_tcp_ack,
    make_tcp_syn,
    packetize_over_tcp,
    packetize_over_udp,
)
from ikeanalyze.model.prediction.link import LinkModel
from tests.model.flows import flow, made, message
from tests.paths import CAPTURES


def messages(found):
    return [item for exchange in found.exchanges for item in (exchange.request, exchange.response) if item]


def as_recorded(found):
    return [tuple(part.frames for part in item.parts) for item in messages(found)]


#: Captures of strongSwan with its fragment_size of 1280, and how large their messages are.
STRONGSWAN = [
    path.relative_to(CAPTURES)
    for path in sorted([*CAPTURES.glob("*.pcap*"), *CAPTURES.glob("lab/*.pcapng")])
    if not path.name.startswith(
        ("ikev1", "ip-fragments", "fragments-dropped", "libreswan", "no-proposal", "pq-loss15", "router", "mixed")
    )
]  # fmt: skip


@pytest.mark.parametrize("name", STRONGSWAN, ids=str)
def test_cut_as_strongswan_cuts(name):
    # each message is laid out anew from its content, and becomes the frames that were recorded
    result = flow(name)
    link = LinkModel(1, mtu=1500)
    assert [packetize_over_udp(item, result, link, 1280).parts for item in messages(result)] == as_recorded(result)


def test_refragmentation_keeps_the_message():
    # the same messages at another fragment size, and then at the one that was recorded
    result = flow("lab/rsa-chain3.pcapng")
    small = []
    for one in result.exchanges[1].request, result.exchanges[1].response:
        laid = packetize_over_udp(one, result, LinkModel(1), 600)
        assert len(laid.parts) > len(one.parts)
        assert all(sum(part) - 14 <= 600 for part in laid.parts)
        small.append(laid)
    # the fragments of the capture made with fragment_size = 1200 are those that 1200 makes of other ones
    other = flow("lab/fragments-dropped_fragment-size-1200.pcapng")
    assert [packetize_over_udp(item, other, LinkModel(1), 1200).parts for item in messages(other)] == as_recorded(other)
    assert sum(packetize_over_udp(other.exchanges[1].request, other, LinkModel(1), 1200).parts[0]) - 14 == 1188


def test_an_mtu_below_what_was_recorded_cuts_smaller():
    result = flow("pq-mlkem768-psk.pcap")
    request = result.exchanges[1].request
    assert packetize_over_udp(request, result, LinkModel(1), None).parts == ((1294,), (112,))
    assert packetize_over_udp(request, result, LinkModel(1, mtu=1280), None).parts == ((1294,), (112,))
    # by hand: 576 - 20 - 8 - 4 - 28 - 8 - 8 - 16 = 484, of which one is the pad length; 1192 = 483 + 483 + 226
    assert packetize_over_udp(request, result, LinkModel(1, mtu=576), None).parts == ((590,), (590,), (333,))
    # IKE_SA_INIT is in clear: IP cuts it. 312 + 8 bytes in packets of 296: 272 and 48
    first = result.exchanges[0].request
    assert packetize_over_udp(first, result, LinkModel(1, mtu=296), None).parts == ((14 + 20 + 272, 14 + 20 + 48),)


@pytest.mark.parametrize(("name", "mtu"), [("lab/ip-fragments.pcapng", 800), ("ip-fragments-loss10.pcap", 576)])
def test_ip_fragments_as_the_kernel_makes_them(name, mtu):
    result = flow(name)
    assert [
        packetize_over_udp(item, result, LinkModel(1, mtu=mtu), None).parts for item in messages(result)
    ] == as_recorded(result)
    assert as_recorded(result)[2][0][1:]


def test_ipv6_fragments_have_the_recorded_sizes():
    one = message(2000)
    one = replace(one, ip=40)
    # payload of 2012 bytes: 1232 fit into 1280 with the two headers, then 780
    assert packetize_over_udp(one, made(), LinkModel(1, mtu=1280), 0).parts == ((14 + 48 + 1232, 14 + 48 + 780),)
    # a last fragment may fill its packet to the last byte
    assert packetize_over_udp(message(1472 - 4), made(), LinkModel(1, mtu=1500), 0).parts == ((1514,),)
    assert packetize_over_udp(message(1473 - 4), made(), LinkModel(1, mtu=1500), 0).parts == ((1514, 14 + 20 + 1),)


def test_without_ike_fragmentation_ip_fragments_are_used():
    result = flow("lab/loss_loss-percent-20.pcapng")
    request = result.exchanges[1].request
    # the log: "reassembled fragmented IKE message (1440 bytes)"; how much of the last fragment is padding is not seen
    whole = compute_unfragmented_bytes(request.parts, result.protection)
    assert 0 <= whole - 1440 <= 16
    assert packetize_over_udp(request, result, LinkModel(1), 0).parts == ((14 + 20 + 8 + 4 + whole,),)
    # 8 + 4 bytes before it, 1256 in the first packet of 1280
    assert packetize_over_udp(request, result, LinkModel(1, mtu=1280), 0).parts == (
        (1290, 14 + 20 + whole + 12 - 1256),
    )
    # nor if the peers did not agree on it, or the cipher is not known
    for other in (replace(result, fragmentation=False), replace(result, protection=None)):
        clear = packetize_over_udp(replace(request, parts=request.parts[:1]), other, LinkModel(1, mtu=1000), None)
        assert len(clear.parts) == 1
        assert len(clear.parts[0]) == 2


def test_a_too_small_mtu_is_rejected():
    result = flow("pq-mlkem768-psk.pcap")
    with pytest.raises(LayoutError, match="no room for IKE fragments of a message of 1,249 bytes"):
        packetize_over_udp(result.exchanges[1].request, result, LinkModel(1), 92)
    assert packetize_over_udp(result.exchanges[1].request, result, LinkModel(1), 100).frames == 1192 // 7 + 1
    with pytest.raises(LayoutError):
        packetize_over_udp(message(60000), made(), LinkModel(1), 100)


def test_tcp_segments_have_the_recorded_sizes():
    # by hand: prefix 6, length 2, marker 4, 312 bytes; 14 + 20 + 32 bytes of headers
    result = flow("pq-mlkem768-psk.pcap")
    assert packetize_over_tcp(result.exchanges[0].request, result, LinkModel(1), first=True).parts == ((66 + 324,),)
    assert packetize_over_tcp(result.exchanges[0].response, result, LinkModel(1), first=False).parts == (
        (66 + 6 + 320,),
    )
    # reassembled (1249 bytes, by the log): 1255 = 1228 + 27 with an MTU of 1280
    request = result.exchanges[1].request
    assert packetize_over_tcp(request, result, LinkModel(1), first=False).parts == ((66 + 1255,),)
    assert packetize_over_tcp(request, result, LinkModel(1, mtu=1280), first=False).parts == ((66 + 1228,), (66 + 27,))
    assert make_tcp_syn(request) == PacketizedMessage(((74,),))
    assert make_tcp_ack(request) == PacketizedMessage(((66,),))

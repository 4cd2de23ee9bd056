"""Floods: each function returns a capture of about `n` packets, of which each costs the reader some work.

The names say what an attacker, a broken implementation or a damaged file repeats.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from random import Random

from tests.craft import hip, ike, ikev1, pcapng_file, radius, transport
from tests.craft.eap import eap
from tests.floods.packets import (
    CREATE_CHILD_SA,
    FIRST,
    FROM_INITIATOR,
    IKE_AUTH,
    INFORMATIONAL,
    INIT,
    INITIATOR,
    MILLISECOND,
    RAW_IP,
    RESPONDER,
    RESPONSE,
    SECOND,
    SPI_I,
    SPI_R,
    START_NS,
    capture,
    encrypted,
    fragment,
    ipv4,
    message,
    pcap,
    request,
    response,
    spaced,
    tcp,
    udp,
)

Generate = Callable[[int], bytes]
NOTIFY, DELETE, COOKIE, INVALID_KE_PAYLOAD = 41, 42, 16390, 17


@dataclass(frozen=True, slots=True)
class Flood:
    """A flood, and the smaller of the two sizes that are compared (`GROWTH`)."""

    generate: Generate
    size: int
    command: tuple[str, ...] = ("report",)


#: The larger size is so many times the smaller one: enough that noise does not look like growth.
GROWTH = 4

FLOODS: dict[str, Flood] = {}


def flood(size: int, *command: str) -> Callable[[Generate], Generate]:
    def register(generate: Generate) -> Generate:
        FLOODS[generate.__name__] = Flood(generate, size, command or ("report",))
        return generate

    return register


# ---- one message seen often


@flood(2_500)
def one_request_without_identification(n: int) -> bytes:
    return pcap((place * MILLISECOND, request(message())) for place in range(n))


@flood(2_500)
def one_request_500_times_a_second(n: int) -> bytes:
    """IPv6 has no identification, and the gaps are as irregular as on the Internet."""
    rng, time, packets = Random(1), 0.0, []
    header = struct.pack(">IHBB", 6 << 28, len(udp(message())), 17, 64) + bytes(15) + b"\1" + bytes(15) + b"\2"
    for _ in range(n):
        time += rng.expovariate(500)
        packets.append((int(time * SECOND), header + udp(message())))
    return pcap(packets)


@flood(2_500)
def one_request_from_many_addresses(n: int) -> bytes:
    return capture(request(message(), source=struct.pack(">I", 0x0A000000 + place)) for place in range(n))


@flood(2_500)
def one_request_with_every_ttl(n: int) -> bytes:
    """Each may be the copy behind a router of each with a higher TTL."""
    return pcap((place * 2 * MILLISECOND, request(message(), ttl=place % 255 + 1)) for place in range(n))


@flood(1_500)
def one_request_on_many_interfaces(n: int) -> bytes:
    """Each may be the copy of each at another interface."""
    interface = pcapng_file.interface_description(pcapng_file.Interface(RAW_IP))
    packet = request(message(), ident=7)
    blocks = (_packet_block(place, place * 2 * MILLISECOND, packet) for place in range(n))
    return pcapng_file.section_header() + interface * n + b"".join(blocks)


@flood(10_000)
def doubled_frames(n: int) -> bytes:
    return capture(request(message(spi_i=place // 2 + 1), ident=place // 2 + 1) for place in range(n))


@flood(10_000)
def all_at_one_time(n: int) -> bytes:
    return pcap((0, request(message(spi_i=place + 1))) for place in range(n))


@flood(10_000)
def times_backwards(n: int) -> bytes:
    return pcap(((n - place) * MILLISECOND, request(message(spi_i=place + 1))) for place in range(n))


@flood(2_500)
def one_request_backwards_in_time(n: int) -> bytes:
    return pcap(((n - place) * MILLISECOND, request(message())) for place in range(n))


# ---- IKE SAs


@flood(20_000)
def half_open(n: int) -> bytes:
    return capture(request(message(spi_i=place + 1)) for place in range(n))


@flood(7_500)
def half_open_and_answered(n: int) -> bytes:
    def packets() -> Iterator[bytes]:
        for spi in range(1, n + 1):
            yield request(message(spi_i=spi))
            yield response(message(spi_i=spi, spi_r=spi + n, flags=RESPONSE))

    return capture(packets())


@flood(5_000)
def half_open_from_many_addresses(n: int) -> bytes:
    """One SPI pair."""
    return capture(request(encrypted(bytes(64)), source=struct.pack(">I", 0x0A000000 + place)) for place in range(n))


@flood(7_500)
def responder_spis_of_one_request(n: int) -> bytes:
    return capture(response(message(spi_r=place + 1, flags=RESPONSE)) for place in range(n))


@flood(7_500)
def message_ids(n: int) -> bytes:
    return capture(
        request(encrypted(place.to_bytes(64), exchange=INFORMATIONAL, message_id=place + 2)) for place in range(n)
    )


@flood(7_500)
def rekeyed_ike_sas(n: int) -> bytes:
    """Without their IKE_SA_INIT."""
    return capture(
        request(encrypted(bytes(64), spi_i=place + 1, spi_r=place + n, exchange=CREATE_CHILD_SA, message_id=0))
        for place in range(n)
    )


@flood(7_500)
def bodies_of_one_encrypted_request(n: int) -> bytes:
    return capture(request(encrypted(place.to_bytes(64))) for place in range(n))


@flood(7_500)
def deletes_in_the_clear(n: int) -> bytes:
    """Requests to delete the IKE SA and their responses, as in a decrypted capture, all with one message ID."""
    delete = struct.pack(">BBHBBH", 0, 0, 8, 1, 0, 0)

    def make(flags: int) -> bytes:
        return message(spi_r=SPI_R, exchange=INFORMATIONAL, message_id=2, flags=flags, body=delete, first=DELETE)

    requests = (request(make(FROM_INITIATOR)) for _ in range(n // 2))
    responses = (response(make(RESPONSE)) for _ in range(n // 2))
    return pcap(spaced(chain(requests, responses), 3 * MILLISECOND))  # nearer ones would be capture duplicates


@flood(7_500)
def bodies_of_one_init_request(n: int) -> bytes:
    return capture(request(message(body=INIT[:-8] + place.to_bytes(8))) for place in range(n))


def _rounds(n: int, kind: int, data: Callable[[int], bytes]) -> bytes:
    """The initiator asks n times, the responder refuses each request in another way."""

    def packets() -> Iterator[bytes]:
        for place in range(n):
            cookie = struct.pack(">BBHBBH", FIRST, 0, 16, 0, 0, COOKIE) + place.to_bytes(8)
            yield request(message(body=cookie + INIT, first=NOTIFY))
            refusal = struct.pack(">BBHBBH", 0, 0, 8 + len(data(place)), 0, 0, kind) + data(place)
            yield response(message(flags=RESPONSE, body=refusal, first=NOTIFY))

    return capture(packets())


@flood(1_500)
def cookie_rounds(n: int) -> bytes:
    return _rounds(n, COOKIE, lambda place: (place + 1).to_bytes(8))


@flood(1_500)
def invalid_ke_rounds(n: int) -> bytes:
    return _rounds(n, INVALID_KE_PAYLOAD, lambda place: (place % 60_000).to_bytes(2))


@flood(2_500)
def responses_after_the_next_set_up(n: int) -> bytes:
    """A set-up whose request came often has its responses after the request of a set-up with the same SPIi."""
    (first, nonce), (_, other) = (ike.chain([(ike.NONCE, bytes([value]) * 32)]) for value in range(2))
    answer = response(message(spi_r=SPI_R, flags=RESPONSE, body=nonce, first=first))
    requests, later = [request(message(body=nonce, first=first))] * (n // 2), request(message(body=other, first=first))
    return pcap(spaced([*requests, answer, later, *[answer] * (n // 2 - 1)], 10 * MILLISECOND))


@flood(7_500)
def redirects_behind_one_nat(n: int) -> bytes:
    """A gateway redirects many initiators, of which those that were redirected last continue first, from other ports.

    A third of the packets each: requests, responses with REDIRECT, and requests at the other gateway.
    """
    count, other = n // 3, bytes([192, 0, 2, 3])
    first, redirect = ike.chain([ike.notify(ike.REDIRECT, b"\1\4" + other)])
    next_first, come_from = ike.chain([ike.notify(ike.REDIRECTED_FROM, b"\1\4" + RESPONDER), (ike.NONCE, bytes(32))])

    def packets() -> Iterator[bytes]:
        for spi in range(1, count + 1):
            port = 1024 + spi % 30_000
            yield ipv4(udp(message(spi_i=spi), sport=port))
            body = message(spi_i=spi, flags=RESPONSE, body=redirect, first=first)
            yield ipv4(udp(body, port, sport=500), source=RESPONDER, destination=INITIATOR)
        for spi in range(count, 0, -1):
            follower = message(spi_i=spi + count, body=come_from, first=next_first)
            yield ipv4(udp(follower, sport=31_024 + spi % 30_000), destination=other)

    return capture(packets())


# ---- fragments


@flood(7_500)
def fragments_of_one_message(n: int) -> bytes:
    return capture(request(fragment(place + 1, 65_534, place.to_bytes(32))) for place in range(n))


@flood(7_500)
def fragments_in_reverse(n: int) -> bytes:
    return capture(request(fragment(place, 65_534, place.to_bytes(32))) for place in range(n, 0, -1))


@flood(20_000)
def fragments_again_after_shorter_pauses(n: int) -> bytes:
    """Each fragment of the second half repeats one, and the longest pause since then is the earliest."""
    fragments = (fragment(place % (n // 2) + 1, 65_534, b"") for place in range(n))
    times = (place * (2 * n - place) * MILLISECOND for place in range(n))
    return pcap(
        (time, request(part, ident=place + 1)) for place, (time, part) in enumerate(zip(times, fragments, strict=True))
    )


@flood(7_500)
def first_of_two_fragments(n: int) -> bytes:
    return capture(request(fragment(1, 2, bytes(64), spi_i=place + 1, spi_r=place + n)) for place in range(n))


@flood(7_500)
def ip_fragments_without_end(n: int) -> bytes:
    first = udp(message())[:64]
    return capture(ipv4(first, ident=place, fragment=0x2000, source=(place >> 16).to_bytes(4)) for place in range(n))


def _datagram_in_fragments(n: int) -> list[bytes]:
    whole = udp(message(body=bytes(8 * n - 36)))[: 8 * n]
    return [
        ipv4(whole[at : at + 8], ident=7, fragment=(0x2000 if at + 8 < len(whole) else 0) | at // 8)
        for at in range(0, len(whole), 8)
    ]


@flood(2_000)
def ip_fragments_out_of_order(n: int) -> bytes:
    packets = _datagram_in_fragments(n)
    Random(1).shuffle(packets)
    return capture(packets)


@flood(2_000)
def ip_fragments_that_overlap(n: int) -> bytes:
    packets = _datagram_in_fragments(n)
    return capture(packet for pair in zip(packets, packets[1:] + packets[:1], strict=True) for packet in pair)


# ---- TCP


def _stream(n: int) -> bytes:
    """A stream of n bytes: the prefix of RFC 9329, and messages."""
    framed = transport.tcp_framed(message())
    return (b"IKETCP" + framed * (n // len(framed) + 1))[:n]


@flood(10_000)
def tcp_segments_of_one_byte(n: int) -> bytes:
    stream = _stream(n)
    return capture(ipv4(tcp(stream[at : at + 1], 1000 + at), 6) for at in range(n))


@flood(5_000)
def tcp_behind_a_hole(n: int) -> bytes:
    stream = _stream(20 * n)
    return capture(ipv4(tcp(stream[at : at + 20], 2000 + at), 6) for at in range(20, 20 * n, 20))


@flood(5_000)
def tcp_with_every_second_byte(n: int) -> bytes:
    stream = _stream(2 * n)
    return capture(ipv4(tcp(stream[at : at + 1], 1000 + at), 6) for at in range(0, 2 * n, 2))


@flood(5_000)
def tcp_segments_that_overlap(n: int) -> bytes:
    stream = _stream(n + 1000)
    return capture(ipv4(tcp(stream[at : at + 1000], 1000 + at), 6) for at in range(n))


@flood(2_000)
def tcp_copies_of_one_ahead(n: int) -> bytes:
    """Half of the segments are copies of one behind the messages of the others."""
    framed = transport.tcp_framed(encrypted(b"body", exchange=INFORMATIONAL, spi_r=SPI_R))
    half = n // 2
    begin = 1000 + len(b"IKETCP")
    ahead = [tcp(framed, begin + half * len(framed) + 50_000)] * half
    messages = [tcp(framed, begin + place * len(framed)) for place in range(half)]
    return capture(ipv4(segment, 6) for segment in [tcp(b"IKETCP", 1000), *[tcp(framed, begin)] * 3, *ahead, *messages])


@flood(5_000)
def tcp_bytes_sent_again(n: int) -> bytes:
    stream = _stream(500)
    return capture(ipv4(tcp(stream, 1000), 6) for _ in range(n))


@flood(5_000)
def tcp_connections(n: int) -> bytes:
    stream = _stream(200)
    return capture(
        ipv4(tcp(stream, 1000, sport=1 + place % 60_000), 6, source=struct.pack(">I", 0x0A000000 + place // 60_000))
        for place in range(n)
    )


# ---- other protocols


def _radius(n: int, waiting: int) -> bytes:
    """`waiting` IKE_AUTH requests that are not answered, and then n RADIUS conversations that fit all of them."""
    rng = Random(1)
    packets = [
        request(data)
        for spi in range(1, waiting + 1)
        for data in (message(spi_i=spi), encrypted(bytes(64), spi_i=spi, spi_r=spi + waiting))
    ]
    for place in range(n):
        asked = radius.access_request(place % 256, eap(2, 1, 1, b"user"), rng)
        port = 1024 + place // 256 % 60_000
        packets.append(ipv4(udp(asked, 1812, sport=port), source=RESPONDER, destination=bytes([192, 0, 2, 3])))
        answer = struct.pack(">HHHH", 1812, port, 8 + len(asked), 0) + radius.reject(asked, eap(4, 1))
        packets.append(ipv4(answer, source=bytes([192, 0, 2, 3]), destination=RESPONDER))
    return capture(packets)


@flood(500)
def radius_that_fits_many_handshakes(n: int) -> bytes:
    return _radius(n, 1_000)


@flood(500)
def handshakes_that_fit_many_radius_conversations(n: int) -> bytes:
    return _radius(1_000, n)


@flood(5_000, "overhead", "measure")
def esp_spis(n: int) -> bytes:
    return capture(ipv4(transport.esp(place + 256, 1, bytes(64)), 50) for place in range(n))


@flood(7_500)
def ikev1_half_open(n: int) -> bytes:
    offer = ikev1.message(bytes(8), bytes(8), ikev1.MAIN_MODE, [ikev1.sa()])[8:]
    return capture(request((place + 1).to_bytes(8) + offer) for place in range(n))


@flood(7_500)
def ikev1_quick_modes(n: int) -> bytes:
    cookies = SPI_I.to_bytes(8) + SPI_R.to_bytes(8)
    return capture(
        request(ikev1.encrypted(cookies[:8], cookies[8:], 32, 8, place.to_bytes(64), message_id=place + 1))
        for place in range(n)
    )


@flood(7_500)
def ikev1_fragments(n: int) -> bytes:
    cookie = SPI_I.to_bytes(8)
    complete = ikev1.message(cookie, bytes(8), ikev1.MAIN_MODE, [ikev1.sa()])
    (only,) = ikev1.fragments(complete, 1000)
    # fragment ID, number, no flag of the last fragment
    return capture(
        request(only[:32] + struct.pack(">HBB", place // 255 % 65_536, place % 255 + 1, 0) + only[36:])
        for place in range(n)
    )


@flood(7_500)
def hip_first_messages(n: int) -> bytes:
    prefix = bytes.fromhex("20010021")
    return capture(ipv4(hip.packet(1, prefix + place.to_bytes(12), prefix + bytes(12)), 139) for place in range(n))


@flood(7_500)
def icmp_that_quotes_ike(n: int) -> bytes:
    return capture(ipv4(struct.pack(">BBHI", 3, 3, 0, 0) + request(message(spi_i=place + 1)), 1) for place in range(n))


@flood(5_000)
def requests_that_icmp_rejects(n: int) -> bytes:
    """Every other error quotes only the UDP header, so that its request is one of many between the hosts."""
    requests = ((place, request(message(spi_i=place + 1))) for place in range(n // 2))
    error = struct.pack(">BBHI", 3, 3, 0, 0)
    packets = chain.from_iterable(
        (sent, ipv4(error + (sent[:28] if place % 2 else sent), 1)) for place, sent in requests
    )
    # unanswered, and not cut off by the end of the capture
    return pcap(chain(spaced(packets), [(60 * SECOND, ipv4(udp(bytes(9), 9)))]))


# ---- pcapng


def _packet_block(interface: int, time: int, packet: bytes) -> bytes:
    ticks = START_NS + time
    head = struct.pack("<IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet))
    return pcapng_file.block(6, head + packet + bytes(-len(packet) % 4))


@flood(1_500)
def pcapng_interfaces(n: int) -> bytes:
    interface = pcapng_file.interface_description(pcapng_file.Interface(RAW_IP))
    blocks = (_packet_block(place, place, request(message(spi_i=place + 1))) for place in range(n))
    return pcapng_file.section_header() + interface * n + b"".join(blocks)


@flood(2_500)
def pcapng_sections(n: int) -> bytes:
    start = pcapng_file.section_header() + pcapng_file.interface_description(pcapng_file.Interface(RAW_IP))
    return b"".join(start + _packet_block(0, place, request(message(spi_i=place + 1))) for place in range(n))


@flood(7_500)
def pcapng_options(n: int) -> bytes:
    """Of one interface."""
    options = pcapng_file.option(1, b"comment") * n
    body = struct.pack("<HHI", RAW_IP, 0, 0) + options + bytes(4)
    return pcapng_file.section_header() + pcapng_file.block(1, body) + _packet_block(0, 0, request(message()))


@flood(1_500)
def pcapng_clocks(n: int) -> bytes:
    interfaces = (pcapng_file.Interface(RAW_IP, tsresol=9, tsoffset=place) for place in range(n))
    described = b"".join(map(pcapng_file.interface_description, interfaces))
    blocks = (_packet_block(place, 0, request(message(spi_i=place + 1))) for place in range(n))
    return pcapng_file.section_header() + described + b"".join(blocks)


__all__ = ["FLOODS", "FROM_INITIATOR", "IKE_AUTH", "INITIATOR", "Flood"]

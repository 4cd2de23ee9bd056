import struct
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.hip.packet import check_hip_packet, is_checksum_valid, parse_hip
from ikeanalyze.wire.hip.parameters import EspInfo, HipNotification, HipPuzzle, HostId
from tests.craft import Trace, hip

ENDS = {"v4": ("192.0.2.1", "192.0.2.2"), "v6": ("2001:db8::1", "2001:db8::2")}


def whole(method, **options):
    """Every packet of an association."""
    association = hip.Association(1, method, **options)
    return association, [
        *association.setup(),
        *association.update(),
        *association.acknowledged(),
        association.notify(),
        *association.close(),
    ]


def test_header_and_parameters_are_decoded():
    hits = bytes(range(16)), bytes(range(16, 32))
    listed = [(257, bytes([10, 37, 0xAB, 0xCD]) + bytes(8)), (513, bytes(99)), (64000, b"")]
    data = hip.packet(hip.R1, *hits, listed, controls=1)
    view = parse_hip(data[:4] + b"\xab\xcd" + data[6:])
    assert view is not None
    assert (view.next_header, view.packet_type, view.version, view.checksum, view.controls) == (
        59,
        2,
        2,
        0xABCD,
        1,
    )
    assert (view.sender_hit, view.receiver_hit) == hits
    assert [(parameter.type, parameter.bytes) for parameter in view.parameters] == [(257, 12), (513, 99), (64000, 0)]
    assert view.length == len(data)
    assert view.error is None
    assert view.has(1, 513)
    assert not view.has(514)
    # 2^(37 - 32) seconds: RFC 7401, section 5.2.4
    assert view.first(HipPuzzle) == HipPuzzle(10, 32.0, b"\xab\xcd", bytes(8))
    assert view.value(257) == view.first(HipPuzzle)
    assert view.first(EspInfo) is None


def test_each_packet_of_a_base_exchange_is_described():
    _, packets = whole("BEX")
    words = [parse_hip(packet.data).describe() for packet in packets]
    assert words[0] == ["DH_GROUP_LIST(ECP-256)"]
    assert words[1] == [
        "R1_COUNTER(7)", "PUZZLE(K 10)", "DIFFIE_HELLMAN(ECP-256)", "HIP_CIPHER(AES-CBC-128, NULL)",
        "HOST_ID(RSA, responder.example)", "HIT_SUITE_LIST(RSA,DSA/SHA-256, ECDSA/SHA-384)",
        "TRANSPORT_FORMAT_LIST(ESP_TRANSFORM)",
        "ESP_TRANSFORM(AES-CBC-128/HMAC-SHA2-256, AES-CBC-256/HMAC-SHA2-256)", "HIP_SIGNATURE_2(RSA)",
    ]  # fmt: skip
    assert words[-3] == ["NOTIFICATION(BLOCKED_BY_POLICY)", "HIP_SIGNATURE(RSA)"]
    _, packets = whole("DEX")
    assert parse_hip(packets[3].data).describe()[1:] == ["ENCRYPTED_KEY", "HIP_MAC"]


def test_unknown_ones_survive():
    view = parse_hip(hip.packet(9, bytes(16), bytes(16), [(4242, b"aka"), (4243, b"")]))
    assert view.packet_type == 9
    assert view.describe() == ["unknown 4242", "unknown 4243 (critical)"]
    assert check_hip_packet(view) == ["unknown parameter 4243 is critical"]


#: Fields of tshark's, each with the parameter and the attribute of ours that must have the same.
NUMBERS = {
    "tlv_puzzle_k": (hip.PUZZLE, "difficulty"),
    "tlv_esp_info_new_spi": (hip.ESP_INFO, "new_spi"),
    "tlv_esp_info_old_spi": (hip.ESP_INFO, "old_spi"),
    "tlv_seq_update_id": (hip.SEQ, "value"),
    "tlv_ack_updid": (hip.ACK, "numbers"),
    "tlv.dh_group_id": (hip.DIFFIE_HELLMAN, "group"),
    "tlv.cipher_id": (hip.HIP_CIPHER, "numbers"),
    "tlv.hit_suite_id": (hip.HIT_SUITE_LIST, "numbers"),
    "tlv.trans_id": (hip.ESP_TRANSFORM, "numbers"),
    "tlv.notification_type": (hip.NOTIFICATION, "type"),
}
BYTES = {
    "tlv.puzzle_random_i": (hip.PUZZLE, "random"),
    "tlv_solution_j": (hip.SOLUTION, "solution"),
    "tlv.dh_public_value": (hip.DIFFIE_HELLMAN, "public"),
}
HEADER = ("packet_type", "version", "checksum", "checksum.status", "hit_sndr", "hit_rcvr", "type")
FIELDS = (*HEADER, *NUMBERS, *BYTES, "tlv.locator_address")


def ours(view, kind, attribute):
    value = view.value(kind)
    if value is None:
        return []
    result = getattr(value, attribute)
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("family", ["v4", "v6"])
@pytest.mark.parametrize("method", ["BEX", "DEX"])
def test_as_tshark_reads_them(tshark, method, family):
    initiator, responder = ENDS[family]
    association, packets = whole(method, initiator=initiator, responder=responder)
    trace = Trace()
    for number, packet in enumerate(packets):
        trace.ip(number * 1_000_000, association.ip(packet))
    options = [part for name in FIELDS for part in ("-e", f"hip.{name}")]
    shape = ("-T", "fields", "-E", "separator=/t", "-E", "aggregator=|")
    done = tshark.run("-n", *shape, *options, capture=trace.pcap())
    assert done.status == 0, done.stderr
    assert len(done.lines) == len(packets)
    for line, packet in zip(done.lines, packets, strict=True):
        texts = (value.split("|") if value else [] for value in line.split("\t"))
        row = dict(zip(FIELDS, texts, strict=True))
        ends = (initiator, responder) if packet.from_initiator else (responder, initiator)
        data = hip.with_checksum(packet.data, *ends)
        view = parse_hip(data)
        assert view is not None
        assert view.error is None
        numbers = {
            "packet_type": [view.packet_type],
            "version": [view.version],
            "checksum": [view.checksum],
            "type": [parameter.type for parameter in view.parameters],
            **{name: ours(view, *where) for name, where in NUMBERS.items()},
        }
        for name, values in numbers.items():
            assert [int(value, 0) for value in row[name]] == values, name
        strings = {
            "hit_sndr": [view.sender_hit],
            "hit_rcvr": [view.receiver_hit],
            **{name: ours(view, *where) for name, where in BYTES.items()},
        }
        for name, values in strings.items():
            assert [bytes.fromhex(value.replace(":", "")) for value in row[name]] == values, name
        # which it has twice: in the list, and in the entry
        addresses = [f"::ffff:{entry.address}" for entry in ours(view, hip.LOCATOR_SET, "locators")]
        assert list(dict.fromkeys(row["tlv.locator_address"])) == addresses
        assert row["checksum.status"] in (["1"], ["Good"])  # newer ones say it in words
        packed = [ip_address(end).packed for end in ends]
        assert is_checksum_valid(data, *packed)
        assert not is_checksum_valid(packet.data[:4] + b"\x12\x34" + packet.data[6:], *packed)


#: Parameters besides those of a base exchange (RFC 8002 to 8004, 8046, 5770).
RELAYED = bytes(10) + b"\xff\xff\xc6\x33\x64"  # 198.51.100, mapped
COMPANIONS = [
    (
        193,
        struct.pack(">BBBBI", 1, 1, 5, 0, 60) + b"\xab\xcd\xef\1" + bytes.fromhex("20010db8") + bytes(11) + b"\x09",
    ),
    (608, struct.pack(">HHHH", 0, 1, 2, 3)),
    (768, bytes([1, 2, 1, 3]) + b"a certificate"),
    (930, bytes([10, 20, 1, 2])),
    (932, bytes([200, 1])),
    (934, bytes([150, 2, 3])),
    (950, struct.pack(">HBB", 10500, 17, 0) + RELAYED + b"\7"),
    (63998, struct.pack(">HBB", 10501, 17, 0) + RELAYED + b"\x08"),
    (64002, struct.pack(">HBB", 10502, 17, 0) + RELAYED + b"\x09"),
    (65498, RELAYED + b"\x0a"),
    (65502, RELAYED + b"\x0b" + bytes.fromhex("20010db8") + bytes(11) + b"\7"),
]


def test_companions_as_tshark_reads_them(tshark):
    one = hip.packet(hip.NOTIFY, bytes(16), bytes(16), COMPANIONS)
    trace = Trace()
    trace.send(0, bytes(4) + one, sport=10500, dport=10500)
    view = parse_hip(one)
    by_type = {parameter.type: parameter.value for parameter in view.parameters}
    (locator,) = by_type[193].locators
    certificate = by_type[768]
    expected = {
        "tlv.locator_traffic_type": [locator.traffic],
        "tlv.locator_type": [locator.type],
        "tlv.locator_lifetime": [locator.lifetime_s],
        "tlv.nat_traversal_mode_id": by_type[608].numbers,
        "tlv.cert_group": [certificate.group],
        "tlv.cert_count": [certificate.count],
        "tlv.cert_id": [certificate.id],
        "tlv.cert_type": [certificate.type],
        "tlv.reg_type": [number for kind in (930, 932, 934) for number in by_type[kind].numbers],
        "tlv.reg_from_port": [by_type[950].port],
        "tlv.relay_from_port": [by_type[63998].port],
        "tlv.relay_to_port": [by_type[64002].port],
    }
    addresses = {
        "tlv_reg_from_address": by_type[950].addresses,
        "tlv_relay_from_address": by_type[63998].addresses,
        "tlv_relay_to_address": by_type[64002].addresses,
        "tlv_from_address": by_type[65498].addresses,
        "tlv_rvs_address": by_type[65502].addresses,
        "tlv.locator_address": [locator.address] * 2,  # in the list, and in the entry
    }
    names = [*expected, *addresses]
    options = [part for name in names for part in ("-e", f"hip.{name}")]
    done = tshark.run("-n", "-T", "fields", "-E", "aggregator=|", *options, capture=trace.pcap())
    said = dict(zip(names, (one.split("|") for one in done.lines[0].split("\t")), strict=True))
    for name, numbers in expected.items():
        assert [int(value, 0) for value in said[name]] == list(numbers), name
    for name, texts in addresses.items():
        assert [value.removeprefix("::ffff:") for value in said[name]] == list(texts), name


def test_host_id_of_version_1_as_tshark_reads_it(tshark):
    # RFC 5201, section 5.2.8: a DNSKEY record; tshark knows no other
    key = struct.pack(">HBB", 0x0202, 0xFF, 5) + b"\x03\x01\x00\x01" + bytes(128)
    listed = [(hip.HOST_ID, struct.pack(">HH", len(key), 1 << 12 | 11) + key + b"gw.example\0")]
    packet = hip.packet(hip.NOTIFY, bytes(16), bytes(16), listed, version=1)
    trace = Trace()
    trace.send(0, bytes(4) + packet, sport=10500, dport=10500)
    names = ("hip.tlv.host_id_length", "hip.tlv.host_id_header_algo", "hip.tlv.host_id_e")
    options = [part for name in names for part in ("-e", name)]
    (line,) = tshark.run("-n", "-T", "fields", *options, capture=trace.pcap()).lines
    size, algorithm, exponent = line.split("\t")
    assert (int(size), int(algorithm, 0), exponent.replace(":", "")) == (len(key), 5, "010001")
    host = parse_hip(packet).first(HostId)
    assert (host.algorithm, host.identity, host.domain) == (5, key[4:], "gw.example\\x00")


@pytest.mark.parametrize("method", ["BEX", "DEX"])
def test_crafted_base_exchanges_have_no_findings(method):
    _, packets = whole(method)
    assert [check_hip_packet(parse_hip(packet.data)) for packet in packets] == [[]] * len(packets)


@pytest.mark.parametrize(
    ("kind", "parameters", "found"),
    [
        (hip.R2, [], ["R2 without HIP_MAC_2"]),
        (hip.NOTIFY, [(hip.HIP_SIGNATURE, b"\0\5")], ["NOTIFY without NOTIFICATION"]),
        (hip.R2, [(hip.HIP_MAC, b""), hip.esp_info(1)], ["ESP_INFO follows HIP_MAC, out of order"]),
        (hip.R2, [(hip.ESP_INFO, bytes(11)), (hip.HIP_MAC, b"")], ["ESP_INFO: 12 bytes are needed, 11 are left (at byte 0)"]),
        # between 2048 and 4095 the order says what is preferred
        (hip.I1, [(4095, bytes(4)), (2049, b"")], []),
    ],
)  # fmt: skip
def test_malformed_packets_have_findings(kind, parameters, found):
    assert check_hip_packet(parse_hip(hip.packet(kind, bytes(16), bytes(16), parameters))) == found


def test_padding_that_is_not_zero():
    data = hip.packet(hip.I1, bytes(16), bytes(16), [(hip.DH_GROUP_LIST, b"\7")])
    assert check_hip_packet(parse_hip(data[:-1] + b"\1")) == ["padding that is not zero"]


def test_truncated_packets_have_an_error_and_findings():
    data = hip.packet(hip.R1, bytes(16), bytes(16), [(257, bytes(12)), (513, bytes(99))])
    for size in range(len(data)):
        view = parse_hip(data[:size])
        assert (view is None) == (size < 40)
        assert view is None or (view.error is not None and len(check_hip_packet(view)) >= 1)


def test_a_notification_without_a_name():
    view = parse_hip(hip.packet(hip.NOTIFY, bytes(16), bytes(16), [hip.notification(12345, b"why")]))
    assert view.first(HipNotification) == HipNotification(12345, 3)
    assert view.describe() == ["NOTIFICATION(12345)"]


@given(st.binary(max_size=100), st.sampled_from([1, 2]))
def test_random_bytes_raise_nothing(data, version):
    parse_hip(data)
    head = bytearray(hip.packet(hip.R1, bytes(16), bytes(16), version=version))
    head[1] = (40 + len(data)) // 8
    view = parse_hip(bytes(head) + data)
    assert view is not None
    check_hip_packet(view)
    view.describe()

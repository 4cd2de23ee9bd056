"""The shape of recorded handshakes; expected values from the scenarios, from tshark and from charon's logs."""

import datetime as dt
from dataclasses import replace
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.verification.ike_sas import collect_ike_sas
from ikeanalyze.replay.handshake_shape import ALL_ADDRESSES, DEFAULT_ESP, extract_shape, read_shape
from ikeanalyze.replay.initiator.interface import CannotReplayError
from tests.craft import MS, Handshake, Packet, Trace, ike, link, pcap, udp_packet
from tests.paths import CAPTURES
from tests.replay.driving import initiator

#: A handshake with all payloads. charon's log: "generating IKE_AUTH request 2 [ IDi N(INIT_CONTACT) IDr AUTH SA TSi
#: TSr N(MOBIKE_SUP) N(NO_ADD_ADDR) N(MULT_AUTH) N(EAP_ONLY) N(MSG_ID_SYN_SUP) ]".
NAME = "pq-mlkem768-psk"


def shape(name, *keys, handshake=None):
    (path,) = CAPTURES.glob(f"{name}.pcap*")
    return read_shape(path, handshake, keys=[CAPTURES / key for key in keys])[1]


def written(tmp_path, messages):
    trace = Trace()
    for number, message in enumerate(messages):
        trace.message(number * MS, message)
    path = tmp_path / "made.pcap"
    path.write_bytes(trace.pcap())
    return path


def test_with_keys():
    found = shape(NAME, f"{NAME}.charon.log.gz")
    assert [one.describe() for one in found.proposals] == ["AES-GCM-16-256/HMAC-SHA2-384/ECP-384/ADDKE1:ML-KEM-768"]
    assert (found.key_exchange, found.nonce_bytes, found.additional) == (20, 32, True)
    assert [kind for kind, _ in found.notifies] == [16430, 16431, 16406, 16438]
    assert dict(found.notifies)[16431] == bytes.fromhex("0002000300040005")
    assert (found.identity_i.data, found.identity_r.data) == (b"ini", b"res")
    assert [one.describe() for one in found.selectors_i] == ["10.1.0.1/32"]
    assert [one.describe() for one in found.selectors_r] == ["10.2.0.1/32"]
    assert all(one.protocol == 3 for one in found.esp_proposals)
    assert (found.auth_initiator, found.eap) == ("psk", None)
    assert [kind for kind, _ in found.auth_notifies] == [16396, 16399, 16404, 16417, 16420]
    assert found.left_out == ("INITIAL_CONTACT",)
    assert found.guessed == ()
    assert not found.asks_certificates


def test_the_size_of_fragments_is_that_of_the_recorded_ones():
    """tshark -T fields -e isakmp.length: 1248 and 66 are the fragments of the IKE_INTERMEDIATE request."""
    from tests.wire.recorded import ike_messages

    sizes = [len(ike_message) for ike_message in ike_messages(NAME) if ike_message[16] == ike.SKF]
    assert shape(NAME).fragment_size == max(sizes)


def test_without_keys():
    result = shape(NAME)
    assert result.identity_i is result.identity_r is None
    assert (result.esp_proposals, result.selectors_i) == (DEFAULT_ESP, ALL_ADDRESSES)
    assert result.guessed == (
        "auth_initiator", "identity_i", "identity_r", "esp_proposals", "selectors_i", "selectors_r",
    )  # fmt: skip
    assert result.auth_initiator == "psk"  # by the size of its messages
    assert result.notifies == shape(NAME, f"{NAME}.charon.log.gz").notifies


def signed_by(algorithm, *, pss):
    """An AUTH payload's body: method 14, and an AlgorithmIdentifier as the library writes it into a certificate."""
    key, name, today = rsa.generate_private_key(65537, 2048), x509.Name([]), dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(today)
        .not_valid_after(today + dt.timedelta(1))
        .sign(
            key,
            algorithm,
            rsa_padding=padding.PSS(padding.MGF1(algorithm), 32) if pss else padding.PKCS1v15(),
        )
    )
    after = made.public_bytes(serialization.Encoding.DER)[4 + len(made.tbs_certificate_bytes) :]
    identifier = after[: 2 + after[1]]
    return bytes((14, 0, 0, 0, len(identifier))) + identifier + made.signature


@pytest.mark.parametrize(("pss", "told"), [(False, []), (True, ["RSASSA-PSS with SHA2-256"])])
def test_a_signature_that_ours_is_not_like_is_named(pss, told):
    result = []
    analysis = read_captures(
        CAPTURES / "lab" / "rsa-chain3.pcapng",
        ReadOptions(
            keys=[CAPTURES / "lab" / "rsa-chain3.keys.json"],
            payloads=True,
            on_contents=lambda *of: result.extend(collect_ike_sas(*of, ())),
        ),
    )
    (sa,) = result
    body = signed_by(hashes.SHA256(), pss=pss)

    def changed(message):
        payloads = [
            replace(payload, body=body) if payload.type == 39 else payload for payload in message.content.payloads
        ]
        return replace(message, content=replace(message.content, payloads=tuple(payloads)))

    left_out = extract_shape(replace(sa, messages=tuple(map(changed, sa.messages))), analysis).left_out
    assert [item.split(" (")[0] for item in left_out if item.startswith("RSA")] == told


def test_eap():
    found = shape("eap-md5-radius", "eap-md5-radius.charon.log.gz")
    assert (found.auth_initiator, found.eap) == ("eap", "EAP-MD5")
    assert found.identity_i.data == b"ini"
    assert found.guessed == ("fragment_size",)


def test_the_first_request_counts():
    """invalid-ke: the initiator began with another method than it ended with; the recorded cookie is not used again."""
    result = shape("invalid-ke")
    assert result.key_exchange != 20
    assert result.key_exchange in [transform.id for transform in result.proposals[0].transforms if transform.type == 4]


@pytest.mark.parametrize("switch", [False, True])
@pytest.mark.parametrize("fragments", [1, 3])
def test_ports_and_fragments(tmp_path, switch, fragments):
    made = Handshake(switch=switch, proposals=[ike.HYBRID])
    messages = made.setup(intermediate=[(fragments, 1)])
    _, result = read_shape(written(tmp_path, messages))
    assert result.floats == switch
    cut = [len(data) for message in messages for data in message.ike if data[16] == ike.SKF]
    whole = [len(data) for message in messages for data in message.ike if message.from_initiator and data[16] == ike.SK]
    assert max(whole) == (200 + 57 if cut else 1249)  # what was sent whole may be so again
    assert result.fragment_size == (max(cut) if cut else 1249)
    assert ("fragment_size" in result.guessed) == (not cut)


def test_a_cookie_is_not_said_again(tmp_path):
    made = Handshake(notifies=[ike.notify(16435), ike.notify(40000, b"x")])
    _, result = read_shape(written(tmp_path, made.setup(before="COOKIE")))
    assert ike.COOKIE not in dict(result.notifies)
    assert result.left_out == ("USE_PPK", "status notify 40000")


def test_without_fragmentation(tmp_path):
    spi = b"I" * 8
    init = ike.message(
        spi,
        bytes(8),
        34,
        ike.INITIATOR,
        0,
        [ike.sa([ike.CLASSIC]), ike.ke(19, bytes(64)), ike.nonce(bytes(20))],
    )
    path = tmp_path / "one.pcap"
    path.write_bytes(pcap([Packet(0, link.ethernet(udp_packet(init, 500, 500)))]))
    number, result = read_shape(path)
    assert number == 1
    assert (result.fragment_size, result.nonce_bytes, result.notifies) == (None, 20, ())


def test_which_handshake():
    path = CAPTURES / "loss20-classic.pcap"
    assert read_shape(path, 7)[0] == 7
    with pytest.raises(CannotReplayError, match="no IKEv2 handshake 99 with an IKE_SA_INIT request"):
        read_shape(path, 99)


def test_what_cannot_be_re_enacted(tmp_path):
    with pytest.raises(CannotReplayError, match="no IKEv2 handshake"):
        read_shape(CAPTURES / "ikev1-xauth.pcap")
    with pytest.raises(CannotReplayError, match=r"missing\.pcap: no such file"):
        read_shape(tmp_path / "missing.pcap")
    init = ike.message(b"I" * 8, bytes(8), 34, ike.INITIATOR, 0, [ike.nonce(bytes(20))])
    path = tmp_path / "one.pcap"
    path.write_bytes(pcap([Packet(0, link.ethernet(udp_packet(init, 500, 500)))]))
    with pytest.raises(CannotReplayError, match="no proposal or no key exchange"):
        read_shape(path)


def test_damaged_requests(tmp_path):
    """Whatever is recorded: there is a shape that can be offered, or a line that says why not."""
    whole = Handshake(proposals=[ike.HYBRID, ike.CLASSIC]).init()[0].datagrams[0]
    path, begun, reported = tmp_path / "one.pcap", 0, []
    for seed in range(60):
        random = Random(seed)
        data = bytearray(whole)
        for _ in range(random.randrange(1, 6)):
            data[random.randrange(28, len(data))] = random.choice([0, 1, 33, 41, 255])
        path.write_bytes(pcap([Packet(0, link.ethernet(udp_packet(bytes(data))))]))
        try:
            _, result = read_shape(path)
            begun += bool(initiator(result).begin(0).send)
        except CannotReplayError as problem:
            reported.append(str(problem))
    assert begun > 10
    assert reported
    assert not any("\n" in item for item in reported)

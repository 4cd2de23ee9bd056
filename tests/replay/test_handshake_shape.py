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


def write_capture(tmp_path, messages):
    trace = Trace()
    for number, message in enumerate(messages):
        trace.message(number * MS, message)
    path = tmp_path / "made.pcap"
    path.write_bytes(trace.pcap())
    return path


def test_keys_give_the_shape_of_encrypted_messages():
    result = shape(NAME, f"{NAME}.charon.log.gz")
    assert [proposal.describe() for proposal in result.proposals] == [
        "AES-GCM-16-256/HMAC-SHA2-384/ECP-384/ADDKE1:ML-KEM-768"
    ]
    assert (result.key_exchange, result.nonce_bytes, result.additional) == (20, 32, True)
    assert [kind for kind, _ in result.notifies] == [16430, 16431, 16406, 16438]
    assert dict(result.notifies)[16431] == bytes.fromhex("0002000300040005")
    assert (result.identity_i.data, result.identity_r.data) == (b"ini", b"res")
    assert [selector.describe() for selector in result.selectors_i] == ["10.1.0.1/32"]
    assert [selector.describe() for selector in result.selectors_r] == ["10.2.0.1/32"]
    assert all(proposal.protocol == 3 for proposal in result.esp_proposals)
    assert (result.auth_initiator, result.eap) == ("psk", None)
    assert [kind for kind, _ in result.auth_notifies] == [16396, 16399, 16404, 16417, 16420]
    assert result.left_out == ("INITIAL_CONTACT",)
    assert result.guessed == ()
    assert not result.asks_certificates


def test_the_size_of_fragments_is_that_of_the_recorded_ones():
    """tshark -T fields -e isakmp.length: 1248 and 66 are the fragments of the IKE_INTERMEDIATE request."""
    from tests.wire.recorded import ike_messages

    sizes = [len(ike_message) for ike_message in ike_messages(NAME) if ike_message[16] == ike.SKF]
    assert shape(NAME).fragment_size == max(sizes)


def test_without_keys_the_encrypted_part_is_guessed():
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


@pytest.mark.parametrize(("pss", "reported"), [(False, []), (True, ["RSASSA-PSS with SHA2-256"])])
def test_a_signature_scheme_that_the_replay_lacks_is_reported(pss, reported):
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

    def replace_auth(message):
        payloads = [
            replace(payload, body=body) if payload.type == 39 else payload for payload in message.content.payloads
        ]
        return replace(message, content=replace(message.content, payloads=tuple(payloads)))

    left_out = extract_shape(replace(sa, messages=tuple(map(replace_auth, sa.messages))), analysis).left_out
    assert [item.split(" (")[0] for item in left_out if item.startswith("RSA")] == reported


def test_eap_method_and_identity_are_those_of_the_log():
    result = shape("eap-md5-radius", "eap-md5-radius.charon.log.gz")
    assert (result.auth_initiator, result.eap) == ("eap", "EAP-MD5")
    assert result.identity_i.data == b"ini"
    assert result.guessed == ("fragment_size",)


def test_the_first_ike_sa_init_request_gives_the_key_exchange():
    """invalid-ke: the initiator began with another method than it ended with; the recorded cookie is not used again."""
    result = shape("invalid-ke")
    assert result.key_exchange != 20
    assert result.key_exchange in [transform.id for transform in result.proposals[0].transforms if transform.type == 4]


@pytest.mark.parametrize("switch", [False, True])
@pytest.mark.parametrize("fragments", [1, 3])
def test_port_change_and_fragment_size_are_those_of_the_capture(tmp_path, switch, fragments):
    made = Handshake(switch=switch, proposals=[ike.HYBRID])
    messages = made.setup(intermediate=[(fragments, 1)])
    _, result = read_shape(write_capture(tmp_path, messages))
    assert result.floats == switch
    cut = [len(data) for message in messages for data in message.ike if data[16] == ike.SKF]
    whole = [len(data) for message in messages for data in message.ike if message.from_initiator and data[16] == ike.SK]
    assert max(whole) == (200 + 57 if cut else 1249)  # messages up to this size are sent without fragments again
    assert result.fragment_size == (max(cut) if cut else 1249)
    assert ("fragment_size" in result.guessed) == (not cut)


def test_the_recorded_cookie_is_not_sent_again(tmp_path):
    made = Handshake(notifies=[ike.notify(16435), ike.notify(40000, b"x")])
    _, result = read_shape(write_capture(tmp_path, made.setup(before="COOKIE")))
    assert ike.COOKIE not in dict(result.notifies)
    assert result.left_out == ("USE_PPK", "status notify 40000")


def test_an_initiator_without_fragmentation_has_no_fragment_size(tmp_path):
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


def test_the_handshake_is_selected_by_its_number():
    path = CAPTURES / "loss20-classic.pcap"
    assert read_shape(path, 7)[0] == 7
    with pytest.raises(CannotReplayError, match="no IKEv2 handshake 99 with an IKE_SA_INIT request"):
        read_shape(path, 99)


def test_captures_without_a_usable_ike_sa_init_request_are_refused(tmp_path):
    with pytest.raises(CannotReplayError, match="no IKEv2 handshake"):
        read_shape(CAPTURES / "ikev1-xauth.pcap")
    with pytest.raises(CannotReplayError, match=r"missing\.pcap: no such file"):
        read_shape(tmp_path / "missing.pcap")
    init = ike.message(b"I" * 8, bytes(8), 34, ike.INITIATOR, 0, [ike.nonce(bytes(20))])
    path = tmp_path / "one.pcap"
    path.write_bytes(pcap([Packet(0, link.ethernet(udp_packet(init, 500, 500)))]))
    with pytest.raises(CannotReplayError, match="no proposal or no key exchange"):
        read_shape(path)


def test_a_damaged_request_gives_a_shape_or_an_error_of_one_line(tmp_path):
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

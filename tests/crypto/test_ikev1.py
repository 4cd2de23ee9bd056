"""IKEv1 against a daemon's log, and against messages that the test encrypts by the RFC's text."""

import hashlib
import os
import subprocess
from dataclasses import dataclass, field
from random import Random

import pytest
from cryptography.hazmat.decrepit.ciphers.algorithms import CAST5, Blowfish, Camellia, TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.crypto.ikev1 import Phase1Decryptor
from ikeanalyze.crypto.sk_payload import DecryptedMessage, UnusableKeyError
from ikeanalyze.wire.ikev1.message import parse_ikev1_payloads
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads
from ikeanalyze.wire.registries.ikev1_phase1 import Phase1Encryption, Phase1Hash
from tests.craft import Packet, ikev1, link, pcap, udp_packet
from tests.craft.ike import chain
from tests.keys.dumps import contents, excerpt
from tests.wire.recorded import ike_messages

TRANSACTION = 6
COOKIE_I, COOKIE_R = b"cookie-i", b"cookie-r"
PUBLIC_I, PUBLIC_R = b"g^xi" * 32, b"g^xr" * 32
# by hash: its name, the bytes of its output
HASHES = {
    Phase1Hash.MD5: ("md5", 16),
    Phase1Hash.SHA1: ("sha1", 20),
    Phase1Hash.SHA2_256: ("sha256", 32),
    Phase1Hash.SHA2_384: ("sha384", 48),
    Phase1Hash.SHA2_512: ("sha512", 64),
}
# by cipher: bytes of the key, of a block, the library's cipher
CIPHERS = {
    Phase1Encryption.DES_CBC: (8, 8, lambda key: TripleDES(key * 3)),
    Phase1Encryption.TRIPLE_DES_CBC: (24, 8, TripleDES),
    Phase1Encryption.BLOWFISH_CBC: (32, 8, Blowfish),
    Phase1Encryption.CAST_CBC: (16, 8, CAST5),
    Phase1Encryption.AES_CBC: (32, 16, AES),
    Phase1Encryption.CAMELLIA_CBC: (16, 16, Camellia),
}


def recorded_opener() -> Phase1Decryptor:
    messages = ike_messages("ikev1-xauth")
    public = [
        payload.body
        for message in messages
        for payload in parse_ikev1_payloads(message).payloads
        if payload.type == ikev1.KE
    ]
    (key,) = contents(excerpt("ikev1-xauth"), "encryption key Ka")
    return Phase1Decryptor(key, Phase1Encryption.AES_CBC, Phase1Hash.SHA2_256, *public)


def test_a_recorded_handshake_is_decrypted():
    """Payloads as the daemon's log names them: ID_PROT [ ID HASH N(INITIAL_CONTACT) ] and so on."""
    opener, blocks, result = recorded_opener(), [], []
    for message in ike_messages("ikev1-xauth"):
        if not message[19] & ikev1.ENCRYPTED:
            assert opener.decrypt(message) is None
            continue
        opened = opener.decrypt(message)
        inside = parse_decrypted_payloads(opened.plaintext, opened.first)
        assert (inside.error, opened.verified) == (None, False)
        result.append((message[18], [payload.type for payload in inside.payloads]))
        blocks.append(message[-16:])
    quick = [ikev1.HASH, ikev1.SA, ikev1.NONCE, ikev1.ID, ikev1.ID]
    assert result == [
        (ikev1.MAIN_MODE, [ikev1.ID, ikev1.HASH, ikev1.NOTIFY]),
        (ikev1.MAIN_MODE, [ikev1.ID, ikev1.HASH]),
        *[(TRANSACTION, [ikev1.HASH, 14])] * 4,  # XAuth: attributes
        (ikev1.QUICK_MODE, quick),
        (ikev1.QUICK_MODE, quick),
        (ikev1.QUICK_MODE, [ikev1.HASH]),
        *[(ikev1.INFORMATIONAL, [ikev1.HASH, ikev1.DELETE])] * 2,
    ]
    # the daemon's "next IV" are the last blocks, but for the messages that nothing follows in their exchange
    logged = [content for label, content in excerpt("ikev1-xauth") if label.startswith("next IV for MID")]
    assert set(blocks[:-2]) <= set(logged)


def test_a_wrong_key_gives_nothing():
    messages = ike_messages("ikev1-xauth")
    public = [
        payload.body
        for message in messages
        for payload in parse_ikev1_payloads(message).payloads
        if payload.type == ikev1.KE
    ]
    for number in range(20):
        opener = Phase1Decryptor(Random(number).randbytes(16), Phase1Encryption.AES_CBC, Phase1Hash.SHA2_256, *public)
        assert not any(opener.decrypt(message) for message in messages)


@dataclass(slots=True)
class Sender:
    """Encrypts as RFC 2409, appendix B says."""

    encryption: int = Phase1Encryption.AES_CBC
    hash: int = Phase1Hash.SHA1
    ivs: dict[int, bytes] = field(default_factory=dict)

    @property
    def key(self) -> bytes:
        return Random(self.encryption).randbytes(CIPHERS[self.encryption][0])

    def digest(self, data: bytes) -> bytes:
        return hashlib.new(HASHES[self.hash][0], data).digest()[: CIPHERS[self.encryption][1]]

    def send(
        self, exchange_type: int, message_id: int, inside: list[tuple[int, bytes]], padding: bytes | None = None
    ) -> bytes:
        _, block, cipher = CIPHERS[self.encryption]
        self.ivs.setdefault(0, self.digest(PUBLIC_I + PUBLIC_R))
        iv = self.ivs.get(message_id) or self.digest(self.ivs[0] + message_id.to_bytes(4, "big"))
        first, data = chain(inside)
        data += bytes(-len(data) % block) if padding is None else padding
        body = Cipher(cipher(self.key), CBC(iv)).encryptor().update(data)
        self.ivs[message_id] = body[-block:]
        return ikev1.encrypted(COOKIE_I, COOKIE_R, exchange_type, first, body, message_id)

    def hash_payload(self) -> tuple[int, bytes]:
        return ikev1.HASH, bytes(HASHES[self.hash][1])

    def opener(self) -> Phase1Decryptor:
        return Phase1Decryptor(self.key, self.encryption, self.hash, PUBLIC_I, PUBLIC_R)

    def handshake(self) -> list[bytes]:
        """Two messages of main mode, three of quick mode, one informational."""
        name = (ikev1.ID, b"\x02\0\0\0gateway.example")
        proposal = [self.hash_payload(), (ikev1.SA, bytes(40)), (ikev1.NONCE, bytes(range(32)))]
        return [
            self.send(ikev1.MAIN_MODE, 0, [name, self.hash_payload()]),
            self.send(ikev1.MAIN_MODE, 0, [name, self.hash_payload()]),
            self.send(ikev1.QUICK_MODE, 7777, proposal),
            self.send(ikev1.QUICK_MODE, 7777, proposal),
            self.send(ikev1.QUICK_MODE, 7777, [self.hash_payload()]),
            self.send(ikev1.INFORMATIONAL, 8888, [self.hash_payload(), (ikev1.DELETE, bytes(8))]),
        ]


def types_of(opened: DecryptedMessage | None) -> list[int] | None:
    return opened and [payload.type for payload in parse_decrypted_payloads(opened.plaintext, opened.first).payloads]


QUICK = [ikev1.HASH, ikev1.SA, ikev1.NONCE]
EXPECTED = [
    [ikev1.ID, ikev1.HASH], [ikev1.ID, ikev1.HASH], QUICK, QUICK, [ikev1.HASH], [ikev1.HASH, ikev1.DELETE],
]  # fmt: skip


@pytest.mark.parametrize("encryption", CIPHERS)
@pytest.mark.parametrize("hash_algorithm", HASHES)
def test_messages_of_every_algorithm_are_decrypted(encryption, hash_algorithm):
    sender = Sender(encryption, hash_algorithm)
    opener = sender.opener()
    assert [types_of(opener.decrypt(message)) for message in sender.handshake()] == EXPECTED


@pytest.mark.parametrize("counts_itself", [True, False], ids=["counts itself", "counts the bytes before it"])
@pytest.mark.parametrize("blocks", [0, 1, 2, 20])
def test_random_padding_of_several_blocks(blocks, counts_itself):
    """As `randomize_padlen` of racoon's configuration makes it, which iOS, macOS and old Android have on."""
    sender = Sender()
    opener = sender.opener()
    for message in sender.handshake()[:2]:
        opener.decrypt(message)
    inside = [sender.hash_payload(), (ikev1.NOTIFY, bytes(12))]
    size = -len(chain(inside)[1]) % 16 + 16 * blocks
    padding = Random(blocks).randbytes(size - 1) + bytes([(size - (not counts_itself)) % 256])
    message = sender.send(ikev1.INFORMATIONAL, 4321, inside, padding)
    assert types_of(opener.decrypt(message)) == [ikev1.HASH, ikev1.NOTIFY]


def test_bytes_after_the_payloads_that_are_not_padding():
    sender = Sender()
    opener = sender.opener()
    inside = [sender.hash_payload(), (ikev1.NOTIFY, bytes(12))]
    size = -len(chain(inside)[1]) % 16 + 32
    assert opener.decrypt(sender.send(ikev1.INFORMATIONAL, 4321, inside, bytes(size))) is None


def test_retransmissions_and_other_orders():
    sender = Sender()
    sent, opener = sender.handshake(), sender.opener()
    order = [0, 0, 1, 0, 1, 2, 5, 2, 3, 1, 3, 4, 2, 4, 5]
    assert [types_of(opener.decrypt(sent[at])) for at in order] == [EXPECTED[at] for at in order]


def test_messages_after_a_lost_one_cannot_be_decrypted_until_the_next_iv():
    sender = Sender()
    sent = sender.handshake()
    # the IV is the block before: without that message, this one is closed and the next is open
    opener = sender.opener()
    assert [types_of(opener.decrypt(sent[at])) for at in (1, 2, 4, 5)] == [None, QUICK, None, EXPECTED[5]]
    opener = sender.opener()
    assert [types_of(opener.decrypt(sent[at])) for at in (0, 1, 3, 4)] == [*EXPECTED[:2], None, EXPECTED[4]]


def test_a_new_exchange_while_another_goes_on():
    sender, opener = Sender(), Sender().opener()
    first = [opener.decrypt(message) for message in sender.handshake()[:3]]
    assert all(first)
    hashed = [sender.hash_payload(), (ikev1.NOTIFY, bytes(12))]
    assert types_of(opener.decrypt(sender.send(ikev1.INFORMATIONAL, 4321, hashed))) == [ikev1.HASH, ikev1.NOTIFY]
    assert types_of(opener.decrypt(sender.send(TRANSACTION, 99, [sender.hash_payload(), (14, bytes(4))]))) == [
        8,
        14,
    ]


@pytest.mark.parametrize(
    ("exchange_type", "inside"),
    [
        (ikev1.MAIN_MODE, [(ikev1.HASH, bytes(20))]),  # no identification first
        (ikev1.QUICK_MODE, [(ikev1.SA, bytes(40))]),  # no hash first
        (ikev1.QUICK_MODE, [(ikev1.HASH, bytes(16))]),  # a hash of another length
        (ikev1.QUICK_MODE, [(ikev1.HASH, bytes(20)), (99, bytes(8))]),  # no such payload
        (ikev1.QUICK_MODE, []),
    ],
)
def test_implausible_plaintext_is_rejected(exchange_type, inside):
    sender = Sender()
    opener = sender.opener()
    sender.send(ikev1.MAIN_MODE, 0, [(ikev1.ID, bytes(8))])
    message_id = 0 if exchange_type == ikev1.MAIN_MODE else 5
    assert opener.decrypt(sender.send(exchange_type, message_id, inside)) is None


def test_other_and_truncated_messages_are_not_decrypted():
    opener = Sender().opener()
    message = Sender().handshake()[0]
    assert opener.decrypt(message) is not None
    assert opener.decrypt(message[:-1]) is None
    assert opener.decrypt(message[:27]) is None
    assert opener.decrypt(message[:17] + b"\x20" + message[18:]) is None  # IKEv2
    assert opener.decrypt(message[:19] + b"\0" + message[20:]) is None  # not encrypted
    assert opener.decrypt(ikev1.encrypted(COOKIE_I, COOKIE_R, 2, 5, b"")) is None
    assert opener.decrypt(ikev1.encrypted(COOKIE_I, COOKIE_R, 2, 5, bytes(17))) is None


@pytest.mark.parametrize(
    ("encryption", "hash_algorithm", "key", "reason"),
    [
        (Phase1Encryption.IDEA_CBC, Phase1Hash.SHA1, bytes(16), "IDEA-CBC is not supported"),
        (Phase1Encryption.CAST_CBC, Phase1Hash.SHA1, bytes(17), "17 bytes, CAST-CBC takes 5 to 16"),
        (Phase1Encryption.AES_CBC, Phase1Hash.TIGER, bytes(16), "TIGER is not known"),
        (Phase1Encryption.AES_CBC, 99, bytes(16), "99 is not known"),
        (Phase1Encryption.AES_CBC, Phase1Hash.SHA1, b"fifteen of bytes"[:15], "15 bytes, AES-CBC takes 16 or 24 or 32"),
        (Phase1Encryption.TRIPLE_DES_CBC, Phase1Hash.SHA1, bytes(8), "8 bytes, 3DES-CBC takes 24"),
    ],
)
def test_unusable_keys_raise_without_the_secret(encryption, hash_algorithm, key, reason):
    with pytest.raises(UnusableKeyError, match=reason) as caught:
        Phase1Decryptor(key, encryption, hash_algorithm, b"", b"")
    assert "fifteen" not in str(caught.value)


@given(st.binary(max_size=100), st.sampled_from([2, 4, 5, 6, 32]), st.integers(0, 2))
def test_random_bytes_raise_nothing(body, exchange_type, message_id):
    opener = Sender().opener()
    opener.decrypt(body)
    opener.decrypt(ikev1.encrypted(COOKIE_I, COOKIE_R, exchange_type, 8, body, message_id))


def test_ivs_of_a_flood_are_bounded():
    sender = Sender()
    sent, opener = sender.handshake(), sender.opener()
    assert [types_of(opener.decrypt(message)) for message in sent[:2]] == EXPECTED[:2]
    rng = Random(1)
    for number in range(5000):
        noise = rng.randbytes(16)
        assert opener.decrypt(ikev1.encrypted(COOKIE_I, COOKIE_R, 32, 8, noise, number)) is None
        assert opener.decrypt(ikev1.encrypted(COOKIE_I, COOKIE_R, 32, 8, noise, 7777)) is None
    assert len(opener._exchanges) <= 1024
    assert types_of(opener.decrypt(sent[2])) == QUICK


@pytest.mark.tshark
@pytest.mark.parametrize(
    "encryption", [Phase1Encryption.DES_CBC, Phase1Encryption.TRIPLE_DES_CBC, Phase1Encryption.AES_CBC]
)
def test_tshark_decrypts_the_same_messages(tmp_path, encryption):
    """The messages of this test are IKEv1's: tshark, which learns the algorithms from SA, reads them too."""
    sender = Sender(encryption, Phase1Hash.SHA1)
    bits = [(14, 256)] if encryption == Phase1Encryption.AES_CBC else []
    proposal = [ikev1.sa([(1, encryption), *bits, (2, Phase1Hash.SHA1), (4, 2), (3, 1)])]
    clear = [
        ikev1.message(COOKIE_I, bytes(8), ikev1.MAIN_MODE, proposal),
        ikev1.message(COOKIE_I, COOKIE_R, ikev1.MAIN_MODE, proposal),
        ikev1.message(COOKIE_I, COOKIE_R, ikev1.MAIN_MODE, [(ikev1.KE, PUBLIC_I), (ikev1.NONCE, bytes(16))]),
        ikev1.message(COOKIE_I, COOKIE_R, ikev1.MAIN_MODE, [(ikev1.KE, PUBLIC_R), (ikev1.NONCE, bytes(16))]),
    ]
    sent = sender.handshake()[:2]
    (tmp_path / "ikev1_decryption_table").write_text(f"{COOKIE_I.hex()},{sender.key.hex()}\n")
    ends = ("192.0.2.1", "192.0.2.2")
    packets = [
        Packet(at, link.ethernet(udp_packet(message, 500, 500, *(ends if at % 2 == 0 else ends[::-1]))))
        for at, message in enumerate([*clear, *sent])
    ]
    (tmp_path / "phase1.pcap").write_bytes(pcap(packets))
    command = [
        "tshark",
        "-n",
        "-r",
        str(tmp_path / "phase1.pcap"),
        "-Tfields",
        "-eisakmp.id.data.fqdn",
        "-eisakmp.hash",
    ]
    environment = {**os.environ, "WIRESHARK_CONFIG_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    *_, fifth, sixth = done.stdout.splitlines()
    assert fifth.split("\t")[0] == "gateway.example"
    assert sixth.split("\t")[0] == "gateway.example"
    opener = sender.opener()
    assert [types_of(opener.decrypt(message)) for message in sent] == EXPECTED[:2]

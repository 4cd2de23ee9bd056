"""A responder with the right keys that says anything: the initiator ends, and raises nothing."""

from random import Random

import pytest

from tests.craft import eap, ike
from tests.replay.driving import Wire, credentials, initiator, shape
from tests.replay.responder import ML_KEM_768, X25519, Responder

EAP = credentials(eap_identity="carol", eap_password="tuna")


class Changing(Responder):
    """Changes what is inside of its encrypted messages, and in clear ones, by chance."""

    def __init__(self, seed, **more):
        super().__init__(**more)
        self.random = Random(seed)

    def spoil(self, data):
        changed = bytearray(data)
        for _ in range(self.random.randrange(1, 4)):
            if changed:
                changed[self.random.randrange(len(changed))] = self.random.choice([0, 1, 4, 24, 41, 255])
        return (
            bytes(changed[: self.random.randrange(len(changed) + 1)]) if self.random.random() < 0.2 else bytes(changed)
        )

    def encrypt_message(self, exchange, ident, first, chain, keys=None, flags=0x20):
        if self.random.random() < 0.6:
            first = self.random.choice([first, 0, 41, 48, 255])
            chain = self.spoil(chain)
        return super().encrypt_message(exchange, ident, first, chain, keys, flags)

    def _init(self, spi_i, data, payloads):
        message = super()._init(spi_i, data, payloads)
        if self.random.random() < 0.5:
            body = self.spoil(message[28:])
            return message[:24] + (28 + len(body)).to_bytes(4) + body
        return message


@pytest.mark.parametrize("method", ["psk", "eap"])
def test_whatever_it_says_there_is_an_end(method):
    reasons = set()
    for seed in range(150):
        responder = Changing(
            seed,
            md5_password=b"tuna" if method == "eap" else None,
            fragment_size=Random(seed).choice([None, 200]),
        )
        shape_ = shape(X25519, ML_KEM_768, auth_initiator=method)
        wire = Wire(initiator(shape_, EAP), responder.answer)
        try:
            result = wire.begin()
            wire.close()
        except Exception as problem:
            # the test's responder may be confused by the results of its malformed messages; the initiator may not
            frames, trace = [], problem.__traceback__
            while trace:
                frames.append(trace.tb_frame.f_code.co_filename)
                trace = trace.tb_next
            assert frames[-1].endswith("responder.py"), frames
            continue
        assert result.established != bool(result.reason)
        reasons.add(result.reason)
    assert len(reasons) > 5


def test_eap_packets_of_any_kind():
    for seed in range(100):
        random = Random(seed)

        def anything(packet, random=random):
            if random.random() < 0.5:
                return random.randbytes(random.randrange(40))
            return eap.eap(
                random.randrange(6),
                random.randrange(256),
                random.choice([1, 2, 4, 26, 254]),
                random.randbytes(random.randrange(60)),
            )

        responder = Responder(md5_password=b"tuna")
        responder._eap = anything
        result = Wire(initiator(shape(auth_initiator="eap"), EAP), responder.answer).begin()
        assert not result.established
        assert "tuna" not in result.reason


@pytest.mark.parametrize("size", [0, 65, 60_000])
def test_cookies_of_a_size_that_is_not_allowed(size):
    refusal = ike.notify(ike.COOKIE, bytes(size))
    result = Wire(initiator(), lambda data: [ike.message(data[:8], bytes(8), 34, 0x20, 0, [refusal])]).begin()
    assert result.reason == f"a COOKIE of {size} bytes; 1 to 64 are allowed"


def test_fragments_too_small_for_anything():
    result = Wire(initiator(shape(fragment_size=60)), Responder().answer).begin()
    assert "have no room" in result.reason
    result = Wire(initiator(shape(X25519, ML_KEM_768, fragment_size=65)), Responder().answer).begin()
    assert "need more than 256" in result.reason

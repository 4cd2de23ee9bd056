"""Real messages, spoilt in every way that comes to mind: no exception, and no more time and text than they are worth.

The cases are the same in each run.
"""

from random import Random
from time import process_time

import pytest

from ikeanalyze.wire.eap.packet import get_eap_method
from ikeanalyze.wire.hip.packet import parse_hip
from ikeanalyze.wire.ikev1 import message as version1
from ikeanalyze.wire.ikev1.describe import describe_ikev1_payloads
from ikeanalyze.wire.ikev1.message import parse_ikev1_fragment as ikev1_fragment_of
from ikeanalyze.wire.ikev1.message import parse_phase1_message
from ikeanalyze.wire.ikev1.proposals import parse_ikev1_sa
from ikeanalyze.wire.ikev2.checks import check_payload_chain
from ikeanalyze.wire.ikev2.describe import describe_payloads
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads, parse_fragment_header, parse_init, parse_payloads
from ikeanalyze.wire.ikev2.proposals import parse_sa
from ikeanalyze.wire.payload_chain import Payload
from ikeanalyze.wire.radius import parse_radius
from tests.craft import Handshake, eap, ike, ikev1
from tests.wire.opened import opened
from tests.wire.recorded import NAMES, ike_messages
from tests.wire.x509.test_certificates import MADE

CASES = 10_000
#: Processor time in ms for a message of 64 KiB: ten times that of a usual machine.
MOST_MS = 2000


def clear_messages():
    """Every form of clear message that the recordings and the crafted handshakes have."""
    result = {}
    for name in NAMES:
        for message in ike_messages(name):
            if message[18] == ike.IKE_SA_INIT:
                result.setdefault((message[16], len(message)), message)
    shake = Handshake(5, proposals=(ike.HYBRID,))
    for message in shake.setup(before="both", intermediate=[(2, 1)]):
        result.setdefault(message.name, message.ike[0])
    result["main mode"], *_ = ikev1.main_mode(Random(3))
    result["aggressive mode"], *_ = ikev1.aggressive_mode(Random(4))
    return list(result.values())


def inner_chains():
    """First payload and bytes of what was inside encrypted messages, and of payloads that those do not have."""
    result = [(message.first, message.inside) for name in NAMES for message in opened(name)[:10]]
    certificate = ike.CERT, b"\x04" + (MADE / "mldsa44.der").read_bytes()
    configuration = (
        ike.CONFIGURATION,
        b"\x02\0\0\0\0\x01\0\x04\x0a\0\0\5\0\x0e\0\4\0\1\0\3\0\x08\0\x11" + bytes(17),
    )
    aka = ike.EAP, eap.eap(1, 3, 23, b"\1\0\0\x01\5" + bytes(18) + b"\x0e\2\0\3abc\0")
    mschap = ike.EAP, eap.eap(2, 3, 26, b"\2\1\0\x3b\x31" + bytes(49) + b"user")
    tls = ike.EAP, eap.eap(2, 3, 13, b"\xc0\0\0\x10\0" + bytes(50))
    notifies = [
        ike.notify(kind, bytes(range(24))) for kind in (1, 17, 16387, 16402, 16407, 16416, 16434, 16436, 16443, 41101)
    ]
    for payload in (certificate, configuration, aka, mschap, tls):
        result.append(ike.chain([payload, *notifies, ike.delete(3, [b"1234"] * 3)]))
    return result


def spoilt(data, rng):
    """Some bytes flipped, set, cut, doubled or put in."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(6):
            case 0 if changed:
                changed[at - 1] ^= 1 << rng.randrange(8)
            case 1 if changed:
                changed[at - 1] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del changed[at : at + rng.randrange(40)]
            case 3:
                changed[at:at] = rng.randbytes(rng.randrange(1, 20))
            case 4:
                changed[at : at + 2] = rng.choice((b"\0\0", b"\xff\xff", b"\0\4", b"\0\3"))
            case _:
                changed[at:at] = changed[at // 2 : at]
        del changed[70000:]
    return bytes(changed)


def look_at(chain):
    texts = describe_payloads(chain)
    inspected = check_payload_chain(chain, response=False, method=36)
    assert len(texts) == len(inspected.payloads) == len(chain.payloads)
    assert all(text.isprintable() for text in (*texts, *inspected.findings, *describe_ikev1_payloads(chain)))
    return texts, inspected


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2))
def test_corrupted_messages_are_parsed_in_bounded_time_and_text(seed):
    rng = Random(seed)
    sources = clear_messages()
    assert len(sources) > 10
    for _ in range(CASES // 2):
        data = spoilt(rng.choice(sources), rng)
        look_at(parse_payloads(data))
        look_at(version1.parse_ikev1_payloads(data))
        parse_init(data)
        parse_phase1_message(data)
        parse_fragment_header(data)
        ikev1_fragment_of(data)
        parse_radius(data)
        parse_hip(data)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2))
def test_corrupted_plaintext_is_parsed_in_bounded_time_and_text(seed):
    rng = Random(seed)
    sources = inner_chains()
    for _ in range(CASES // 2):
        first, data = rng.choice(sources)
        data = spoilt(data, rng)
        look_at(parse_decrypted_payloads(data, first if rng.random() < 0.9 else rng.randrange(256)))
        parse_ikev1_sa(data)
        get_eap_method([data[4:]])


def proposals(count):
    return b"\2\0\0\x08\1\1\0\1" * count


HOSTILE = {
    # an SA payload cannot have more of them in one message
    "8,000 proposals": ike.chain([(ike.SA, proposals(8000))]),
    "16,000 empty payloads": ike.chain([(201, b"")] * 16000),
    "6,000 notifies": ike.chain([ike.notify(16443, b"\2\2")] * 6000),
    "16,000 attributes": ike.chain([(ike.SA, b"\0\0\xff\xd8\1\1\0\1\0\0\xff\xd0\1\0\0\x0c" + b"\x80\x0e\1\0" * 16370)]),
    "16,000 configuration attributes": ike.chain([(ike.CONFIGURATION, b"\2\0\0\0" + b"\0\1\0\0" * 16000)]),
    "8,000 selectors": ike.chain([(ike.TS_I, b"\xff\0\0\0" + b"\xf1\0\0\x08\1\2\3\4" * 8000)]),
    "65,000 SPIs of a byte": ike.chain([(ike.DELETE, b"\3\1\xff\xff" + bytes(65000))]),
    "a name of 6,000 parts": ike.chain(
        [(ike.ID_I, b"\x09\0\0\0\x30\x83\0\xea\x60" + b"\x31\x08\x30\x06\x06\x01\x2a\x0c\x01x" * 6000)]
    ),
    "an object identifier without end": ike.chain([(ike.AUTH, b"\x0e\0\0\0\xff\x30\x81\xfc\x06\x81\xf9" + b"\x81" * 249)]),
    "sequences in sequences": ike.chain([(ike.CERT, b"\x04" + b"\x30\x82\xff\xf0" * 16000)]),
    "AKA attributes": ike.chain([(ike.EAP, eap.eap(1, 0, 23, b"\1\0\0" + b"\6\1\0\0" * 16000))]),
    "wishes": ike.chain([(ike.EAP, eap.eap(2, 0, 3, b"\x0d" * 65000))]),
    "65,535 fragments": ike.chain([(ike.SKF, b"\0\1\xff\xff" + bytes(16))]),
    "one byte in every payload": ike.chain([(kind % 256, b"\1") for kind in range(12000) if kind % 256 not in (0, 46, 53)]),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_malicious_messages_are_parsed_in_bounded_time_and_text(case):
    first, data = HOSTILE[case]
    begun = process_time()
    texts, inspected = look_at(parse_decrypted_payloads(data, first))
    assert (process_time() - begun) * 1000 < MOST_MS
    assert len(inspected.findings) <= 51
    # what is shown grows with the payloads that there are, not with what is in them
    assert sum(map(len, texts)) < 700 * len(texts)


def test_ten_thousand_proposals():
    begun = process_time()
    read = parse_sa(proposals(10000))
    assert (process_time() - begun) * 1000 < MOST_MS
    assert len(read.proposals) == 10000
    (inspected,) = check_payload_chain(parse_decrypted_payloads(*reversed(HOSTILE["8,000 proposals"]))).payloads
    assert inspected.findings == (
        "SA: 8000 proposals, more than the maximum of 255",
        "SA: 8000 of 8000 proposals have no transforms",
    )


def test_a_chain_that_comes_back_to_itself_ends():
    # every payload says that one of its own type follows: lengths bound it, not types
    chain = parse_decrypted_payloads(b"\x28\0\0\4" * 5000, 40)
    assert len(chain.payloads) == 5000
    assert chain.error is not None
    assert isinstance(chain.payloads[0], Payload)

"""Damaged captures with damaged keys, and hostile plaintext: whatever comes, the sums are right and it ends."""

import gzip
import struct
import tempfile
import time
from pathlib import Path
from random import Random

import pytest

from ikeanalyze.analysis.decryption.export import plan_decryption_edits
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.write.rewrite import rewrite_capture
from ikeanalyze.crypto.sk_payload import MessageCipher, encrypt_message
from ikeanalyze.wire.header import Header
from tests.analysis.analyse_captures import obey
from tests.analysis.decrypt_captures import look, payloads_add_up
from tests.analysis.encrypted_handshakes import CHILD, IDENTITIES, PSK, Sa, nameless, table
from tests.analysis.recorded_captures import LOGGED, followup_keys, log_of, xauth_keys
from tests.craft import SECOND, Trace, ike
from tests.paths import CAPTURES

KEYS = {
    **dict.fromkeys(LOGGED, log_of),
    "pq-followup-ke": lambda _: followup_keys(),
    "ikev1-xauth": lambda _: xauth_keys(),
}
CASES = 14


def damaged(data: bytes, rng: Random, keep: int) -> bytes:
    """A few bytes changed, some cut out, the end lost; the first `keep` stay."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 12)):
        if len(data) <= keep:
            break
        at = rng.randrange(keep, len(data))
        match rng.randrange(4):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at : at + 2] = rng.choice([b"\xff\xff", b"\0\0", b"\0\x01"])
            case 2:
                del data[at : at + rng.randrange(1, 40)]
            case _:
                data[at:at] = data[rng.randrange(len(data)) :][: rng.randrange(60)]
    if rng.random() < 0.3:
        del data[rng.randrange(keep, max(len(data), keep + 1)) :]
    return bytes(data)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["psk-classic", "pq-mlkem768-psk", "eap-md5-radius", "pq-followup-ke", "ikev1-xauth"])
def test_damaged_captures_with_damaged_keys(name):
    """Through reading and rewriting: no exception but those that say that nothing can be read."""
    (path,) = CAPTURES.glob(f"{name}.pcap*")
    whole, keys = path.read_bytes(), KEYS[name](name).encode()
    rng = Random(name)
    with tempfile.TemporaryDirectory() as directory:
        capture, file, out = (Path(directory) / one for one in ("capture", "keys", "out"))
        for case in range(CASES):
            capture.write_bytes(damaged(whole, rng, 24) if case % 4 else whole)
            text = keys if case % 2 else damaged(keys, rng, 0)
            file.write_bytes(gzip.compress(text) if case % 3 == 0 else text)
            analysis = read_captures(capture, ReadOptions(keys=file, payloads=case % 5 == 0, cleartext=True))
            if not analysis.captures:
                continue
            obey(analysis)
            payloads_add_up(analysis)
            edits = plan_decryption_edits(analysis.frames, analysis.cleartexts)
            try:
                result = rewrite_capture(str(capture), str(out), edits.edits)
            except CaptureError:
                continue
            assert result.written == result.packets - result.removed + result.inserted
            assert result.packets == analysis.captures[0].packets


# ---- hostile plaintext: who has the keys may write what he wants


def hostile(first, plaintext, *, fragments=None):
    """A handshake whose IKE_AUTH request has these bytes inside."""
    sa = Sa(proposals=(ike.CLASSIC,))
    messages = sa.init()
    header = Header(sa.spi_i, sa.spi_r, 0, 0x20, ike.IKE_AUTH, ike.INITIATOR, 1, 0)
    data = encrypt_message(MessageCipher(sa.key_sets[0]), header, first, plaintext, bytes(16), fragment=fragments)
    sa.message_id[True] = 2
    messages += [
        sa._message([data], ike.IKE_AUTH, 1, True, False),
        sa.put(ike.IKE_AUTH, [IDENTITIES[False], PSK, *CHILD], from_initiator=False, response=True, message_id=1),
    ]
    trace = Trace()
    trace.play(messages)
    start = time.process_time()
    result = look(trace, table(*sa.key_sets), cleartext=True)
    assert time.process_time() - start < 5
    return result


def payload(following, body, length=None):
    return struct.pack(">BBH", following, 0, 4 + len(body) if length is None else length) + body


@pytest.mark.parametrize(
    ("first", "plaintext", "said"),
    [
        (ike.NOTIFY, payload(ike.NOTIFY, b"", 0) * 2000, "payloads: "),  # a loop, had the length any say
        (ike.NOTIFY, payload(ike.NOTIFY, b"", 3), "payloads: "),
        (ike.NOTIFY, payload(0, b"", 65535), "payloads: "),
        (ike.NONCE, payload(ike.NONCE, b"short") * 4000, "more findings"),
        (ike.SA, payload(0, struct.pack(">BxHBBBB", 2, 8, 1, 1, 0, 0) * 7000), "SA: "),
        (ike.SK, payload(0, bytes(40)), ""),  # an encrypted payload inside an encrypted one
        (ike.SKF, payload(0, struct.pack(">HH", 1, 65535) + bytes(40)), ""),
        (ike.CERT, payload(0, b"\x04" + b"\x30\x84\xff\xff\xff\xff" + bytes(100)), "CERT: "),
        (ike.EAP, payload(0, b"\1\1\xff\xff\x0d\xc0\xff\xff\xff\xff"), "EAP: "),
        (ike.TS_I, payload(0, b"\xff" + bytes(3) + struct.pack(">BBHHH", 7, 0, 16, 0, 1) * 3000), "TSi: "),
        (ike.KE, payload(0, b"\0\x24\0\0" + bytes(5)), "KE: "),
        (250, payload(250, b"x" * 50) * 999 + payload(0, b""), ""),
        (0, b"left over", ""),
        (ike.NOTIFY, b"", "payloads: "),
    ],
)
def test_malformed_plaintext_keeps_the_sums_correct(first, plaintext, said):
    result = hostile(first, plaintext)
    assert result.analysis.messages["decrypted"].to_list() == [None, None, True, True]
    what = [value for frame, value in result.findings if frame == 3]
    assert bool(what) == bool(said)
    assert len(what) <= 50
    assert any(said in item for item in what) or not said
    # it comes out as it was put in, for any reader to look at
    text = next(text for text in result.analysis.cleartexts.values() if text.message[19] == ike.INITIATOR)
    assert text.message[28:] == plaintext


def test_65535_fragments_announced():
    result = hostile(ike.ID_I, bytes(8), fragments=(1, 65535))
    assert any("fragments 2 to 65535 of 65535 are missing" in value for _, value in result.findings)
    assert result.analysis.messages["decrypted"].to_list() == [None, None, False, True]


def test_a_flood_that_no_key_opens():
    """Thousands of messages and hundreds of key sets without names: trying all of them on all would take minutes."""
    sa = Sa(proposals=(ike.CLASSIC,))
    trace = Trace()
    end = trace.play(sa.whole())
    encryptor = ike.Encryptor(sa.rng, iv=16, block=16)
    for number in range(2000):
        data = ike.encrypted(sa.spi_i, sa.spi_r, ike.INFORMATIONAL, 8, number + 2, 0, encryptor.body(20))
        trace.send(end + SECOND + number * 10**6, bytes(4) + data, sport=4500, dport=4500)
    others = [keys for seed in range(300) for keys in Sa(seed, proposals=(ike.CLASSIC,)).key_sets]

    start = time.process_time()
    result = look(trace, nameless(*others, *sa.key_sets))
    assert time.process_time() - start < 5
    assert result.outcomes == [("established", None)]
    assert any("2000 messages could not be decrypted" in value for _, value in result.findings)

import hmac
import random
import re
from itertools import zip_longest

import pytest

from tests.keys.logs_of import LOGS, RECORDED, expected, lines, plain, read
from tests.keys.mutated_logs import MUTATIONS, TWO_DAEMONS, of_one_thread


@pytest.mark.parametrize("name", RECORDED)
def test_the_keys_that_were_written_down_beside_the_capture(name):
    findings, _ = read(lines(f"{name}.charon"))
    assert plain(findings.key_sets) == expected(name)
    assert findings.warnings == []
    assert findings.formats == ["charon log"]


def test_key_sets_have_spis_and_algorithms():
    findings, _ = read(lines("pq-mlkem768-psk.charon"))
    for keys in findings.key_sets:
        assert (keys.spi_i.hex(), keys.spi_r.hex()) == ("904a132d2b087803", "f2748b73dae9f971")
        assert (keys.encryption, keys.integrity) == (20, 0)
        assert keys.derivation.prf == "PRF_HMAC_SHA2_384"
    assert [keys.origin.line for keys in findings.key_sets] == [100, 311]  # "Sk_d secret", by grep -n


def comparable(keys):
    return [(s.spi_i, s.spi_r, s.encryption, s.integrity, *plain([s])[0].items(), s.derivation) for s in keys]


PEERS = [
    "charon-5.9.8-rekeys",
    "charon-5.9.8-eap",
    "charon-6.1-mgr",
    "charon-6.1-ike-only",
    "charon-6.1-followup",
]


@pytest.mark.parametrize("name", PEERS)
def test_both_peers_logs_give_the_same(name):
    initiator, responder = (read(lines(f"{name}.{side}"))[0] for side in "ir")
    assert initiator.key_sets
    assert comparable(initiator.key_sets) == comparable(responder.key_sets)
    assert initiator.warnings == responder.warnings == []


def test_threads_that_have_checked_an_ike_sa_out():
    capture = (LOGS / "charon-6.1-mgr.pcap").read_bytes()
    key_sets = read(lines("charon-6.1-mgr.r"))[0].key_sets
    assert len({keys.spi_i for keys in key_sets}) == 2
    for keys in key_sets:
        assert keys.spi_i + keys.spi_r in capture


def test_without_sa_numbers_what_is_signed_tells_the_spis():
    with_numbers = read(lines("charon-6.1-mgr.r"))[0].key_sets
    without = read(lines("charon-6.1-ike-only.r"))[0].key_sets
    assert plain(without) == plain(with_numbers)
    assert [keys.spi_r for keys in without[:2]] == [keys.spi_r for keys in with_numbers[:2]]
    assert without[2].spi_i is None  # rekeyed: nothing is signed
    assert {keys.encryption for keys in without} == {None}  # proposals are of another group


def test_rekeyed_ike_sas_are_not_taken_for_the_old_ones():
    key_sets = read(lines("charon-5.9.8-rekeys.i"))[0].key_sets
    assert [keys.spi_i is None for keys in key_sets] == [False, True, True]
    assert {keys.encryption for keys in key_sets} == {12}


def sha384(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha384")


def test_derivations_belong_to_their_keys():
    """RFC 7296, section 2.14 and 2.18; RFC 9370, sections 2.2.2 and 2.2.4; the hash is Python's."""
    first, second, third, rekeyed, again = read(lines("charon-6.1-followup.i"))[0].key_sets
    d = first.derivation
    assert sha384(d.nonces, d.secret) == d.skeyseed
    for before, after in ((first, second), (second, third)):
        d = after.derivation
        assert d.nonces == first.derivation.nonces
        assert sha384(before.sk_d, d.secret + d.nonces) == d.skeyseed
    for before, after in ((third, rekeyed), (rekeyed, again)):
        d = after.derivation
        assert [len(secret) for secret in d.additional] == [32, 32]
        assert sha384(before.sk_d, d.secret + d.nonces + b"".join(d.additional)) == d.skeyseed


def test_logged_auths_have_their_octets_and_keys():
    findings, log = read(lines("charon-6.1-followup.r"))
    last = findings.key_sets[2]
    initiator, responder = log.auths
    assert (initiator.side, responder.side) == ("initiator", "responder")
    assert (initiator.sk_p, responder.sk_p) == (last.sk_pi, last.sk_pr)
    assert initiator.key_set is responder.key_set is last
    assert initiator.identity == b"\x02\0\0\0ini.lab"
    for auth in log.auths:
        assert auth.method == "pre-shared key"
        assert auth.secret == b"lab secret"
        assert sha384(sha384(auth.secret, b"Key Pad for IKEv2"), auth.octets) == auth.value
        assert sha384(auth.sk_p, auth.identity) in auth.octets


def test_int_auth_values_belong_to_their_key_sets():
    findings, log = read(lines("charon-6.1-followup.i"))
    assert [(v.side, v.message_id) for v in log.int_auths] == [
        ("initiator", 1),
        ("responder", 1),
        ("initiator", 2),
        ("responder", 2),
    ]
    assert [v.key_set for v in log.int_auths] == [findings.key_sets[n] for n in (0, 0, 1, 1)]
    assert log.int_auths[2].previous == log.int_auths[0].value
    # RFC 9242, section 3.3.2: both last values and the message ID of IKE_AUTH end what is signed
    end = log.int_auths[2].value + log.int_auths[3].value + (3).to_bytes(4)
    assert all(auth.octets.endswith(end) for auth in log.auths)


def test_eap_with_a_key_and_without():
    log = read(lines("charon-5.9.8-eap.r"))[1]
    assert [(auth.side, auth.method, auth.secret and len(auth.secret)) for auth in log.auths] == [
        ("responder", None, None),  # a certificate
        ("initiator", "EAP", 64),
        ("responder", "EAP", 64),
    ]
    log = read(lines("eap-md5-radius.charon"))[1]
    initiator = log.auths[1]
    assert (initiator.side, initiator.method) == ("initiator", "EAP")
    assert initiator.secret == initiator.key_set.sk_pi  # EAP-MD5 gives no key (RFC 7296, section 2.16)


def test_a_ppk_belongs_to_its_key_set():
    findings, log = read(lines("charon-5.9.8-ppk.i"))
    first, rekeyed = findings.key_sets
    (ppk,) = log.ppks
    assert ppk.key_set is first
    assert ppk.ppk == b"ppk ppk ppk ppk"
    for name in ("sk_d", "sk_pi", "sk_pr"):  # prf+ of RFC 8784, section 3
        assert hmac.digest(ppk.ppk, getattr(first, name) + b"\1", "sha256") == getattr(ppk, name)
    assert {auth.sk_p for auth in log.auths} == {ppk.sk_pi, ppk.sk_pr}
    assert all(auth.key_set is first for auth in log.auths)
    assert rekeyed.spi_i not in (None, first.spi_i)


def test_a_ppk_belongs_to_its_key_set_without_sa_numbers():
    """SK_pi and SK_pr signed a message with the SPIs of the IKE SA (RFC 7296, section 2.15)."""
    log = [re.sub(rb" <[^>]*>", b"", line) for line in lines("charon-5.9.8-ppk.i")]
    findings, values = read([line for line in log if b"check" not in line])
    (ppk,) = values.ppks
    assert ppk.key_set is findings.key_sets[0]
    assert [auth.key_set for auth in values.auths] == [findings.key_sets[0]] * 2


@pytest.mark.parametrize("side", "ir")
def test_keys_of_ikev1_are_read(side):
    findings, _ = read(lines(f"charon-5.9.8-ikev1.{side}"))
    log = b"\n".join(lines(f"charon-5.9.8-ikev1.{side}"))
    keys = re.findall(rb"encryption key Ka => 16 bytes.*\n.*  0: ((?:[0-9A-F]{2} ){16})", log)
    assert [key.key for key in findings.phase1] == [bytes.fromhex(key.decode()) for key in keys]
    chunks = re.findall(rb"natd_chunk => .*\n.*  0: ((?:[0-9A-F]{2} ){8})", log)
    cookies = [bytes.fromhex(chunk.decode()) for chunk in dict.fromkeys(chunks)]
    assert [key.cookie_i for key in findings.phase1] == cookies


@pytest.mark.parametrize("side", "ir")
def test_ikev1_without_sa_numbers(side):
    log = lines(f"charon-5.9.8-ikev1.{side}")
    with_numbers = read(log)[0].phase1
    without = read([re.sub(rb" <[^>]*>", b"", line) for line in log])[0].phase1
    assert without == with_numbers


@pytest.mark.parametrize("dump", [b"natd_chunk", b"HASH_"])
def test_ikev1_cookies_of_one_source_alone(dump):
    log = lines("charon-5.9.8-ikev1.i")
    kept = [line for line in log if not (dump in line and b" => " in line)]
    expected_keys, result = ([(key.cookie_i, key.key) for key in read(part)[0].phase1] for part in (log, kept))
    assert result == expected_keys != []


def test_ikev1_without_cookie():
    log = [line for line in lines("charon-5.9.8-ikev1.i") if b"natd_chunk" not in line and b"HASH_" not in line]
    findings, _ = read(log)
    assert findings.phase1 == []
    assert "does not name the IKE SA" in findings.warnings[0].message


def test_ike_sas_interleaved_by_threads():
    one = lines("loss20-classic.charon")
    other = [re.sub(rb" (\d\d)\[", rb" 1\1[", line) for line in lines("pq-mlkem768-psk.charon")]
    rng = random.Random(3)
    merged = []
    left = [list(reversed(one)), list(reversed(other))]
    while any(left):
        merged.append(rng.choice([log for log in left if log]).pop())
    result = plain(read(merged)[0].key_sets)
    for name in ("loss20-classic", "pq-mlkem768-psk"):
        mine = expected(name)
        assert [keys for keys in result if keys in mine] == mine
    assert len(result) == 27


def test_a_log_twice_as_starter_and_syslog_write_it():
    log = []
    for line in (line.split(b" ", 1)[1] for line in lines("pq-mlkem768-psk.charon")):
        log += [b"Nov 21 12:00:00 host ipsec[811]: " + line, b"Nov 21 12:00:00 host charon[812]: " + line]
    assert plain(read(log)[0].key_sets) == expected("pq-mlkem768-psk")


def test_the_daemon_starts_again_and_counts_from_the_beginning():
    log = lines("charon-5.9.8-ppk.i") + lines("charon-6.1-mgr.i")
    findings, _ = read(log)
    assert len(findings.key_sets) == 5
    assert findings.key_sets[2].spi_i not in {keys.spi_i for keys in findings.key_sets[:2]}


def test_a_log_that_is_cut_anywhere():
    log = lines("pq-mlkem768-psk.charon")
    er, pi, after = (next(n for n, line in enumerate(log) if text in line) for text in (b"Sk_er", b"Sk_pi", b"reinit"))
    for end in range(90, 130):
        findings, _ = read(log[:end])
        result = plain(findings.key_sets)
        if end < pi:
            assert result == []
        else:
            (keys,) = result
            assert {"Sk_d", "Sk_ei", "Sk_er"} <= keys.keys()
            assert keys.items() <= expected("pq-mlkem768-psk")[0].items()
            assert end < after or keys == expected("pq-mlkem768-psk")[0]
    findings, _ = read(log[: er + 2])
    assert [(w.line, w.message) for w in findings.warnings] == [
        (er + 1, 'the hex dump of "Sk_er secret" is incomplete; not used'),
        (100, "the keys that begin here are incomplete, or mixed with those of other IKE SAs; not used"),
    ]


@pytest.mark.parametrize(
    "after", [b"", b"00[DMN] Starting", b"1795245670 00[DMN] Starting", b"2026-11-21T12:00:00", b"Dec  3"]
)
def test_a_line_that_is_cut_is_not_completed_by_the_next_one(after):
    """As on a disk that was full for a while: the digits of a time are no bytes of the key."""
    log = lines("psk-classic.charon")
    (known,) = expected("psk-classic")
    last = next(number for number, line in enumerate(log) if b"Sk_er secret" in line) + 1
    for end in range(len(log[last])):
        findings, _ = read([*log[:last], log[last][:end] + after])
        assert all(keys.items() <= known.items() for keys in plain(findings.key_sets))
        assert findings.key_sets or findings.warnings


def test_keys_that_a_log_lacks_are_a_warning():
    """From the nonces on; and where the log begins, after a rotation."""
    log = lines("pq-mlkem768-psk.charon")
    first, er = (next(n for n, line in enumerate(log) if text in line) for text in (b"nonces =>", b"Sk_er secret"))
    for end in range(first + 5, er + 3):
        findings, _ = read(log[:end])
        assert findings.key_sets == []
        assert findings.warnings[-1].message.startswith("the keys that begin here are incomplete")
    for number in range(first + 10, er + 1):
        findings, _ = read(log[number:])
        assert len(findings.key_sets) == 1
        assert len(findings.warnings) == 1


def test_a_dump_without_a_line():
    log = lines("psk-classic.charon")
    where = next(n for n, line in enumerate(log) if b"Sk_ar secret" in line)
    findings, _ = read(log[: where + 1] + log[where + 2 :])
    (keys,) = findings.key_sets
    assert keys.sk_ei.hex() == expected("psk-classic")[0]["Sk_ei"]
    assert keys.sk_er == keys.sk_ar == b""  # without its integrity key it could open anything
    assert [w.line for w in findings.warnings] == [where + 1]


def derivation(name: str) -> list[list[bytes]]:
    """The dumps of the first derivation of a log, as the journal has them."""
    log = [line.split(b"] ", 1)[1] for line in lines(f"{name}.charon")]
    first = log.index(next(line for line in log if line.startswith(b"SKEYSEED")))
    last = log.index(next(line for line in log if line.startswith(b"Sk_pr")))
    dumps: list[list[bytes]] = []
    for line in log[first : last + 3]:
        if b" => " in line:
            dumps.append([])
        dumps[-1].append(line)
    return dumps


def test_where_threads_are_not_told_apart_keys_are_never_mixed():
    real = [*expected("psk-classic"), *expected("invalid-ke")]
    rng = random.Random(2)
    alone = mixed = 0
    for _ in range(300):
        left = [list(reversed(derivation(name))) for name in ("psk-classic", "invalid-ke")]
        log = []
        turn = 0
        while any(left):
            turn = rng.choices((turn, 1 - turn), (5, 1))[0]
            if left[turn]:
                log += left[turn].pop()
        findings, _ = read(log)
        assert all(keys in real for keys in plain(findings.key_sets))
        assert len(findings.key_sets) == 2 or findings.warnings
        alone += len(findings.key_sets) == 2
        mixed += len(findings.key_sets) < 2
    assert alone
    assert mixed


def test_no_secret_in_warnings_or_repr():
    findings, log = read(lines("pq-mlkem768-psk.charon"))
    text = repr((findings, log)).lower()
    for value in expected("pq-mlkem768-psk")[0].values():
        assert value not in text
        assert repr(bytes.fromhex(value))[2:-1].lower() not in text
    assert "swordfish" not in text


def test_a_damaged_log_raises_nothing():
    rng = random.Random(1)
    log = lines("charon-6.1-mgr.i")
    for _ in range(20):
        broken = list(log)
        for _ in range(60):
            n = rng.randrange(len(broken))
            line = bytearray(broken[n])
            match rng.randrange(4):
                case 0:
                    del broken[n]
                case 1:
                    broken.insert(n, broken[rng.randrange(len(broken))])
                case 2 if line:
                    line[rng.randrange(len(line))] = rng.randrange(256)
                    broken[n] = bytes(line)
                case _:
                    broken[n] = bytes(line[: rng.randrange(len(line) + 1)])
        findings, _ = read(broken)
        assert len(findings.key_sets) <= 6


@pytest.mark.parametrize("name", TWO_DAEMONS)
def test_daemons_whose_threads_have_the_same_numbers(name):
    """As in the output of `docker compose logs` with both peers."""
    recorded = [of_one_thread(lines(f"{log}.charon")) for log in ("psk-classic", "pq-mlkem768-psk")]
    queues = [[prefix + line for line in log] for prefix, log in zip(TWO_DAEMONS[name], recorded, strict=True)]
    merged = [line for pair in zip_longest(*queues) for line in pair if line is not None]
    findings, log = read(merged)
    assert sorted(key["Sk_ei"] for key in plain(findings.key_sets)) == sorted(
        key["Sk_ei"] for log in ("psk-classic", "pq-mlkem768-psk") for key in expected(log)
    )
    assert (findings.warnings, len(log.auths), len(log.int_auths)) == ([], 4, 2)


@pytest.mark.parametrize("change", ["repeated messages", "all lines twice"])
@pytest.mark.parametrize("name", ["psk-classic", "pq-mlkem768-psk"])
def test_what_two_loggers_write_to_one_log(name, change):
    """Two facilities of syslog in the journal; standard output and standard error of a container."""
    once, log = read(lines(f"{name}.charon"))
    findings, twice = read(MUTATIONS[change](lines(f"{name}.charon"), random.Random()))
    assert plain(findings.key_sets) == expected(name)
    assert [keys.spi_i for keys in findings.key_sets] == [keys.spi_i for keys in once.key_sets]
    assert findings.warnings == []
    for values in (log, twice):
        assert [(auth.octets, auth.secret, auth.value) for auth in values.auths] == [
            (auth.octets, auth.secret, auth.value) for auth in log.auths
        ]
        assert [(auth.previous, auth.value) for auth in values.int_auths] == [
            (auth.previous, auth.value) for auth in log.int_auths
        ]

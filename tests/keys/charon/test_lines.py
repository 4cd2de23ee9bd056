import pytest

from ikeanalyze.keys.charon.lines import LogMessageReader
from tests.keys.logs_of import expected, lines, plain, read

DUMP = [
    (
        b"Sk_ei secret => 20 bytes @ 0x7f0a",
        b"   0: 9F 7E 89 CE B0 B5 CA 04 FE 0E 5C 4B 30 C0 18 4E  .~........\\K0..N",
    ),
    (b"   16: 41 42 43 44                                      ABCD",),
]
VALUE = bytes.fromhex("9F7E89CEB0B5CA04FE0E5C4B30C0184E41424344")
TEXT = [line for part in DUMP for line in part]

PREFIXES = [
    b"",
    b"1795245664 ",
    b"1795245664.123 ",
    b"Nov 21 12:00:00 ",
    b"2026-11-21T12:00:00+0000.126 ",
    b"[2026-11-21 12:00:00] ",
    b"Sat, 2026-11-21, 12:00:00: ",
    b"Nov 21 12:00:00 host charon: ",
    b"Nov  1 12:00:00 host charon[812]: ",
    b"2026-11-21T12:00:00.126+01:00 host ipsec[812]: ",
    b"Sat 2026-11-21 12:00:00 CET host strongswan@x.service[812]: ",
]


def feed(log, wanted=(b"Sk_ei secret",)):
    messages = LogMessageReader(wanted)
    done = [message for number, line in enumerate(log, 1) for message in messages.feed(number, line)[1]]
    return [(m.text, m.data, m.line) for m in [*done, *messages.finish()] if m.dump]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    "thread", [b"09[IKE] ", b"09[IKE] <1> ", b"09[IKE] <a name|1> ", b"09[IKE3] ", b"117[IKE] <c|1> "]
)
def test_log_prefixes_are_skipped(prefix, thread):
    assert feed([prefix + thread + line for line in TEXT]) == [(b"Sk_ei secret", VALUE, 1)]


@pytest.mark.parametrize(
    "prefix",
    [
        b"",
        b"Nov 21 12:00:00 host charon-systemd[812]: ",
        b"2026-11-21T12:00:00+0100 host charon-systemd[812]: ",
    ],
)
def test_the_journal_has_no_threads_and_indents(prefix):
    log = [prefix + TEXT[0], b" " * len(prefix) + TEXT[1], b" " * len(prefix) + TEXT[2]]
    assert feed(log) == [(b"Sk_ei secret", VALUE, 1)]


def test_another_thread_in_between():
    log = [
        b"09[IKE] " + TEXT[0],
        b"10[NET] received packet",
        b"09[IKE] " + TEXT[1],
        b"10[IKE] x",
        b"09[IKE] " + TEXT[2],
    ]
    assert feed(log) == [(b"Sk_ei secret", VALUE, 1)]


def test_interleaved_dumps_of_threads_are_separated():
    log = [thread + line for line in TEXT for thread in (b"09[IKE] ", b"10[IKE] ")]
    assert feed(log) == [(b"Sk_ei secret", VALUE, 1), (b"Sk_ei secret", VALUE, 2)]


@pytest.mark.parametrize(
    "log",
    [
        TEXT[:1],
        TEXT[:2],
        [TEXT[0], TEXT[2]],
        [TEXT[0], TEXT[1], TEXT[1]],
        [TEXT[0], TEXT[1], b"   16: 41 42 43"],
        [TEXT[0], TEXT[1], b"   16: 41 4Z 43 44"],
        [TEXT[0], b"something else", TEXT[1], TEXT[2]],
    ],
)
def test_what_is_cut_has_no_data(log):
    assert feed([b"09[IKE] " + line for line in log]) == [(b"Sk_ei secret", None, 1)]


def test_empty_dumps_are_values():
    assert feed([b"09[IKE] additional => 0 bytes @ (nil)"], [b"additional"]) == [(b"additional", b"", 1)]


def test_a_length_that_no_message_has():
    assert feed([b"09[IKE] Sk_ei secret => 9999999 bytes @ 0x1"]) == []


def test_dumps_that_are_not_wanted():
    assert feed([b"09[IKE] " + line for line in TEXT], ()) == []


def test_other_lines_are_not_log_messages():
    messages = LogMessageReader(())
    for line in (b"", b"some text", b"a,b,c", b'1122334455667788,00,"x"'):
        assert not messages.feed(1, line)[0]
    assert messages.feed(1, b"09[NET] sending packet")[0]


def test_open_dumps_are_bounded():
    messages = LogMessageReader([b"Sk_ei secret"])
    cut = [m for n in range(6000) for m in messages.feed(n, b"%05d[IKE] %s" % (n, TEXT[0]))[1]]
    assert len(cut) == 6000 - 4096
    assert len(messages.finish()) == 4096


def test_a_whole_log_from_the_journal():
    log = [line.split(b" ", 1)[1].split(b"] ", 1)[1] for line in lines("psk-classic.charon")]
    prefix = b"Nov 21 12:00:00 host charon-systemd[812]: "
    log = [(b" " * len(prefix) if line[:4] == b"    " or b": " in line[:7] else prefix) + line for line in log]
    findings, _ = read(log)
    assert plain(findings.key_sets) == expected("psk-classic")
    assert findings.key_sets[0].spi_i.hex() == "3a910afcdbd92e0e"
    assert findings.key_sets[0].encryption == 12

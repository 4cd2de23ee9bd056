"""Entries of container engines and journald are converted to the lines that the daemon logged."""

import json

import pytest

from ikeanalyze.io.log_entries import LogEntries, detect_entries


def convert(data: bytes) -> bytes:
    entries = detect_entries(data)
    assert entries is not None
    return entries.convert(data) + entries.finish()


#: As docker writes it: Go's encoder escapes <, > and & (https://docs.docker.com/engine/logging/drivers/json-file/).
DOCKER = (
    rb'{"log":"09[IKE] \u003ca|1\u003e one\n","stream":"stderr","time":"2026-11-21T12:00:00.000000001Z"}' + b"\n"
    rb'{"log":"\u001b[32m09[IKE] two\u001b[0m\r\n","stream":"stdout","time":"2026-11-21T12:00:00.000000002Z"}' + b"\n"
)


def test_dockers_json_has_a_line_in_an_entry():
    assert convert(DOCKER) == b"09[IKE] <a|1> one\n\x1b[32m09[IKE] two\x1b[0m\r\n"


def test_lines_that_are_no_entries_are_kept():
    assert convert(DOCKER + b"09[IKE] three\n{not JSON\n") == convert(DOCKER) + b"09[IKE] three\n{not JSON\n"


@pytest.mark.parametrize("field", ["log", "message", "line"])
def test_fields_of_collectors(field):
    assert (
        convert(json.dumps({"level": "info", field: "09[IKE] one", "labels": {"a": "b"}}).encode()) == b"09[IKE] one\n"
    )


JOURNAL = {
    "MESSAGE": "Sk_ei secret => 17 bytes @ 0x7f\n   0: 9F\n  16: 7E",
    "_PID": "812",
    "SYSLOG_IDENTIFIER": "charon-systemd",
}
FIELDS = {"THREAD": "9", "GROUP": "IKE"}


@pytest.mark.parametrize(
    ("more", "prefix"),
    [
        (FIELDS, b"journal charon-systemd[812]: 09[IKE] "),
        (FIELDS | {"IKE_SA_UNIQUE_ID": "3"}, b"journal charon-systemd[812]: 09[IKE] <3> "),
    ],
)
def test_charons_fields_in_the_journal_become_the_prefix_of_each_line(more, prefix):
    lines = JOURNAL["MESSAGE"].encode().split(b"\n")
    assert convert(json.dumps(JOURNAL | more).encode()) == b"".join(prefix + line + b"\n" for line in lines)


def test_without_charons_fields_further_lines_are_indented():
    text = convert(json.dumps(JOURNAL | {"THREAD": "x", "GROUP": ["IKE"]}).encode())
    first, *rest = text.splitlines()
    prefix = b"journal charon-systemd[812]: "
    assert first == prefix + b"Sk_ei secret => 17 bytes @ 0x7f"
    assert rest == [b" " * len(prefix) + line for line in (b"   0: 9F", b"  16: 7E")]


def test_a_list_of_bytes_is_a_text_that_is_not_utf8():
    entry = JOURNAL | FIELDS | {"MESSAGE": list(b"\xe9 <= 9")}
    assert convert(json.dumps(entry).encode()).endswith(b"09[IKE] \xe9 <= 9\n")


@pytest.mark.parametrize("value", [[1, 256], ["a"], [1.5], 7, {}])
def test_other_values_are_no_texts(value):
    assert detect_entries(json.dumps({"MESSAGE": value}).encode()) is None


def test_messages_that_journalctl_left_out_are_counted():
    entries = detect_entries(b'{"MESSAGE":null}\n')
    assert entries is not None
    assert entries.convert(b'{"MESSAGE":null}\n{"MESSAGE":"a","_PID":"1"}\n') == b"journal journal[1]: a\n"
    assert entries.left_out == 1


@pytest.mark.parametrize("mark", [b"\x1e", b"data: "])
def test_marks_before_entries(mark):
    assert convert(mark + json.dumps(JOURNAL | FIELDS).encode()).count(b"09[IKE]") == 3


def test_entries_that_are_written_for_people():
    """journalctl -o json-pretty, jq."""
    data = b"".join(
        json.dumps(entry, indent="\t").encode() + b"\n" for entry in ({"a": 1}, JOURNAL | FIELDS, {"log": "x"})
    )
    text = convert(data)
    assert text.count(b"09[IKE]") == 3
    assert text.endswith(b"\nx\n")


VERBOSE = b"""\
Sat 2026-11-21 07:20:56.005400 UTC [s=dd01ea54555540929b548f264231f8e4;i=37;b=00000000000000000000000000000001;m=1519;t=6]
    _PID=812
    SYSLOG_IDENTIFIER=charon-systemd
    THREAD=9
    MESSAGE=Sk_ei secret => 17 bytes @ 0x7f
               0: 9F
              16: 7E
    GROUP=IKE
Sat 2026-11-21 07:20:56.005500 UTC [s=dd01ea54555540929b548f264231f8e4;i=38;b=00000000000000000000000000000001;m=157d;t=6]
    MESSAGE=09[IKE] end
"""


def test_all_fields_of_journalctl():
    prefix = b"journal charon-systemd[812]: 09[IKE] "
    lines = [prefix + line for line in JOURNAL["MESSAGE"].encode().split(b"\n")]
    assert convert(VERBOSE).splitlines() == [*lines, b"journal journal[0]: 09[IKE] end"]


def test_a_text_of_very_many_lines_is_cut():
    """Neither memory nor time may depend on what one entry has: joining its lines one by one takes minutes."""
    begin = b"".join(VERBOSE.splitlines(keepends=True)[:6])
    lines = convert(begin + b"            x\n" * 300_000 + VERBOSE).splitlines()
    assert len(lines[: -len(convert(VERBOSE).splitlines())]) == 4096
    assert lines[4096:] == convert(VERBOSE).splitlines()


def test_lines_of_the_file_are_found():
    """An entry of three lines of text between two of one; then the entry in lines 5 to 7 of the verbose form."""
    entries = LogEntries()
    entries.convert(
        b"".join(json.dumps(entry).encode() + b"\n" for entry in ({"log": "a"}, JOURNAL, {"log": "b"}, {"log": "c"}))
    )
    assert [entries.find_line(number) for number in range(1, 7)] == [1, 2, 2, 2, 3, 4]
    entries = LogEntries()
    entries.convert(VERBOSE)
    entries.finish()
    assert [entries.find_line(number) for number in range(1, 5)] == [5, 6, 7, 10]


@pytest.mark.parametrize("data", [DOCKER, VERBOSE, b"{\n" + DOCKER + b"{\n\n"])
def test_blocks_end_anywhere(data):
    lines = data.splitlines(keepends=True)
    whole = LogEntries()
    text = whole.convert(data) + whole.finish()
    for cut in range(len(lines) + 1):
        parts = LogEntries()
        blocks = [b"".join(lines[:cut]), b"".join(lines[cut:])]
        assert b"".join(parts.convert(block) for block in blocks if block) + parts.finish() == text
        for number in range(1, text.count(b"\n") + 1):
            assert parts.find_line(number) == whole.find_line(number)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"09[IKE] one\n",
        b'{"schema": "ikeanalyze.keys/1", "key_sets": []}\n',
        b'{"schema": "ikeanalyze.report/1", "warnings": [{"message": "x"}]}\n',
        b'[{"log": "09[IKE] one"}]\n',
        b'{"log": "09[IKE] o',
        b"{" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_other_files_have_no_entries(head):
    assert detect_entries(head) is None

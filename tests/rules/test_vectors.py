"""Python, the compiled core and the Wireshark plugin classify and pair the messages of the test vectors as expected."""

import numpy as np
import pytest

import ikeanalyze
from ikeanalyze import core
from ikeanalyze.analysis.messages.retransmission import (
    DatagramTransmission,
    SlotDatagram,
    classify_slot,
    classify_transmissions,
)
from tests.dissectors.run_plugin import fields, run_plugin
from tests.rules.vectors import ExpectedHandshake, make_capture, read_cases

CASES = read_cases()
WITH_CAPTURE = [case for case in CASES if not case.ikev1]
each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_capture = pytest.mark.parametrize("case", WITH_CAPTURE, ids=str)


def make_columns(datagrams):
    """Time, fragment, total, digest and arrival of each."""
    names = ("time_ns", "fragment", "total", "digest", "lost")
    *columns, lost = (np.array([getattr(datagram, name) for datagram in datagrams]) for name in names)
    return [*columns, ~lost]


def expect(datagrams):
    return [
        DatagramTransmission(datagram.body - 1, datagram.transmission, datagram.first_copy) for datagram in datagrams
    ]


def as_list(*columns):
    return [DatagramTransmission(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]


@each_case
def test_the_definition_classifies_datagrams(case):
    for datagrams in case.slots:
        units = [
            SlotDatagram(datagram.time_ns, datagram.fragment, datagram.total, datagram.digest, not datagram.lost)
            for datagram in datagrams
        ]
        assert classify_slot(units, ikev1=case.ikev1) == expect(datagrams)


@each_case
def test_columns_classify_datagrams(case):
    datagrams = [datagram for slot in case.slots for datagram in slot]
    slot = np.repeat(np.arange(len(case.slots)), [len(slot) for slot in case.slots])
    time, fragment, total, digest, arrived = make_columns(datagrams)
    columns = classify_transmissions(
        slot, time, fragment, total, digest.astype(np.uint64), np.full(len(slot), case.ikev1), arrived
    )
    assert as_list(*columns) == expect(datagrams)


@each_case
@pytest.mark.usefixtures("compiled_core")
def test_the_core_classifies_datagrams(case):
    for datagrams in case.slots:
        time, fragment, total, digest, arrived = make_columns(datagrams)
        columns = core.compiled.classify_slot(
            time, fragment.astype(np.uint16), total.astype(np.uint16), digest.astype(np.uint64), arrived, case.ikev1
        )
        assert as_list(*columns) == expect(datagrams)


@pytest.mark.usefixtures("implementation")
@each_capture
def test_reports_have_the_messages_and_exchanges(case, tmp_path):
    analysis = ikeanalyze.read(make_capture([case], tmp_path / "capture.pcap"))
    message_of_frame = dict(analysis.frames.select("number", "message").rows())
    messages = {row["message"]: row for row in analysis.messages.iter_rows(named=True)}
    keys, needed, arrived = {}, {}, {}
    for number, datagram in enumerate(case.datagrams, 1):
        message = message_of_frame[number]
        assert messages[message]["transmission"] == datagram.transmission
        # the frames of one transmission are one message, and no others are
        key = (datagram.slot, datagram.body, datagram.transmission)
        assert keys.setdefault(message, key) == key
        size = analysis.frames["bytes"][number - 1]
        needed[message] = needed.get(message, 0) + size * datagram.first_copy
        seen = None if not datagram.fragment else arrived.get(message, 0) + (not datagram.lost)
        arrived[message] = seen
    assert len(set(keys.values())) == len(keys) == len(messages)
    assert {message: row["needed_bytes"] for message, row in messages.items()} == needed
    assert {message: row["fragments_seen"] for message, row in messages.items()} == arrived
    assert list_exchanges(analysis) == [
        (
            "initiator" if exchange.by_initiator else "responder",
            exchange.exchange_type,
            exchange.message_id,
            exchange.attempt,
            exchange.rtt,
            exchange.wait,
        )
        for exchange in case.exchanges
    ]
    if case.handshake is not None:
        row = analysis.handshakes.row(0, named=True)
        setup = None if row["setup_ns"] is None else row["setup_ns"] / 1e6
        expected = ExpectedHandshake(row["outcome"], setup, row["uncertain"] is not None, row["reason"])
        assert expected == case.handshake


def list_exchanges(analysis):
    names = ("initiated_by", "type", "message_id", "attempt", "rtt_ns", "wait_ns")
    return [
        (*row[:4], *(None if time is None else time / 1e6 for time in row[4:]))
        for row in analysis.exchanges.select(names).rows()
    ]


def test_the_plugin_has_the_transmissions_and_times(tshark, tmp_path):
    path = make_capture(WITH_CAPTURE, tmp_path / "capture.pcap")
    rows = iter(fields(tshark, path, "ikex.transmission", "ikex.response_time"))
    for case in WITH_CAPTURE:
        own = [next(rows) for _ in case.datagrams]
        assert [int(transmission) for transmission, _ in own] == [vector.transmission for vector in case.datagrams], (
            case
        )
        times = sorted({float(time) for _, time in own if time})
        assert times == pytest.approx(
            sorted({exchange.rtt for exchange in case.exchanges if exchange.rtt is not None})
        ), case
    assert not list(rows)


def test_the_plugin_names_the_fragments_that_did_not_arrive(tshark, tmp_path):
    path = make_capture(WITH_CAPTURE, tmp_path / "capture.pcap")
    rows = iter(fields(tshark, path, "ikex.transmission", "ikex.fragment.missing"))
    for case in WITH_CAPTURE:
        arrived = {}
        for vector in case.datagrams:
            place = vector.slot, vector.body, vector.transmission
            arrived.setdefault(place, set()).update(() if vector.lost else (vector.fragment,))
        for vector in case.datagrams:
            missing = set(range(1, vector.total + 1)) - arrived[vector.slot, vector.body, vector.transmission]
            assert next(rows)[1] == ",".join(map(str, sorted(missing))), case


def test_the_plugin_has_the_handshakes(tshark, tmp_path):
    path = make_capture(WITH_CAPTURE, tmp_path / "capture.pcap")
    lines = run_plugin(tshark, path, "-q", "-z", "ikex,handshakes").lines
    rows = [line.split()[12:] for line in lines if line.split()[:1] and line.split()[0].isdigit()]
    for case, (setup, outcome, *remarks) in zip(WITH_CAPTURE, rows, strict=True):
        if case.handshake is not None:
            time = None if setup == "-" else float(setup.lstrip("~"))
            reason = "INVALID_SPI" if "INVALID_SPI" in remarks else None
            assert ExpectedHandshake(outcome, time, setup.startswith("~"), reason) == case.handshake, case

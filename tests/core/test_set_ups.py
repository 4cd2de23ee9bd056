"""The compiled functions about the set-ups of handshakes return what the Python code does, on generated exchanges."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeanalyze import core
from ikeanalyze.analysis.exchanges.answers import find_exchange_endings, match_responses
from ikeanalyze.analysis.exchanges.capture_point import NetworkPath, infer_capture_sides
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN, pair_exchanges
from ikeanalyze.analysis.exchanges.timing import AaaTimes, compute_time_breakdown
from ikeanalyze.analysis.exchanges.unprotected import find_unprotected_exchanges
from ikeanalyze.analysis.grouping import order_times
from ikeanalyze.analysis.handshakes.diagnosis.responders import find_handshakes_on_port
from ikeanalyze.analysis.handshakes.exchange_evidence import collect_exchange_evidence, find_last_times
from ikeanalyze.analysis.handshakes.handshakes import sum_auth_exchanges
from ikeanalyze.analysis.messages.association import SaAssociation
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.capture.decode.classify import Protocol
from tests.core.test_analysis import MS, assert_equal_columns, make_datagrams, without_core

seeds = st.integers(0, 2**32)
TYPES = {
    Protocol.IKEV2: (34, 34, 38, 43, 35, 35, 35, 39, 36, 37),
    Protocol.IKEV1: (2, 4, 5, 32),
    Protocol.HIP: (129, 131, 145, 146),
}


def make_messages(rng: np.random.Generator, handshakes: int) -> MessageColumns:
    """The messages of handshakes, of which some are lost, and some repeated because the round trip takes long."""
    rows = []
    round_trip = int(rng.choice([20, 700, 1900])) * MS
    for handshake in range(handshakes):
        protocol = rng.choice([Protocol.IKEV2, Protocol.IKEV2, Protocol.IKEV2, Protocol.IKEV1, Protocol.HIP])
        now, message_id = int(rng.integers(0, 20_000)) * MS, 0
        types = sorted(rng.choice(TYPES[protocol], rng.integers(0, 7)).tolist())
        for exchange_type in types:
            asked, step = bool(rng.random() < 0.9), int(rng.choice([0, 1, 1, 1, 1, 2]))
            message_id += step
            sent = int(rng.choice([0, 1, 1, 1, 2, 2, 4]))
            answered = int(rng.choice([0, 0, 1, 1, sent, sent, sent]))
            end = now
            slot = ((handshake << 8 | message_id) << 8 | exchange_type) << 2 | (not asked) << 1
            for response, count in ((False, sent), (True, answered)):
                for number in range(count):
                    first_ns = now + number * 500 * MS + response * int(round_trip * rng.choice([1, 1, 1, 1.1]))
                    last_ns = first_ns + int(rng.choice([0, 0, MS]))
                    end = last_ns if response else end
                    header = (handshake, protocol, exchange_type, message_id, asked, response)
                    rows.append((slot | response, number + 1, first_ns, last_ns, *header))
            now = end + int(rng.choice([-round_trip, round_trip, round_trip, round_trip + 3 * MS, 5_000 * MS]))
    rows.sort()
    names = ("slot", "transmission", "first_ns", "last_ns", "handshake", "protocol", "exchange_type", "message_id")
    columns = dict(zip((*names, "initiator_asked", "response"), zip(*rows, strict=True), strict=True))
    dtypes = dict.fromkeys(("slot", "first_ns", "last_ns"), np.int64)
    dtypes |= {"handshake": np.int32, "protocol": np.uint8, "exchange_type": np.uint8}
    dtypes |= {"message_id": np.uint32, "transmission": np.uint32, "initiator_asked": np.bool_, "response": np.bool_}
    arrays = {name: np.array(columns[name], dtype) for name, dtype in dtypes.items()}
    count = len(rows)
    size = rng.integers(80, 400, count)
    return MessageColumns(
        **arrays,
        from_initiator=arrays["initiator_asked"] != arrays["response"],
        next_payload=np.full(count, 46, np.uint8),
        body=np.zeros(count, np.int64),
        first_frame=np.arange(count, dtype=np.uint32),
        frames=np.ones(count, np.uint32),
        bytes=size,
        needed_bytes=size,
        fragments=np.zeros(count, np.uint16),
        fragments_seen=np.zeros(count, np.uint32),
        new_fragments=np.zeros(count, np.uint32),
        ip_fragments=np.zeros(count, np.int64),
        digest=np.arange(count, dtype=np.uint64),
    )


def make_state(rng: np.random.Generator, handshakes: int) -> SimpleNamespace:
    """The state of the analysis after messages were paired. Each handshake has one datagram, of its initiator."""
    messages = make_messages(rng, handshakes)
    exchanges, of_message = without_core(pair_exchanges, messages)
    in_clear = np.flatnonzero(rng.random(len(messages)) < rng.choice([0, 0.1]))
    hosts = np.array([1, 2, 3, 1 << 32], np.uint64)
    return SimpleNamespace(
        messages=messages,
        exchanges=exchanges,
        exchange_of_message=of_message,
        in_clear=in_clear,
        unprotected=find_unprotected_exchanges(exchanges, messages, of_message, in_clear),
        lacking_fragments=np.flatnonzero(rng.random(len(messages)) < 0.05),
        incomplete=np.zeros(handshakes, np.bool_),
        association=SaAssociation(np.arange(handshakes, dtype=np.int32), np.ones(handshakes, np.bool_), handshakes),
        datagrams=SimpleNamespace(
            source=rng.choice(hosts[:2], handshakes),
            destination=rng.choice(hosts[2:], handshakes),
            ip_fragments=np.zeros(handshakes, np.int64),
            fragment=np.zeros(handshakes, np.uint16),
        ),
    )


def make_path(rng: np.random.Generator, handshakes: int) -> NetworkPath:
    """The paths between the hosts of handshakes, some of which are known."""
    known = rng.random(handshakes) < rng.choice([0, 0, 0.5, 1])
    return NetworkPath(
        vantage=rng.choice(np.arange(3, dtype=np.uint8), handshakes, p=(0.2, 0.6, 0.2)),
        rtt_ns=np.where(known, 20 * MS, UNKNOWN),
        rtt_source=known.astype(np.uint8),
        timer_ns=np.where(rng.random(handshakes) < 0.2, 500 * MS, UNKNOWN),
    )


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_endings_evidence_and_times(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 40))
    try:
        state = make_state(rng, count)
    except ValueError:  # no messages
        return
    path, exchanges = make_path(rng, count), state.exchanges
    endings = without_core(find_exchange_endings, state, path)
    assert_equal_columns(find_exchange_endings(state, path), endings)
    answers = match_responses(state, path, endings, np.full(len(exchanges), UNKNOWN))
    undone = rng.random(count) < 0.1
    arguments = (state, answers, {}, undone)
    assert_equal_columns(collect_exchange_evidence(*arguments), without_core(collect_exchange_evidence, *arguments))
    assert find_last_times(state).tolist() == without_core(find_last_times, state).tolist()
    ours, theirs = sum_auth_exchanges(exchanges, count), without_core(sum_auth_exchanges, exchanges, count)
    assert {name: sums.tolist() for name, sums in ours.items()} == {
        name: sums.tolist() for name, sums in theirs.items()
    }
    nothing = np.broadcast_to(np.int64(0), len(exchanges))
    hosts = state.datagrams.source, state.datagrams.destination
    arguments = (exchanges, answers, rng.random(count) < 0.8, hosts, AaaTimes(nothing, nothing), path)
    assert_equal_columns(compute_time_breakdown(*arguments), without_core(compute_time_breakdown, *arguments))


def test_the_generated_exchanges_have_paths_to_measure():
    """Otherwise the comparison would be one of defaults."""
    measured = long_paths = corrected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        state, path = make_state(rng, 11), make_path(rng, 11)
        endings = find_exchange_endings(state, path)
        measures = core.compiled.measure_host_pairs(
            state.exchanges,
            endings.end_ns,
            state.messages,
            state.exchange_of_message,
            state.datagrams.source,
            state.datagrams.destination,
        )
        measured += int((measures["round_trip_ns"] > 0).sum())
        long_paths += int(measures["possibly_long"].sum())
        corrected += int(endings.uncertain.sum())
    assert measured
    assert long_paths
    assert corrected


@settings(max_examples=100)
@given(seeds, st.integers(0, 200))
def test_order_of_times(seed, count):
    rng = np.random.default_rng(seed)
    times = rng.integers(0, rng.choice([3, 1 << 20, 1 << 50]), count)
    times[rng.random(count) < 0.05] += 1 << 55
    assert order_times(times).tolist() == without_core(order_times, times).tolist()
    assert order_times(times).dtype == without_core(order_times, times).dtype


@settings(max_examples=100)
@given(seeds, st.integers(0, 40))
def test_capture_sides_and_responders_on_a_port(seed, count):
    rng = np.random.default_rng(seed)
    datagrams = make_datagrams(rng, count)
    association = SaAssociation(rng.integers(0, 6, count, np.int32), rng.random(count) < 0.5, 6)
    arguments = association.handshake, association.from_initiator, datagrams.ttl, 6
    sides = without_core(infer_capture_sides, *arguments)
    assert infer_capture_sides(*arguments).tolist() == sides.tolist()
    assert infer_capture_sides(*arguments).dtype == sides.dtype
    state = SimpleNamespace(datagrams=datagrams, association=association)
    on_port = without_core(find_handshakes_on_port, state, 4500)
    assert find_handshakes_on_port(state, 4500).tolist() == on_port.tolist()


def test_wrong_columns_are_python_errors():
    rng = np.random.default_rng(0)
    state, path = make_state(rng, 5), make_path(rng, 5)
    exchanges = state.exchanges
    with pytest.raises(ValueError, match="no handshake"):
        sum_auth_exchanges(exchanges, 0)
    with pytest.raises(ValueError, match="no handshake"):
        infer_capture_sides(exchanges.handshake, exchanges.set_up, exchanges.protocol, 0)
    mask = np.zeros(len(exchanges), np.bool_)
    with pytest.raises(ValueError, match="no handshake"):
        core.compiled.collect_evidence(exchanges, mask, mask, mask, mask[:0])
    with pytest.raises(ValueError, match="length"):
        core.compiled.collect_evidence(exchanges, mask[1:], mask, mask, mask[:5])
    hosts = np.ones(5, np.uint64)
    with pytest.raises(ValueError, match="length"):
        core.compiled.measure_host_pairs(
            exchanges, exchanges.start_ns, state.messages, state.exchange_of_message, hosts, hosts[1:]
        )
    with pytest.raises(ValueError, match="fit together"):
        core.compiled.measure_host_pairs(
            exchanges, exchanges.start_ns, state.messages, state.exchange_of_message, hosts[:1], hosts[:1]
        )
    answers = match_responses(state, path, find_exchange_endings(state, path), np.full(len(exchanges), UNKNOWN))
    with pytest.raises(ValueError, match="length"):
        core.compiled.divide_set_up_times(exchanges, answers, mask[:4], hosts, hosts, path)

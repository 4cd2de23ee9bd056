"""The compiled functions of the analysis return what the Python code does, on generated columns."""

from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ikeanalyze import core
from ikeanalyze.analysis.exchanges import init_messages
from ikeanalyze.analysis.exchanges.answers import end_in_order
from ikeanalyze.analysis.exchanges.datagram_summary import summarise_datagrams
from ikeanalyze.analysis.exchanges.exchanges import pair_exchanges
from ikeanalyze.analysis.exchanges.unprotected import find_unprotected_exchanges
from ikeanalyze.analysis.grouping import find_distinct
from ikeanalyze.analysis.messages.association import SaAssociation, find_contradicted_flags, group_by_spi
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.analysis.messages.duplicates import find_duplicates
from ikeanalyze.analysis.messages.messages import group_messages
from ikeanalyze.analysis.tables.handshake_table import sum_phases, sum_volumes
from ikeanalyze.capture.buffers import LAYOUT, MessageBytes
from ikeanalyze.capture.decode.classify import Protocol
from tests.craft import Handshake

seeds = st.integers(0, 2**32)
MS = 1_000_000


def without_core(function, *arguments):
    """The result of the Python code."""
    compiled, core.compiled = core.compiled, None
    try:
        return function(*arguments)
    finally:
        core.compiled = compiled


def assert_equal_columns(ours, theirs):
    for name in type(theirs).__struct_fields__:
        one, other = getattr(ours, name), getattr(theirs, name)
        assert np.array_equal(one, other), name
        assert one.dtype == other.dtype, name


def make_datagrams(rng: np.random.Generator, count: int, *, protocols=(Protocol.IKEV2, Protocol.IKEV1)) -> Datagrams:
    """Datagrams of few hosts, SPIs, slots and contents, so that all of them come again."""

    def choose(values, dtype):
        return rng.choice(np.array(values, dtype), count)

    several = rng.random() < 0.3
    ip_fragments = rng.random() < 0.3
    fragmented = rng.random() < 0.7
    times = np.cumsum(rng.choice([0, 20_000, MS, 600 * MS, 4_000 * MS], count))
    fragment = choose([0, 0, 1, 1, 2, 2, 3], np.uint16) if fragmented else np.zeros(count, np.uint16)
    total = np.where(fragment > 0, choose([2, 3, 3, 3, 0], np.uint16), 0).astype(np.uint16)
    size = rng.integers(60, 1500, count)
    nothing = np.broadcast_to(np.int64(0), count)
    return Datagrams(
        datagram=np.arange(count, dtype=np.uint32),
        first_ns=times,
        last_ns=times + rng.integers(0, MS, count),
        number=rng.permutation(count).astype(np.uint32) + np.uint32(1),
        frames=rng.integers(1, 4, count) if several else np.broadcast_to(np.int64(1), count),
        bytes=size,
        resent_bytes=rng.integers(0, 2, count) * 60 if several else nothing,
        ip_fragments=choose([0, 0, 2], np.int64) if ip_fragments else nothing,
        protocol=choose(protocols, np.uint8),
        source=choose([1, 2, (1 << 32) + 1], np.uint64),
        source_port=choose([500, 500, 500, 4500], np.uint16),
        destination=choose([1, 2, 2], np.uint64),
        destination_port=choose([500, 500, 500, 4500], np.uint16),
        ttl=choose([64, 63], np.uint8),
        spi_i=choose([0, 5, 6, 7, 8, 9, 10, 11, 2**64 - 1], np.uint64),
        spi_r=choose([0, 0, 3], np.uint64),
        next_payload=choose([33, 41, 46, 53], np.uint8),
        exchange_type=choose([2, 5, 34, 35, 38], np.uint8),
        flags=choose([0x00, 0x08, 0x20, 0x28], np.uint8),
        message_id=choose([0, 0, 1, 70_000], np.uint32),
        fragment=fragment,
        fragments=total,
        digest=choose(range(1, 8), np.uint64),
        scope=np.zeros(count, np.uint32) if rng.random() < 0.8 else choose([0, 1, 2], np.uint32),
    )


@settings(max_examples=50)
@given(seeds)
def test_distinct_values(seed):
    values = np.random.default_rng(seed).integers(0, 2**64, 100, np.uint64) % np.uint64(seed % 50 + 1)
    for distinct, place in (find_distinct(values), without_core(find_distinct, values)):
        assert np.array_equal(distinct[place], values)
        assert sorted(distinct.tolist()) == np.unique(values).tolist()


@settings(max_examples=200)
@given(seeds)
def test_duplicate_frames(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 60))
    columns = {name: np.zeros(count, dtype) for name, dtype in LAYOUT.items()}
    columns["datagram"] = np.arange(count, dtype=np.uint32)
    columns["time_ns"] = np.cumsum(rng.choice([0, 100, MS, 200 * MS, 5_000 * MS, -MS], count)).astype(np.int64)
    columns["digest"] = rng.integers(0, 9, count).astype(np.uint64)
    for name, values in (("ttl", (64, 63)), ("interface", (0, 1)), ("ip_id", (0, 7)), ("source", (1, 2))):
        columns[name] = rng.choice(values, count).astype(LAYOUT[name])
    ours, theirs = find_duplicates(columns), without_core(find_duplicates, columns)
    assert np.array_equal(ours.mask, theirs.mask)
    assert ours.pairs == theirs.pairs
    assert ours.repeated == theirs.repeated


@settings(max_examples=200)
@given(seeds)
def test_groups_of_one_initiator_spi(seed):
    rng = np.random.default_rng(seed)
    datagrams = make_datagrams(rng, int(rng.integers(1, 40)))
    if rng.random() < 0.5:  # mostly one IKE SA for each SPI
        datagrams = replace(
            datagrams,
            protocol=np.zeros(len(datagrams), np.uint8),
            digest=datagrams.spi_i,
            source=datagrams.spi_i,
            source_port=np.full(len(datagrams), 500, np.uint16),
            flags=np.full(len(datagrams), 0x08, np.uint8),
        )
    (label, ambiguous), (their_label, theirs) = group_by_spi(datagrams), without_core(group_by_spi, datagrams)
    assert label.tolist() == their_label.tolist()
    assert ambiguous.tolist() == theirs.tolist()


@settings(max_examples=200)
@given(seeds)
def test_flags_that_contradict_the_addresses(seed):
    rng = np.random.default_rng(seed)
    datagrams = make_datagrams(rng, int(rng.integers(1, 40)), protocols=(Protocol.IKEV2,) * 5 + (Protocol.IKEV1,))
    handshake, count = rng.integers(0, 4, len(datagrams), np.int32), 4
    ours = find_contradicted_flags(datagrams, handshake, count)
    theirs = without_core(find_contradicted_flags, datagrams, handshake, count)
    assert (ours.tolist(), ours.dtype) == (theirs.tolist(), theirs.dtype)


def test_some_generated_flags_contradict_the_addresses():
    rng = np.random.default_rng(0)
    assert len(find_contradicted_flags(make_datagrams(rng, 500), rng.integers(0, 40, 500, np.int32), 40))


@settings(max_examples=300)
@given(seeds)
def test_the_core_groups_messages_as_python_does(seed):
    rng = np.random.default_rng(seed)
    datagrams = make_datagrams(rng, int(rng.integers(1, 80)))
    handshake = rng.integers(0, 4, len(datagrams))
    association = SaAssociation(handshake.astype(np.int32), datagrams.source > 1, 5)
    incomplete = rng.random(len(datagrams)) < rng.choice([0, 0.2])
    (ours, of_datagram), (theirs, expected) = (
        group_messages(datagrams, association, incomplete),
        without_core(group_messages, datagrams, association, incomplete),
    )
    assert_equal_columns(ours, theirs)
    assert of_datagram.tolist() == expected.tolist()


def group(seed):
    """Messages of generated datagrams of a few IKE SAs."""
    rng = np.random.default_rng(seed)
    datagrams = make_datagrams(rng, int(rng.integers(1, 80)))
    association = SaAssociation(rng.integers(0, 4, len(datagrams), np.int32), datagrams.source > 1, 5)
    return group_messages(datagrams, association)[0], rng


def test_messages_that_two_threads_sum():
    datagrams = make_datagrams(np.random.default_rng(3), 70_000)
    association = SaAssociation(np.arange(70_000, dtype=np.int32) // 9, datagrams.source > 1, 7778)
    (ours, of_datagram), (theirs, expected) = (
        group_messages(datagrams, association),
        without_core(group_messages, datagrams, association),
    )
    assert_equal_columns(ours, theirs)
    assert np.array_equal(of_datagram, expected)


@settings(max_examples=300)
@given(seeds)
@example(536095830)  # the response that accepts a request does not count itself
def test_exchanges_and_their_endings(seed):
    messages, _ = group(seed)
    (ours, of_message), (theirs, expected) = pair_exchanges(messages), without_core(pair_exchanges, messages)
    assert_equal_columns(ours, theirs)
    assert of_message.tolist() == expected.tolist()
    responses = np.flatnonzero(messages.response)
    in_clear = responses[np.random.default_rng(seed).random(len(responses)) < 0.1]
    unprotected = find_unprotected_exchanges(theirs, messages, expected, in_clear)
    state = SimpleNamespace(
        exchanges=theirs,
        messages=messages,
        exchange_of_message=expected,
        in_clear=in_clear,
        unprotected=unprotected,
    )
    assert_equal_columns(end_in_order(state), without_core(end_in_order, state))


@settings(max_examples=200)
@given(seeds)
def test_sums_of_handshakes(seed):
    messages, rng = group(seed)
    set_up = rng.random(len(messages)) < 0.7
    ours, theirs = sum_volumes(messages, set_up, 5), without_core(sum_volumes, messages, set_up, 5)
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        assert ours[name].tolist() == values.tolist(), name
        assert ours[name].dtype == values.dtype, name
    phases = sum_phases(messages, set_up, 5), without_core(sum_phases, messages, set_up, 5)
    assert_equal_columns(*phases)


def make_init_messages(rng: Random) -> list[bytes]:
    """IKE_SA_INIT messages of some handshakes, some of them with a few other bytes, one byte less, or nothing."""
    data: list[bytes] = []
    for number in range(rng.randrange(1, 8)):
        for message in Handshake(number).setup()[:2]:
            changed = bytearray(message.ike[0])
            for _ in range(rng.choice((0, 0, 1, 3))):
                changed[rng.randrange(16, len(changed))] = rng.randrange(256)
            data.append(bytes(changed[: len(changed) - rng.choice((0, 0, 0, 1, 400))]))
    return data


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_forms_and_nat_hashes(seed):
    messages = make_init_messages(Random(seed))
    datagrams = make_datagrams(np.random.default_rng(seed), len(messages), protocols=(Protocol.IKEV2,))
    hosts = np.array([0xC0000201, 0xC0000202, 1 << 32, (1 << 32) + 1 + (1 << 33)], np.uint64)
    datagrams = replace(
        datagrams,
        exchange_type=np.full(len(messages), 34, np.uint8),
        source=hosts[datagrams.message_id % 3 + datagrams.fragment % 2],
        destination=hosts[datagrams.message_id % 2 + datagrams.ttl % 3],
        source_port=np.full(len(messages), 500, np.uint16),
    )
    clear = MessageBytes()
    for number, data in enumerate(messages):
        buffer = np.frombuffer(data, np.uint8)
        clear.add(np.array([number], np.uint32), buffer, np.array([0]), np.array([len(data)]))
    ipv6 = [bytes(16), bytes(range(16))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(init_messages, "_MAX_FORMS", seed % 3 + 1)
        ours = init_messages.parse_init_messages(datagrams, clear, ipv6)
        theirs = without_core(init_messages.parse_init_messages, datagrams, clear, ipv6)
    for name in ("rows", "form", "sender_differs", "receiver_differs"):
        assert getattr(ours, name).tolist() == getattr(theirs, name).tolist(), name
    assert ours.views == theirs.views


@settings(max_examples=200, deadline=None)
@given(seeds, st.integers(0, 40))
def test_summaries_of_datagrams(seed, count):
    rng = np.random.default_rng(seed)
    datagrams = make_datagrams(rng, count, protocols=(Protocol.IKEV2, Protocol.IKEV1, Protocol.HIP))
    datagrams = replace(datagrams, next_payload=rng.choice(np.array([33, 41, 46], np.uint8), count))
    association = SaAssociation(rng.integers(0, 4, count, np.int32), rng.random(count) < 0.5, 4)
    ours = summarise_datagrams(datagrams, association)
    theirs = without_core(summarise_datagrams, datagrams, association)
    for name in theirs.__struct_fields__:
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype
        assert getattr(ours, name).tolist() == getattr(theirs, name).tolist(), name
    assert association.find_first_rows().tolist() == without_core(association.find_first_rows).tolist()


def test_wrong_columns_are_python_errors():
    datagrams = make_datagrams(np.random.default_rng(0), 3)
    association = SaAssociation(np.array([0, 0, -1], np.int32), np.ones(3, np.bool_), 1)
    with pytest.raises(ValueError, match="negative"):
        group_messages(datagrams, association)
    with pytest.raises(ValueError, match="no handshake"):
        summarise_datagrams(datagrams, association)
    with pytest.raises(ValueError, match="no handshake"):
        association.find_first_rows()
    with pytest.raises(ValueError, match="no handshake"):
        find_contradicted_flags(datagrams, association.handshake, 1)
    with pytest.raises(ValueError, match="length"):
        group_messages(replace(datagrams, digest=datagrams.digest[:2].copy()), replace(association, count=1))
    with pytest.raises(TypeError):
        group_by_spi(replace(datagrams, flags=datagrams.flags.astype(np.int64)))
    messages, _ = group(0)
    with pytest.raises(ValueError, match="no handshake"):
        sum_volumes(messages, messages.response, 0)
    with pytest.raises(ValueError, match="outside"):
        core.compiled.fit_form(np.zeros(4, np.uint8), np.array([2]), b"abc", np.array([0]), np.array([1]))

import numpy as np

from ikeanalyze.capture.decode.incomplete_datagrams import share_digests

NAMES = (
    "protocol", "spi_i", "spi_r", "next_payload", "exchange_type", "flags", "message_id", "ike_bytes",
    "fragment", "fragments",
)  # fmt: skip


def digests(
    datagrams: list[int], headers: list[int], incomplete: set[int], clear: dict[int, bytes] | None = None
) -> list[int]:
    """Digests 100, 101, ... of frames of these datagrams; `headers`: lengths of the messages, else equal."""
    columns: dict[str, np.ndarray] = {name: np.ones(len(datagrams), np.uint32) for name in NAMES}
    columns["ike_bytes"] = np.array(headers, np.uint32)
    columns["datagram"] = np.array(datagrams, np.uint32)
    columns["digest"] = np.array(datagrams, np.uint64) + np.uint64(100)
    share_digests(columns, incomplete, clear or {})
    return [digest - 100 for digest in columns["digest"].tolist()]


def test_whole_messages_are_left_alone() -> None:
    assert digests([0, 1, 2], [5, 5, 5], set()) == [0, 1, 2]


def test_an_incomplete_datagram_gets_the_digest_of_a_whole_one() -> None:
    assert digests([0, 0, 1], [5, 5, 5], {0}) == [1, 1, 1]
    assert digests([0, 1, 2, 2], [5, 5, 5, 5], {1}) == [0, 0, 2, 2]
    assert digests([0, 1], [5, 6], {0}) == [0, 1]


def test_incomplete_datagrams_of_one_message_share_a_digest() -> None:
    assert digests([0, 1, 2], [5, 5, 6], {0, 1, 2}) == [0, 0, 2]
    assert digests([0, 1, 2], [5, 5, 5], {0, 1}) == [2, 2, 2]


def test_clear_payloads_must_agree_as_far_as_captured() -> None:
    clear = {0: b"abcd", 1: b"xbcdef", 2: b"abcdef", 3: b"abc"}
    assert digests([0, 1, 2, 3], [5] * 4, {0, 3}, clear) == [2, 1, 2, 2]
    assert digests([0, 1], [5] * 2, {0, 1}, clear) == [0, 1]
    assert digests([0, 3], [5] * 2, {0, 3}, clear) == [0, 0]

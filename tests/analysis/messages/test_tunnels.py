import numpy as np

from ikeanalyze.analysis.messages.tunnels import name_tunnels, separate_tunnels

A, B, C = 1, 2, 3


def columns_of(*frames):
    """Frames as (source, destination, SPIi, tunnel)."""
    source, destination, spi, tunnel = (np.array(column) for column in zip(*frames, strict=True))
    return {
        "source": source.astype(np.uint64),
        "destination": destination.astype(np.uint64),
        "spi_i": spi.astype(np.uint64),
        "tunnel": tunnel.astype(np.uint32),
    }


def scopes(*frames):
    return separate_tunnels(columns_of(*frames)).tolist()


def test_outside_of_tunnels_nothing_is_separated():
    assert separate_tunnels(columns_of((A, B, 7, 0), (B, A, 7, 0))) is None


def test_tunnels_with_both_directions_stand_alone():
    assert scopes((A, B, 7, 1), (B, A, 7, 1), (A, B, 7, 2), (B, A, 7, 2)) == [1, 1, 2, 2]
    assert scopes((A, B, 7, 1), (B, A, 7, 1), (A, B, 7, 0), (B, A, 7, 0)) == [1, 1, 0, 0]


def test_tunnels_of_one_direction_belong_together():
    assert scopes((A, B, 7, 5), (B, A, 7, 4)) == [4, 4]
    assert scopes((A, B, 7, 5), (B, A, 7, 0)) == [0, 0]
    assert scopes((A, B, 7, 5), (B, A, 7, 4), (A, B, 7, 1), (B, A, 7, 1)) == [4, 4, 1, 1]


def test_requests_without_responses_stay_in_their_tunnels():
    assert scopes((A, B, 7, 1), (A, B, 7, 2)) == [1, 2]


def test_other_hosts_and_spis_do_not_matter():
    assert scopes((A, B, 7, 1), (C, A, 7, 2), (B, A, 8, 3)) == [1, 2, 3]


def test_names_of_the_tunnels_of_a_handshake():
    columns = columns_of((A, B, 7, 2), (B, A, 7, 1), (A, B, 7, 2), (A, B, 8, 0), (A, B, 9, 1))
    handshake = np.array([0, 0, 0, 1, -1], np.int32)
    assert name_tunnels(columns, handshake, ["gtp:8", "gtp:9"]) == {0: "gtp:9, gtp:8"}

import numpy as np
import pytest

from ikeanalyze.model.retransmission_policy import (
    ExponentialTimers,
    LibreswanTimers,
    PolicyError,
    RetransmissionPolicy,
    StrongswanTimers,
    parse_policy,
)


def test_strongswan_waits_as_its_documentation_says():
    # config/retransmission of its documentation: relative and absolute timeouts, rounded to seconds
    waits = StrongswanTimers().make_policy().draw_timeouts()
    assert [round(wait) for wait in waits] == [4, 7, 13, 23, 42, 76]
    assert [int(wait) for wait in np.cumsum(waits)] == [4, 11, 24, 47, 89, 165]


def test_strongswan_limits_and_jitter():
    assert list(StrongswanTimers(tries=3, limit=10).make_policy().draw_timeouts()) == [4, 7.2, 10, 10]
    policy = StrongswanTimers(jitter=20).make_policy()
    assert list(policy.draw_timeouts()) == list(StrongswanTimers().make_policy().draw_timeouts())
    many = policy.draw_timeouts(np.random.default_rng(1), 10_000)
    assert many.shape == (10_000, 6)
    share = many / policy.draw_timeouts()
    assert (share > 0.8).all()
    assert (share <= 1).all()
    assert abs(share.mean() - 0.9) < 0.002  # uniform in (0.8, 1]: 60,000 draws, sigma of the mean 0.0002


def test_libreswan_waits_as_pluto_does():
    # by hand from retransmit.c with 500 ms and 60 s: the first interval twice, and the end is past 60 s
    assert list(LibreswanTimers().make_policy().draw_timeouts()) == [0.5, 0.5, 1, 2, 4, 8, 16, 32]
    # the wait is not doubled to the timeout or beyond
    assert list(LibreswanTimers(interval=1, timeout=4).make_policy().draw_timeouts()) == [1, 1, 2]
    assert list(LibreswanTimers(interval=0.5, timeout=0.5).make_policy().draw_timeouts()) == [0.5]
    assert list(LibreswanTimers(interval=3, timeout=5).make_policy().draw_timeouts()) == [3, 3]
    assert LibreswanTimers(interval=0.001, timeout=60).make_policy().tries == 12


def test_times_of_many_are_copies():
    policy = ExponentialTimers(tries=2).make_policy()
    many = policy.draw_timeouts(count=3)
    many[0, 0] = 99
    assert policy.draw_timeouts(count=3).tolist() == [[1, 2, 4]] * 3


def test_names_and_parameters():
    assert parse_policy("strongswan") == StrongswanTimers().make_policy()
    assert parse_policy("libreswan:interval=1,timeout=30") == LibreswanTimers(interval=1, timeout=30).make_policy()
    policy = parse_policy("exponential:timeout=0.5,base=1,tries=3,jitter=10")
    assert policy == RetransmissionPolicy("exponential", (0.5, 0.5, 0.5, 0.5), 0.1)


def test_a_policy_is_read_from_a_file(tmp_path):
    path = tmp_path / "slow.toml"
    path.write_text('kind = "table"\nwaits = [1, 2.5]\n')
    assert parse_policy(str(path)) == RetransmissionPolicy("slow", (1.0, 2.5))
    path.write_text('kind = "strongswan"\ntries = 1\njitter = 10\n')
    assert parse_policy(str(path)) == RetransmissionPolicy("slow", (4.0, 7.2), 0.1)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("cisco", "neither strongswan, libreswan, exponential nor a readable file"),
        ("table", "nor a readable file"),
        ("strongswan:tries", "'tries' is not a parameter"),
        (
            "strongswan:retries=2",
            "unknown key retries; did you mean tries? allowed are timeout, base, tries, jitter, limit",
        ),
        ("strongswan:jitter=21", "0 to 20 percent"),
        ("exponential:name=3", "unknown key name"),
        ("exponential:tries=51", "0 to 50"),
        ("exponential:tries=1.5", "0 to 50"),
        ("exponential:tries=nan", "tries must be an integer from 0 to 50"),
        ("exponential:timeout=0", "0.001 to 7200 seconds"),
        ("exponential:base=0.5", "1 to 10"),
        ("exponential:limit=0.0001", "limit must be 0 or at least 0.001 seconds"),
        ("exponential:timeout=100,base=10,tries=10", "the waits add up to"),
        ("libreswan:interval=-1", "0.001"),
        ("strongswan:timeout=2, timeout=3", "timeout is given twice"),
    ],
)
def test_impossible_policies_are_rejected(text, what):
    with pytest.raises(PolicyError) as error:
        parse_policy(text)
    assert what in str(error.value)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b'kind = "x"', "one of kind = 'strongswan'"),
        (b"kind = [1]", "one of kind = 'strongswan'"),
        (b"kind =", "not TOML"),
        (b'kind = "strongswan"\ntries = 1' + b"0" * 400, "tries must be an integer"),
        (b"\xff", "not TOML"),
        (b'kind = "table"', "waits"),
        (b'kind = "table"\nwaits = []', "list of 1 to 51"),
        (b'kind = "table"\nwaits = [1, "x"]', "waits[1] must be a number"),
        (b'kind = "table"\nwaits = [1, true]', "waits[1] must be a number"),
        (b'kind = "table"\nwaits = [0x' + b"f" * 5000 + b"]", "waits[0] must be a number"),
        (b'kind = "table"\nwaits = [1' + b"0" * 5000 + b"]", "not TOML: it has a number of thousands"),
        (b'kind = "strongswan"\ntries = "5"', "tries must be an integer"),
        (b'kind = "strongswan"\n[x]\n', "unknown key x"),
        (b"#" * 1_050_000, "larger than 1,048,576 bytes"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, content, what):
    path = tmp_path / "p.toml"
    path.write_bytes(content)
    with pytest.raises(PolicyError) as error:
        parse_policy(str(path))
    assert what in str(error.value)
    assert str(path) in str(error.value)

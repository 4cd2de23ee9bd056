"""Which captures are divided, and into how many buckets."""

import gzip

import pytest

from ikeanalyze.dataset.buckets.plan import measure_captures, measure_memory, plan_buckets

GIB = 1 << 30


def test_a_capture_that_fits_is_not_divided():
    assert plan_buckets(GIB, 4, 2 * GIB) is None
    assert plan_buckets(measure_memory() // 8, 4, None) is None


def test_a_capture_that_needs_a_quarter_of_memory_is_divided():
    assert plan_buckets(measure_memory(), 1, None) is not None


def test_more_memory_means_fewer_buckets():
    counts = [plan_buckets(10 * GIB, 1, limit).buckets for limit in (GIB // 2, GIB, 4 * GIB)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 20


def test_processes_share_the_memory():
    plan = plan_buckets(10 * GIB, 4, 2 * GIB)
    assert plan.jobs == 4
    assert plan.buckets > plan_buckets(10 * GIB, 1, 2 * GIB).buckets
    assert plan.buckets % 4 == 0
    assert plan_buckets(10 * GIB, 64, GIB).jobs < 6  # each needs its libraries


def test_sizes_of_files(tmp_path):
    plain, packed = tmp_path / "a.pcap", tmp_path / "a.pcap.gz"
    plain.write_bytes(b"x" * 1000)
    packed.write_bytes(gzip.compress(b"x" * 1000))
    assert measure_captures([str(plain), str(plain)]) == 2000
    assert measure_captures([str(packed)]) > packed.stat().st_size


@pytest.mark.parametrize("path", ["-", "/nonexistent", "/dev/null"])
def test_the_size_of_other_inputs_is_unknown(path):
    assert measure_captures([path]) is None

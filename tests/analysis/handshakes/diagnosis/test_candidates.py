"""Time stamps that go back between packets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.analysis.handshakes.diagnosis.candidates import measure_steps_back

times = st.integers(-(2**61), 2**61) | st.integers(0, 9)


@given(st.lists(st.lists(times, min_size=1, max_size=8), max_size=6))
def test_each_time_is_held_against_the_latest_one_before_it_in_its_group(groups):
    rows = [time for group in groups for time in group]
    numbers = [number for number, group in enumerate(groups) for _ in group]
    expected = [max(group[: at + 1]) - time for group in groups for at, time in enumerate(group)]
    steps = measure_steps_back(np.array(rows, np.int64), np.array(numbers, np.int64))
    assert steps.tolist() == expected

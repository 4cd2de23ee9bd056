"""What a large flood takes in memory."""

import pytest

from tests.floods.generate import half_open
from tests.floods.measure import measure

pytestmark = [pytest.mark.alone, pytest.mark.large]


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("flood") / "flood.pcap"
    path.write_bytes(half_open(1_000_000))
    return path


@pytest.mark.parametrize("form", ["terminal", "csv"])
def test_a_million_half_open_handshakes(capture, form):
    cost = measure(["report", str(capture), "--quiet", "--format", form])
    assert 0.5e9 < cost.peak < 1e9  # 0.93 GB when this was written

"""The handshakes that the diagnosis looks at are all that its rules concern."""

from random import Random

import numpy as np
import pytest

from ikeanalyze.analysis import pipeline
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.capture.decode.classify import Protocol
from tests.core.inputs import generate
from tests.paths import CAPTURES, LAB_CAPTURES


def choose_all(handshakes, *_):
    return np.asarray(~handshakes.rekeyed & (handshakes.protocol <= int(Protocol.IKEV1)))


def assert_nothing_is_missed(paths, monkeypatch):
    expected = read_captures(paths).handshakes
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "find_suspects", choose_all)
        assert read_captures(paths).handshakes["diagnosis"].to_list() == expected["diagnosis"].to_list()


@pytest.mark.parametrize("folder", [CAPTURES, LAB_CAPTURES], ids=lambda folder: folder.name)
def test_of_recorded_captures(folder, monkeypatch):
    assert_nothing_is_missed(sorted(folder.glob("*.pcap*")), monkeypatch)


@pytest.mark.parametrize("seed", range(8))
def test_of_damaged_and_hostile_captures(seed, tmp_path, monkeypatch):
    random = Random(seed)
    paths = [tmp_path / f"{number}.pcap" for number in range(8)]
    for path in paths:
        path.write_bytes(generate(random))
    assert_nothing_is_missed(paths, monkeypatch)

import hashlib
from random import Random

import numpy as np
import pytest

from ikeanalyze.analysis import sha1 as module
from ikeanalyze.analysis.sha1 import LONGEST, sha1


@pytest.mark.parametrize("at_once", [1, 7, 8192])
def test_it_equals_hashlib(at_once, monkeypatch):
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    rng = Random(1)
    messages = [rng.randbytes(size) for size in range(LONGEST + 1)] + [bytes(22), bytes([255]) * LONGEST]
    rows = np.zeros((len(messages), LONGEST), np.uint8)
    for row, message in zip(rows, messages, strict=True):
        row[: len(message)] = np.frombuffer(message, np.uint8)
    digests = sha1(rows, np.array([len(message) for message in messages]))
    assert [digest.tobytes() for digest in digests] == [
        hashlib.sha1(message).digest() for message in messages
    ]


def test_none():
    assert sha1(np.zeros((0, 22), np.uint8), np.zeros(0, np.int64)).shape == (0, 20)

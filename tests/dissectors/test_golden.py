"""What the plugin shows of the recorded captures, to the letter, in every tshark.

UPDATE_GOLDEN=1 writes the files anew (from whichever tshark is asked first).
"""

import os
from pathlib import Path

import pytest

from tests.dissectors.asked import COLUMNS, RECORDED, recorded_frames, recorded_statistics, tree
from tests.dissectors.keysets import keys_of
from tests.paths import CAPTURES

GOLDEN = Path(__file__).parent / "golden"
#: Captures of which all details are shown; of the others there is a line a frame.
IN_FULL = ("invalid-ke.pcap", "nat-any.pcap", "pq-mlkem768-psk.pcap")


def check(name, text):
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", RECORDED)
def test_frames(tshark, name):
    lines = [COLUMNS, *recorded_frames(tshark, name)]
    check(f"{name.split('.')[0]}.frames", "\n".join("\t".join(line).rstrip() for line in lines) + "\n")


@pytest.mark.parametrize("name", RECORDED)
def test_statistics(tshark, name):
    handshakes, exchanges = recorded_statistics(tshark, name)
    check(f"{name.split('.')[0]}.statistics", "\n".join([*handshakes, *exchanges]) + "\n")


@pytest.mark.parametrize("name", IN_FULL)
def test_details(tshark, name):
    check(f"{name.split('.')[0]}.details", tree(tshark, CAPTURES / name))


@pytest.mark.parametrize("tshark", ["forky"], indirect=True)
@pytest.mark.parametrize("name", IN_FULL[::2])
def test_details_with_keys(tshark, name):
    text = tree(tshark, CAPTURES / name, keys=keys_of(name))
    check(f"{name.split('.')[0]}.keys", text)

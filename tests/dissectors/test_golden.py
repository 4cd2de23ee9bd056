"""The plugin's exact output for the recorded captures, in every tshark.

UPDATE_GOLDEN=1 writes the expected files again.
"""

import os
from pathlib import Path

import pytest

from tests.dissectors.key_files import keys_of
from tests.dissectors.run_plugin import COLUMNS, RECORDED, recorded_frames, recorded_statistics, tree
from tests.paths import CAPTURES

GOLDEN = Path(__file__).parent / "golden"
#: Captures whose packet details are compared; for the others, one line per frame.
WITH_DETAILS = ("invalid-ke.pcap", "nat-any.pcap", "pq-mlkem768-psk.pcap")


def compare_with_golden(name, text):
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", RECORDED)
def test_fields_of_each_frame_equal_the_golden_file(tshark, name):
    lines = [COLUMNS, *recorded_frames(tshark, name)]
    compare_with_golden(f"{name.split('.')[0]}.frames", "\n".join("\t".join(line).rstrip() for line in lines) + "\n")


@pytest.mark.parametrize("name", RECORDED)
def test_statistics_equal_the_golden_file(tshark, name):
    handshakes, exchanges = recorded_statistics(tshark, name)
    compare_with_golden(f"{name.split('.')[0]}.statistics", "\n".join([*handshakes, *exchanges]) + "\n")


@pytest.mark.parametrize("name", WITH_DETAILS)
def test_details_equal_the_golden_file(tshark, name):
    compare_with_golden(f"{name.split('.')[0]}.details", tree(tshark, CAPTURES / name))


@pytest.mark.parametrize("name", WITH_DETAILS[::2])
def test_details_of_decrypted_messages_equal_the_golden_file(tshark, name):
    text = tree(tshark, CAPTURES / name, keys=keys_of(name))
    compare_with_golden(f"{name.split('.')[0]}.keys", text)

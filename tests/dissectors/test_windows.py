"""Every window and menu of the plugin opens in Wireshark's window; `make windows` installs what these tests need."""

import gzip
import re

import pytest

from tests.dissectors.test_live import make_handshake
from tests.dissectors.windows import (
    TREES,
    feed_capture,
    find_wireshark,
    open_capture,
    open_expert_info,
    open_flow_graph,
    open_packet_menu,
    open_preferences,
    open_screen,
    open_statistics,
)
from tests.paths import CAPTURES

pytestmark = pytest.mark.window

CAPTURE = CAPTURES / "loss20-classic.pcap"
KEYS = CAPTURES / "pq-mlkem768-psk.charon.log.gz"
#: The items of Statistics, IKE, and the titles of their windows.
WINDOWS = (
    "IKE handshakes$", "IKE handshakes in full$", "IKE diagnosis$", "IKE messages$", "IKE exchanges$",
    "Save decrypted capture$",
)  # fmt: skip
#: The color of notes in Wireshark's window of expert infos (epan/expert.c).
NOTE = "A0FFFF"
#: The color of rows that lack a fragment (profiles/IKE/colorfilters).
MISSING = "FFCCCC"


@pytest.fixture(params=TREES)
def wireshark(request):
    tree = find_wireshark(request.param)
    if isinstance(tree, str):
        pytest.skip(tree)
    return tree


def check_errors(screen):
    assert not re.search(r"[Ll]ua|ikex", screen.errors()), screen.errors()


def test_every_window_of_the_statistics_opens(wireshark):
    with open_screen(wireshark, keys=gzip.decompress(KEYS.read_bytes())) as screen:
        open_capture(screen, CAPTURE)
        for number, title in enumerate(WINDOWS):
            open_statistics(screen, number, title)
            screen.press("Escape")
            screen.focus(CAPTURE.name)
        check_errors(screen)


def test_the_decrypted_capture_has_all_digits_of_the_times(wireshark):
    """The command that decrypts gets the packets as a pcap file with nanoseconds, and its output is opened."""
    capture = CAPTURES / "faults/aaa-rejects.pcapng"  # of two interfaces
    with open_screen(wireshark, keys=gzip.decompress(KEYS.read_bytes())) as screen:
        command = screen.room.put("copy", '#!/bin/sh\ncp "$2" "$7"\n')  # decrypt CAPTURE --quiet --keys FILE -o OUTPUT
        command.chmod(0o755)
        open_capture(screen, capture, "-o", f"ikex.command:{command}")
        open_statistics(screen, 5, WINDOWS[5])
        screen.press("ctrl+a")
        screen.type("~/decrypted.pcapng")
        screen.press("Return")
        screen.wait_for(r"decrypted\.pcapng$")
        check_errors(screen)
        data = (screen.room.path / "home/decrypted.pcapng").read_bytes()
        times = ("-Tfields", "-e", "frame.time_epoch")
        expected = screen.room.run(*times, capture=capture).lines
        assert data[:4] == (0xA1B23C4D).to_bytes(4, "little")  # pcap with nanoseconds
        assert screen.room.run(*times, capture=data).lines == expected


def test_the_menu_of_a_packet_shows_its_handshake(wireshark):
    if wireshark.version < (4, 2, 0):
        pytest.skip("Lua has no menus of packets in this version")
    with open_screen(wireshark) as screen:
        open_capture(screen, CAPTURE)
        open_packet_menu(screen, 1)
        screen.wait_for("IKE handshake 1$")
        check_errors(screen)


def test_expert_information_lists_what_the_plugin_noticed(wireshark):
    with open_screen(wireshark) as screen:
        open_capture(screen, CAPTURE)
        open_expert_info(screen)
        assert screen.count_pixels(NOTE) > 1000
        check_errors(screen)


def test_problems_of_a_key_file_are_in_one_window(wireshark):
    """Another table, say, has a problem in each line."""
    rows = "".join(f"{number:016x},{number:016x},aa,bb\n" for number in range(30))
    with open_screen(wireshark, keys=rows.encode()) as screen:
        open_capture(screen, CAPTURE)
        assert screen.active() == "Wireshark"
        screen.press("Return")
        assert screen.active() == CAPTURE.name
        screen.press("ctrl+r")  # they are known
        screen.wait_for(CAPTURE.name)
        assert screen.active() == CAPTURE.name
        check_errors(screen)


@pytest.mark.parametrize("open_window", [open_preferences, open_flow_graph])
def test_windows_of_wireshark_open_with_the_plugin(wireshark, open_window):
    with open_screen(wireshark) as screen:
        open_capture(screen, CAPTURE)
        open_window(screen)
        check_errors(screen)


def test_rows_that_lack_a_fragment_have_a_color_of_their_own(wireshark, tmp_path):
    with open_screen(wireshark) as screen:
        open_capture(screen, make_handshake(tmp_path / "capture.pcap", left_out=(4,)))
        assert screen.count_pixels(MISSING) > 1000


def test_no_row_of_a_running_capture_is_painted_as_if_it_lacked_a_fragment(wireshark):
    with open_screen(wireshark) as screen:
        feed_capture(screen, CAPTURES / "pq-loss15.pcap", 6)
        assert screen.count_pixels(MISSING) == 0
        check_errors(screen)

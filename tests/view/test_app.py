import json
import os
import re
import threading
import time

import pytest

import ikeanalyze
from ikeanalyze.view.session import CaptureSession
from tests.craft import Handshake, Trace
from tests.craft.hip import Association
from tests.paths import CAPTURES
from tests.view.driven import browsed, drive

LOSSY = "lab/loss20.pcapng"
KEYS = "lab/loss20.keys.json"


def manifest(name: str) -> dict:
    return json.loads((CAPTURES / f"{name}.manifest.json").read_text())


def test_the_list_has_the_handshakes_that_the_daemon_made():
    made = manifest("lab/loss20")["handshakes"]

    async def script(driver):
        screen = driver.screen()
        assert f"{len(made)} handshakes" in screen.splitlines()[0]
        rows = [line for line in screen.splitlines() if re.match(r"[* ] *\d+ \d\d:\d\d:", line)]
        assert len(rows) == len(made)
        assert all("established" in row for row in rows)
        for one in made:
            assert f"{one['spi_i']} {one['spi_r']}" in driver.screen()
            await driver.press("down")

    drive(browsed(LOSSY, KEYS), script)


def test_a_ladder_with_the_payloads_of_the_message_under_the_cursor():
    truth = json.loads((CAPTURES / "pq-mlkem768-psk.truth.json").read_text())
    (names,) = (line[4] for line in truth["ini"] if line[:4] == ["gen", "IKE_AUTH", "request", 2])

    async def script(driver):
        screen = await driver.press("enter")
        assert [line.count("▶") + line.count("◀") for line in screen.splitlines()].count(1) == 6
        assert "2/2 fragments seen" in screen
        assert "proposal 1" in screen
        screen = await driver.press("down", "down", "down", "down")
        shown = driver.app.screen.query_one("#message").text.splitlines()
        assert shown[0] == "IKE_AUTH 2 request"
        headings = [line for line in shown if re.match(r"\S+.*  [\d,]+ bytes$", line)]
        assert len(headings) == len(names.split())
        assert [re.match(r"\w+", line)[0] for line in headings] == [re.match(r"\w+", n)[0] for n in names.split()]
        assert "identity  ini" in screen

    drive(browsed("pq-mlkem768-psk.pcap", "pq-mlkem768-psk.charon.log.gz"), script, (120, 50))


def test_ladders_with_three_hosts_are_shown():
    async def script(driver):
        screen = await driver.press("enter")
        assert "responder                 AAA" in screen
        await driver.press(*["down"] * 6)
        shown = driver.app.screen.query_one("#message").text
        assert shown.startswith("Access-Challenge 56\n")
        assert "EAP(Request MD5-Challenge)" in shown

    drive(browsed("eap-md5-radius.pcapng", "eap-md5-radius.keys.json"), script)


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (40, 10)])
def test_any_size_has_its_parts(size):
    async def script(driver):
        lines = (await driver.press("enter")).splitlines()
        assert len(lines) == size[1]
        assert max(map(len, lines)) <= size[0]
        assert "IKE_SA_INIT" in "".join(lines)
        assert driver.app.screen.has_class("wide") == (size[0] >= 110)
        await driver.pilot.resize_terminal(size[0] + 7, size[1] + 3)
        assert len((await driver.settled()).splitlines()) == size[1] + 3
        await driver.press("p", "9", "9", "0", "x", "tab", "G", "escape", "escape")
        assert "10 handshakes" in driver.screen()

    drive(browsed(LOSSY), script, size)


def test_filter_while_typing_and_sort():
    what = browsed("loss20-classic.pcap")
    rows = what.analysis.handshakes.select("handshake", "retransmitted_messages", "setup_ns").rows()
    slowest = sorted((row for row in rows if row[1] > 1), key=lambda row: -row[2])

    async def script(driver):
        listing = driver.app.list_screen.handshake_list
        await driver.press("slash")
        assert listing.entries() == 25
        await driver.type("rtx>")
        assert listing.entries() == 25
        screen = await driver.type("1")
        assert listing.shown == sorted(row[0] for row in slowest)
        assert f"{len(slowest)} of 25 handshakes" in screen
        await driver.press("enter", *["greater_than_sign"] * 7, "z")
        assert listing.columns[listing.sorted_by].name == "set-up, ms"
        assert listing.shown == [row[0] for row in slowest]
        assert (await driver.press("slash", "z", "z")).count("no handshake matches") == 1
        await driver.press("escape", "slash")
        assert "unknown name 'outcom' in 'outcom:'; did you mean outcome?" in await driver.type("outcom:")
        await driver.press("enter", "space", "s", "d", "j")
        assert listing.current is None
        await driver.press("escape")
        assert listing.entries() == 25

    drive(what, script)


def test_two_marked_messages_are_compared_across_handshakes():
    what = browsed("loss20-classic.pcap", "loss20-classic.keys.json")

    async def script(driver):
        await driver.press("enter", "m")
        screen = await driver.press("n", "m")
        assert "< IKE_SA_INIT 0 request  handshake 1, frame 1 " in screen
        # tshark -T fields -e frame.number -e isakmp.ispi: the second SPI comes first in frame 15
        assert "> IKE_SA_INIT 0 request  handshake 2, frame 15 " in screen
        assert "= SA" in screen
        assert "≠ KE(ECP-384)" in screen
        screen = await driver.press("escape")
        assert re.search(r"\n2 +0\.000", screen)
        await driver.press("m", "escape")
        assert "mark two messages" in await driver.press("enter", "d")

    drive(what, script, (100, 40))


def test_bytes_of_encrypted_messages_with_and_without_keys():
    async def script(driver):
        await driver.press("enter", "down", "down", "down", "down", "x")
        clear = driver.app.screen.query_one("#message").text
        assert "frame 7: 267 bytes" in clear  # by the log of the daemon
        assert "decrypted: " in clear
        assert "|....ini" in clear.replace("  ", " ")

    drive(browsed("pq-mlkem768-psk.pcap", "pq-mlkem768-psk.keys.json"), script, (170, 40))

    async def closed(driver):
        await driver.press("enter", "down", "down", "down", "down")
        assert "SK  239 bytes" in driver.app.screen.query_one("#message").text
        await driver.press("x")
        assert "decrypted" not in driver.app.screen.query_one("#message").text

    drive(browsed("pq-mlkem768-psk.pcap"), closed, (170, 40))


def test_a_capture_without_handshakes(tmp_path):
    trace = Trace()
    trace.send(0, bytes(100), sport=1, dport=2)
    path = str(trace.write(tmp_path / "none.pcap"))

    async def script(driver):
        assert "no handshake found" in driver.screen()
        await driver.press("enter", "j", "k", "G", "pagedown", "space", "s", "z", "greater_than_sign", "slash", "x")
        assert "0 handshakes" in driver.screen()

    drive(CaptureSession(path, ikeanalyze.read(path)), script)


def test_help_and_warnings(tmp_path):
    data = (CAPTURES / "psk-classic.pcap").read_bytes()
    (tmp_path / "cut.pcap").write_bytes(data[:-20])
    path = str(tmp_path / "cut.pcap")

    async def script(driver):
        assert "the handshake as a ladder" in await driver.press("question_mark")
        await driver.press("escape")
        assert "the file ends inside a packet" in await driver.press("w")
        await driver.press("q")
        assert "1 handshake" in driver.screen()
        await driver.press("q")
        assert driver.app._exit

    drive(CaptureSession(path, ikeanalyze.read(path)), script)


def test_the_capture_is_gone_when_a_handshake_is_opened(tmp_path):
    trace = Trace()
    trace.play(Handshake(1).init())
    path = trace.write(tmp_path / "gone.pcap")
    capture_session = CaptureSession(str(path), ikeanalyze.read(path))
    os.unlink(path)

    async def script(driver):
        assert "gone.pcap: no such file" in (await driver.press("enter")).replace("\n", "")
        await driver.press("m", "x", "s", "d", "escape")
        assert "1 handshake" in driver.screen()

    drive(capture_session, script, (200, 24))


def test_nothing_of_the_handshake_before_is_left_when_another_one_cannot_be_read(tmp_path):
    path = tmp_path / "gone.pcap"
    path.write_bytes((CAPTURES / "loss20-classic.pcap").read_bytes())
    capture_session = CaptureSession(str(path), ikeanalyze.read(path))

    async def script(driver):
        assert "IKE_SA_INIT 0 request" in await driver.press("enter")
        os.unlink(path)
        screen = await driver.press("n")
        assert "handshake 2 " in screen
        assert "no such file" in screen
        assert "IKE_SA_INIT" not in screen
        await driver.press("m", "s")
        assert driver.app._marked == []
        assert driver.app.screen is not None
        assert not driver.app.screen.query("#path")

    drive(capture_session, script, (200, 24))


def test_while_a_handshake_is_read_nothing_of_the_one_before_is_there(monkeypatch):
    what = browsed("loss20-classic.pcap")
    look, may_go_on = CaptureSession.load_handshake, threading.Event()

    def slowly(self, handshake):
        assert handshake == 1 or may_go_on.wait(60)
        return look(self, handshake)

    monkeypatch.setattr(CaptureSession, "load_handshake", slowly)

    async def script(driver):
        await driver.press("enter")
        await driver.pilot.press("n", "m", "x", "p", "s", "d")
        try:
            assert driver.app._marked == []
            assert "loading..." in driver.screen()
            assert "IKE_SA_INIT" not in driver.screen()
        finally:
            may_go_on.set()
        assert "SPIi a027485cf38c1f84" in await driver.settled()

    drive(what, script, (120, 30))


def test_who_goes_on_before_a_handshake_is_read_sees_what_was_asked_for_last(monkeypatch):
    what = browsed("loss20-classic.pcap")
    look = CaptureSession.load_handshake
    waits = {1: 0.6, 2: 0.1}

    def slowly(self, handshake):
        time.sleep(waits.get(handshake, 0))
        return look(self, handshake)

    monkeypatch.setattr(CaptureSession, "load_handshake", slowly)

    async def script(driver):
        await driver.pilot.press("enter", "n")
        assert "SPIi a027485cf38c1f84" in await driver.settled()
        await driver.pilot.press("N", "escape")
        assert "25 handshakes" in await driver.settled()
        assert "SPIi 6b932bc89a81e1f5" in await driver.press("enter")

    drive(what, script, (120, 30))


def test_nothing_that_a_peer_or_a_name_has_moves_the_cursor_of_the_terminal(tmp_path):
    trace = Trace()
    trace.play(Handshake(1).init())
    path = trace.write(tmp_path / "[b]\x1b[2J.pcap")

    async def script(driver):
        for keys in ("enter", "x", "s"):
            assert "\x1b" not in await driver.press(keys)
        assert "[b]" in driver.screen()

    drive(CaptureSession(str(path), ikeanalyze.read(path)), script, (200, 24))


def test_what_is_known_of_a_handshake_is_folded_and_not_cut():
    async def script(driver):
        screen = await driver.press("end")
        reported = " ".join(" ".join(screen.splitlines()[8:-1]).split())
        assert "eap ecdsa-256 EAP-MSCHAPv2; NAT: both" in reported
        # what tshark calls a duplicate, radius.dup, in the last of the six
        assert "AAA 203.0.113.2, 2 retransmissions" in reported
        assert "…" not in screen

    drive(browsed("lab/eap-aaa-loss.pcapng", "lab/eap-aaa-loss.keys.json"), script)


def test_hip_has_hits_in_place_of_spis(tmp_path):
    association = Association(1, "BEX")
    trace = Trace()
    for number, packet in enumerate(association.setup()):
        trace.ip(number * 10_000_000, association.ip(packet))
    (tmp_path / "hip.pcap").write_bytes(trace.pcap())

    async def script(driver):
        first = " ".join(driver.screen().split())
        assert re.search(r"HIP 2001:2[0-9a-f:]+ 2001:2[0-9a-f:]+; completed", first)
        assert "None" not in first

    drive(browsed(str(tmp_path / "hip.pcap")), script)


def test_the_diagnosis_is_below_the_list_and_above_the_ladder():
    async def script(driver):
        assert "The responder refused every proposal" in driver.screen()
        ladder = await driver.press("enter")
        assert "(no-proposal-chosen)" in " ".join(ladder.split())
        assert ladder.index("refused every proposal") < ladder.index("time, ms  initiator")

    drive(browsed("lab/no-proposal.pcapng"), script, size=(100, 30))


@pytest.mark.parametrize(("capture", "size"), [(LOSSY, 354), ("eap-md5-radius.pcapng", 506)])
def test_a_terminal_of_60_columns_by_16_lines_is_large_enough(capture, size):
    """Sizes are those of frame 1 in tshark."""

    async def script(driver):
        assert "Enter ladder" in driver.screen()
        ladder = (await driver.press("enter")).splitlines()
        assert max(map(len, ladder)) == 60
        assert ["frames  bytes" in line for line in ladder].count(True) == 1
        assert any(re.search(rf"0\.000 .*▶│.* 1 +{size}\b", line) for line in ladder)
        assert any("IKE_SA_INIT 0 request" in line for line in ladder)  # the message below
        dialog = await driver.press("s")
        assert "Save as a capture" in dialog
        assert "Esc goes back" in dialog

    drive(browsed(capture), script, size=(60, 16))

"""A capture that grows while it is browsed."""

import re

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.capture.reader import open_capture
from ikeanalyze.live.engine import LiveEngine
from ikeanalyze.live.rules import EndingRules
from ikeanalyze.view.growing_session import GrowingSession
from tests.paths import CAPTURES
from tests.view.driven import browsed, drive

CAPTURE = CAPTURES / "loss20-classic.pcap"


class Recording:
    """The capture, of which the test reads a part at a time."""

    def __init__(self) -> None:
        self.session = GrowingSession(str(CAPTURE), "pcap")
        self._reader = open_capture(CAPTURE)
        self._engine = LiveEngine(str(CAPTURE), self._reader.interfaces, self.session.add, ReadOptions(), EndingRules())
        (self._batch,) = self._reader.iterate_batches()

    def read(self, begin: int, end: int) -> None:
        self._engine.add(self._batch.select(slice(begin, end)))

    def finish(self) -> None:
        self._engine.finish()
        self.session.end("the end of the capture")


def count_rows(screen: str) -> int:
    return len([line for line in screen.splitlines() if re.match(r"[* ] *\d+ +\d\d:\d\d:", line)])


def test_rows_appear_when_handshakes_have_ended():
    recording = Recording()

    async def script(driver):
        assert "0 handshakes" in driver.screen()
        assert "following" in driver.screen().splitlines()[0]
        assert "no handshake has ended yet" in driver.screen()
        recording.read(0, 150)
        driver.app.update_handshakes()
        screen = await driver.settled()
        rows = count_rows(screen)
        assert 0 < rows < 25
        await driver.press("down", "space", "down")
        current = driver.app.list_screen.handshake_list.current
        recording.read(150, 244)
        recording.finish()
        driver.app.update_handshakes()
        screen = await driver.settled()
        assert count_rows(screen) == 25
        assert "ended: the end of the capture" in screen.splitlines()[0]
        assert driver.app.list_screen.handshake_list.current == current
        assert driver.app.list_screen.handshake_list.chosen == {2}

    drive(recording.session, script, (120, 40))


def test_filter_and_order_apply_to_new_rows():
    recording = Recording()

    async def script(driver):
        await driver.press("slash")
        await driver.type("rtx>4")
        await driver.press("enter", "z")
        recording.read(0, 244)
        recording.finish()
        driver.app.update_handshakes()
        await driver.settled()
        shown = driver.app.list_screen.handshake_list.shown
        report = browsed(CAPTURE.name).analysis.handshakes
        assert len(shown) == report.filter(report["retransmitted_messages"] > 4).height > 1
        assert shown == sorted(shown, reverse=True)

    drive(recording.session, script)


def test_a_ladder_is_that_of_the_complete_capture():
    recording = Recording()
    recording.read(0, 244)
    recording.finish()
    recording.session.update()
    complete = browsed(CAPTURE.name)
    for number in (1, 2, 25):
        spi_i = recording.session.analysis.handshakes["spi_i"][number - 1]
        (same,) = complete.analysis.handshakes.filter(complete.analysis.handshakes["spi_i"] == spi_i)["handshake"]
        ours, theirs = recording.session.load_handshake(number), complete.load_handshake(same)
        described = [
            [(message.label, message.after_ns, message.frames, message.parts) for message in details.messages.values()]
            for details in (ours, theirs)
        ]
        assert described[0] == described[1]
        assert len(described[0]) >= 4

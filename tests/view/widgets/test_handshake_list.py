import polars as pl

import ikeanalyze
from ikeanalyze.view.session import CaptureSession
from ikeanalyze.view.widgets.handshake_list import HandshakeList
from tests.paths import CAPTURES
from tests.view.driven import drive


def test_of_a_hundred_thousand_what_is_seen_is_drawn(monkeypatch):
    path = str(CAPTURES / "loss20-classic.pcap")
    analysis = ikeanalyze.read(path)
    several = int((analysis.handshakes["retransmitted_messages"] == 3).sum()) * 4_000
    many = pl.concat([analysis.handshakes] * 4_000).with_columns(
        pl.int_range(1, 100_001, dtype=pl.UInt32).alias("handshake")
    )
    object.__setattr__(analysis, "handshakes", many)
    requested = 0
    row = HandshakeList.row

    def counted(self, entry):
        nonlocal requested
        requested += 1
        return row(self, entry)

    monkeypatch.setattr(HandshakeList, "row", counted)

    async def script(driver):
        nonlocal requested
        assert "100,000 handshakes" in driver.screen()
        requested = 0
        screen = await driver.press("G")
        assert "100000 07:2" in screen
        assert "99999 07:2" in screen
        await driver.press("ctrl+u", "greater_than_sign", "z", "slash")
        await driver.type("rtx=3")
        assert f"{several:,} of 100,000 handshakes" in driver.screen()
        assert requested < 1000

    drive(CaptureSession(path, analysis), script)


def test_the_cursor_stays_where_it_was_though_nothing_fits_for_a_while():
    path = str(CAPTURES / "loss20-classic.pcap")

    async def script(driver):
        listing = driver.app.list_screen.handshake_list
        await driver.press(*["down"] * 4, "slash")
        await driver.type("x")
        assert listing.current is None
        await driver.type("yz")
        await driver.press("backspace", "backspace", "backspace")
        assert listing.current == 5
        await driver.type("x")
        await driver.press("escape")
        assert listing.current == 5

    drive(CaptureSession(path, ikeanalyze.read(path)), script)


def test_the_mouse_sorts_and_chooses():
    path = str(CAPTURES / "loss20-classic.pcap")

    async def script(driver):
        listing = driver.app.list_screen.handshake_list
        heading = driver.screen().splitlines()[1]
        await driver.pilot.click(listing, offset=(heading.index("bytes") + 1, 0))
        await driver.settled()
        assert listing.columns[listing.sorted_by].name == "bytes"
        rising = listing.shown
        await driver.pilot.click(listing, offset=(heading.index("bytes") + 1, 0))
        await driver.settled()
        assert listing.falling
        # of the same size the order is that of the capture, both ways
        sizes = dict(listing.table.select("handshake", "bytes").iter_rows())
        assert [sizes[number] for number in listing.shown] == sorted(sizes.values(), reverse=True)
        assert [sizes[number] for number in rising] == sorted(sizes.values())
        await driver.press("home")
        await driver.pilot.click(listing, offset=(5, 3))
        await driver.settled()
        assert listing.cursor == 2
        await driver.pilot.click(listing, offset=(5, 3), times=2)
        assert f"handshake {listing.current}" in await driver.settled()

    drive(CaptureSession(path, ikeanalyze.read(path)), script)

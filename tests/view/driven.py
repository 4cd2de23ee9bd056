"""The browser, driven by Textual's pilot: keys go in, the screen's text comes out."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.keys.detect import read_keys
from ikeanalyze.view.app import Browser
from ikeanalyze.view.session import CaptureSession
from tests.paths import CAPTURES


def browsed(name: str, *keys: str, **options: Any) -> CaptureSession:
    """A recorded capture, with files of keys beside it."""
    path = str(CAPTURES / name)
    files = [read_keys(str(CAPTURES / key)) for key in keys]
    return CaptureSession(path, read_captures(path, ReadOptions(keys=files, **options)), files)


class Driver:
    """A browser that runs."""

    def __init__(self, app: Browser, pilot: Any) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> str:
        """The screen, when all that the keys asked for is done: as a reader, who looks before pressing the next."""
        for key in keys:
            await self.pilot.press(key)
            await self.settled()
        return await self.settled()

    async def type(self, text: str) -> str:
        names = {" ": "space", ":": "colon", ">": "greater_than_sign", ".": "full_stop", "/": "slash", "-": "minus"}
        return await self.press(*(names.get(sign, sign) for sign in text))

    async def settled(self) -> str:
        """The screen, when nothing is left to be done.

        Textual's pilot only waits until the process uses little processor time, as it also does while a busy machine
        runs others.
        """
        while True:
            await self.app.workers.wait_for_complete()
            await self.pilot.pause(0)
            if self.app._exit or not self._is_busy():
                return self.screen()

    def _is_busy(self) -> bool:
        """Return whether a message waits to be handled, a part of the screen to be drawn, or a handshake to be read."""
        screen = self.app.screen
        pumps = [self.app, *screen.walk_children(with_self=True)]
        return (
            any(pump.message_queue_size or pump._next_callbacks for pump in pumps)
            or bool(screen._layout_required or screen._repaint_required or screen._dirty_widgets or screen._callbacks)
            or any(not worker.is_finished for worker in self.app.workers)
        )

    def screen(self) -> str:
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def drive(what: CaptureSession, script: Callable[[Driver], Awaitable[None]], size: tuple[int, int] = (80, 24)) -> None:
    """Run a browser, and what a test does with it."""

    async def run() -> None:
        app = Browser(what)
        async with app.run_test(size=size, notifications=True) as pilot:
            driver = Driver(app, pilot)
            await driver.settled()
            await script(driver)

    asyncio.run(run())

"""Makes docs/images/view.svg anew: the terminal browser on a recorded handshake over a bad link.

    python docs/view_picture.py

The picture names no font that a reader would have to fetch. Look at it before it is committed.
"""

import asyncio
import os
import re
from pathlib import Path

import ikeanalyze
from ikeanalyze.keys.detect import read_keys
from ikeanalyze.view.app import Browser
from ikeanalyze.view.session import CaptureSession

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs/images/view.svg"
CAPTURE = "captures/lab/loss20.pcapng"
KEYS = "captures/lab/loss20.keys.json"
#: To the first handshake that sent several messages again, and in its ladder to a message with many payloads.
STEPS = ("slash", *"rtx", "greater_than_sign", "2", "enter", "enter", *["down"] * 4)
SIZE = (124, 32)


async def picture() -> str:
    """The browser's screen as SVG."""
    os.chdir(ROOT)  # the screen shows the path as it was given
    keys = [read_keys(KEYS)]
    app = Browser(CaptureSession(CAPTURE, ikeanalyze.read(CAPTURE, keys=KEYS), keys))
    async with app.run_test(size=SIZE) as pilot:
        for key in STEPS:
            await pilot.press(key)
            await app.workers.wait_for_complete()
            await pilot.pause()
        svg = app.export_screenshot(title=f"ikeanalyze view {CAPTURE} --keys {KEYS}")
    return replace_fonts(svg)


def replace_fonts(svg: str) -> str:
    """A picture with the reader's own fonts instead of those that it would have to fetch."""
    svg = re.sub(r"@font-face\s*\{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace")


if __name__ == "__main__":
    PICTURE.write_text(asyncio.run(picture()), encoding="utf-8")

"""Makes docs/images/html-*.png anew: pages of `report --format html` on captures of this repository, in Chromium.

    python docs/html_pictures.py

needs Debian's chromium, chromium-driver and imagemagick. Look at the pictures before they are committed.
"""

import subprocess
import sys
import tempfile
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

ROOT = Path(__file__).parents[1]
TRUE_TIME = "document.querySelector('button[data-layout=true]').click();"


@dataclass(frozen=True)
class Picture:
    """A part of a page."""

    name: str
    capture: str  # keys lie beside it
    top: str  # selector of the element at its top
    height: int  # px
    width: int = 1240
    scheme: str = "light"
    script: str = ""  # run before


PICTURES = (
    Picture("post-quantum", "pq-mlkem768-psk.pcap", "header", 900),
    Picture("lossy", "loss20-classic.pcap", "#handshake", 800, script=f"location.hash = 'handshake-2'; {TRUE_TIME}"),
    Picture(
        "eap-tls", "lab/eap-tls_initiator-chain-2_aaa-chain-2.pcapng", "#handshake", 1240,
        scheme="dark", script=TRUE_TIME,
    ),
    Picture("many", "loss20-classic.pcap", "header", 1010),
    Picture("figures", "loss20-classic.pcap", "#figures", 1240),
    Picture("phone", "psk-classic.pcap", "header", 1000, width=390),
)  # fmt: skip


def main() -> None:
    """Make all of them."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        with tempfile.TemporaryDirectory() as folder:
            for picture in PICTURES:
                take(driver, Path(folder), picture)
    finally:
        driver.quit()


def take(driver: webdriver.Chrome, folder: Path, picture: Picture) -> None:
    """One picture."""
    page, raw = folder / "page.html", folder / "raw.png"
    capture = f"captures/{picture.capture}"
    keys = f"{capture.split('.')[0]}.keys.json"
    command = [sys.executable, "-m", "ikeanalyze", "report", capture, "--keys", keys, "--format", "html"]
    subprocess.run([*command, "-o", str(page)], check=True, cwd=ROOT)
    window = {"width": picture.width, "height": 900, "deviceScaleFactor": 1, "mobile": picture.width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window)
    features = [{"name": "prefers-color-scheme", "value": picture.scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get(page.as_uri())
    driver.execute_script(picture.script)
    driver.execute_async_script("setTimeout(arguments[0], 300)")
    found = "return document.querySelector(arguments[0]).getBoundingClientRect().y + scrollY"
    y = max(driver.execute_script(found, picture.top) - 16, 0)
    clip = {"x": 0, "y": y, "width": picture.width, "height": picture.height, "scale": 1}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    raw.write_bytes(b64decode(shot["data"]))
    small = ["+dither", "-colors", "96", "-strip", "-define", "png:compression-level=9"]
    target = ROOT / "docs" / "images" / f"html-{picture.name}.png"
    subprocess.run(["convert", raw, *small, f"png8:{target}"], check=True)


if __name__ == "__main__":
    main()

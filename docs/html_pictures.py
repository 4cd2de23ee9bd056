"""Makes docs/images/html-*.png anew: pages of `--format html` on captures of this repository, in Chromium.

    python docs/html_pictures.py

needs Debian's chromium, chromium-driver and imagemagick. Look at the pictures before they are committed.
"""

import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
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
    command: tuple[str, ...]  # what makes the page
    top: str  # selector of the element at its top
    height: int  # px
    width: int = 1240
    scheme: str = "light"
    script: str = ""  # run before


def report(capture: str) -> tuple[str, ...]:
    """The command for a capture of captures/, with its keys."""
    path = f"captures/{capture}"
    return "report", path, "--keys", f"{path.split('.')[0]}.keys.json"


#: The dataset that is compared, made in the temporary folder.
DATASET = "lab"
PICTURES = (
    Picture("post-quantum", report("pq-mlkem768-psk.pcap"), "header", 900),
    Picture("lossy", report("loss20-classic.pcap"), "#handshake", 800, script=f"location.hash = 'handshake-2'; {TRUE_TIME}"),
    Picture(
        "eap-tls", report("lab/eap-tls_initiator-chain-2_aaa-chain-2.pcapng"), "#handshake", 1240,
        scheme="dark", script=TRUE_TIME,
    ),
    Picture("many", report("loss20-classic.pcap"), "header", 1010),
    Picture("figures", report("loss20-classic.pcap"), "#figures", 1240),
    Picture("phone", report("psk-classic.pcap"), "header", 1000, width=390),
    Picture("comparison", ("compare", DATASET, "--by", "link_loss_percent"), "header", 1240),
    Picture(
        "prediction",
        ("predict", "captures/psk-classic.pcap", "captures/pq-mlkem768-psk.pcap", "--rtt", "10,600", "--loss", "0:0.3:0.02"),
        "header", 1240,
    ),
)  # fmt: skip


def main() -> None:
    """Make all of them."""
    with open_browser() as driver, tempfile.TemporaryDirectory() as folder:
        run("batch", str(ROOT / "captures/lab/loss_*.pcapng"), "-o", DATASET, folder=folder)
        for picture in PICTURES:
            take(driver, Path(folder), picture)


@contextmanager
def open_browser() -> Iterator[webdriver.Chrome]:
    """A Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        yield driver
    finally:
        driver.quit()


def run(*arguments: str, folder: str | Path) -> None:
    """Run the program in a folder, whose name then stands in no picture."""
    subprocess.run([sys.executable, "-m", "ikeanalyze", *arguments], check=True, cwd=folder)


def take(driver: webdriver.Chrome, folder: Path, picture: Picture) -> None:
    """One picture."""
    page = folder / "page.html"
    where = folder if DATASET in picture.command else ROOT
    run(*picture.command, "--format", "html", "-o", str(page), folder=where)
    set_width(driver, picture.width)
    features = [{"name": "prefers-color-scheme", "value": picture.scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get(page.as_uri())
    driver.execute_script(picture.script)
    driver.execute_async_script("setTimeout(arguments[0], 300)")
    found = "return document.querySelector(arguments[0]).getBoundingClientRect().y + scrollY"
    y = max(driver.execute_script(found, picture.top) - 16, 0)
    write_png(driver, f"html-{picture.name}", y, picture.width, picture.height)


def set_width(driver: webdriver.Chrome, width: int) -> None:
    """Lay pages out for a screen of this width in px."""
    window = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window)


def write_png(driver: webdriver.Chrome, name: str, y: float, width: int, height: int) -> None:
    """Write what the browser shows below y as docs/images/NAME.png, small."""
    clip = {"x": 0, "y": y, "width": width, "height": height, "scale": 1}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    small = ["+dither", "-colors", "96", "-strip", "-define", "png:compression-level=9"]
    command = ["convert", "png:-", *small, "png8:-"]
    done = subprocess.run(command, input=b64decode(shot["data"]), stdout=subprocess.PIPE, check=True)
    (ROOT / "docs/images" / f"{name}.png").write_bytes(done.stdout)


if __name__ == "__main__":
    main()

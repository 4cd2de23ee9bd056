"""Makes docs/images/html-*.png anew: pages of `--format html` on captures of this repository, in Chromium.

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
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        with tempfile.TemporaryDirectory() as folder:
            run("batch", str(ROOT / "captures/lab/loss_*.pcapng"), "-o", DATASET, folder=folder)
            for picture in PICTURES:
                take(driver, Path(folder), picture)
    finally:
        driver.quit()


def run(*arguments: str, folder: str | Path) -> None:
    """Run the program in a folder, whose name then stands in no picture."""
    subprocess.run([sys.executable, "-m", "ikeanalyze", *arguments], check=True, cwd=folder)


def take(driver: webdriver.Chrome, folder: Path, picture: Picture) -> None:
    """One picture."""
    page, raw = folder / "page.html", folder / "raw.png"
    where = folder if DATASET in picture.command else ROOT
    run(*picture.command, "--format", "html", "-o", str(page), folder=where)
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

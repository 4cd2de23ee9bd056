"""A headless Chromium, one for all tests, and the pages that it opens."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.cli.captures.report import drop_inferred_payloads
from ikeanalyze.render import Format
from ikeanalyze.render.comparison import formats as comparison_formats
from ikeanalyze.render.prediction import formats as prediction_formats
from ikeanalyze.render.report.formats import FORMATS
from tests.paths import CAPTURES
from tests.render import comparison_examples
from tests.render.analysis_examples import analysis
from tests.render.html.hostile import hostile
from tests.render.prediction_examples import sweep

_SCRIPT_SECONDS = 300


@pytest.fixture(scope="session")
def chromium():
    """A selenium driver of Debian's chromium."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if not all(programs.values()):
        what = "chromium or chromedriver missing: `make test` installs Debian's"
        if os.environ.get("CI"):
            pytest.fail(what)
        pytest.skip(what)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)  # as root, and in a container, there is no sandbox
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(programs["chromedriver"]))
    # axe needs 20 s for the largest page, and more on a busy machine
    driver.set_script_timeout(_SCRIPT_SECONDS)
    driver.command_executor.client_config.timeout = 2 * _SCRIPT_SECONDS
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def pages(tmp_path_factory) -> Callable[[str], Path]:
    """A function that gives the page of a name, made once."""
    folder = tmp_path_factory.mktemp("pages")
    sources = {
        "post-quantum": lambda: captured("pq-mlkem768-psk.pcap"),
        "eap": lambda: captured("eap-md5-radius.pcapng"),
        "eap-tls": lambda: captured("lab/eap-tls_initiator-chain-2_aaa-chain-2.pcapng"),
        "lossy": lambda: captured("loss20-classic.pcap"),
        # every kind of element that the page of all 25 has, in less than a third of the elements
        "few-lossy": lambda: take_first(captured("loss20-classic.pcap"), 6),
        "many": lambda: analysis([1, 2, 3, 4, 5] * 25),
        "hostile": hostile,
        "long": long,
    }
    others = {
        "comparison": (comparison_formats.FORMATS, comparison_examples.comparison),
        "prediction": (prediction_formats.FORMATS, lambda: sweep() * 25),
    }

    def page(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            formats, source = others.get(name) or (FORMATS, sources[name])
            formats.write(source(), Format.HTML, str(path))
        return path

    return page


def long():
    """A handshake of half an hour, between addresses as long as they get."""
    one = analysis([1])
    address = pl.lit("2001:db8:1234:5678:9abc:def0:1234:5678")
    late = pl.col("first_ns") + pl.when(pl.col("exchange") > 1).then(2_000_000_000_000).otherwise(0)
    return replace(
        one,
        handshakes=one.handshakes.with_columns(initiator_address=address, responder_address=address),
        messages=one.messages.with_columns(first_ns=late),
    )


def take_first(analysis, count):
    """The first handshakes of an analysis."""
    names = ("frames", "messages", "exchanges", "handshakes")
    return replace(analysis, **{name: getattr(analysis, name).filter(pl.col("handshake") <= count) for name in names})


def captured(name: str):
    keys = CAPTURES / f"{name.split('.')[0]}.keys.json"
    return drop_inferred_payloads(read_captures(CAPTURES / name, ReadOptions(keys=keys, payloads=True)))

"""Pages as a reader has them: opened in Chromium."""

import base64
import re

import pytest
from axe_core_python.selenium import Axe
from selenium.webdriver.support.wait import WebDriverWait

from ikeanalyze.analysis.read import read_captures
from ikeanalyze.render.report.figures import write_report_figures
from tests.paths import CAPTURES
from tests.render.analysis_examples import analysis

pytestmark = pytest.mark.browser


@pytest.fixture
def opened(chromium, pages):
    """A function that opens a page, as wide as asked, on a system with light or dark colours."""
    chromium.get("about:blank")
    chromium.get_log("browser")

    def open_page(name, *, width=1280, scheme="light"):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media(chromium, scheme=scheme)
        chromium.get(pages(name).as_uri())
        return chromium

    yield open_page
    assert chromium.get_log("browser") == []  # not an error, not a warning, nothing that the policy refused


def media(driver, *, scheme="light", kind=""):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": features})


def script(driver, text, *arguments):
    return driver.execute_script(f"return {text}", *arguments)


def wait_until(driver, condition, *arguments):
    """Wait for what the page does after an event."""
    WebDriverWait(driver, 120, poll_frequency=0.02).until(lambda _: script(driver, condition, *arguments))


def column(driver, number):
    """The texts of a column of the table of handshakes, as they stand."""
    cells = f"#handshake-table tbody td:nth-child({number})"
    return script(driver, "[...document.querySelectorAll(arguments[0])].map(c => c.textContent)", cells)


def click(driver, selector):
    script(driver, "document.querySelector(arguments[0]).click()", selector)


def search(driver, words):
    script(
        driver,
        "(() => { const s = document.querySelector('#handshake-table-bar input'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input')); })()",
        words,
    )


@pytest.mark.parametrize("name", ["post-quantum", "eap", "lossy", "many", "hostile"])
def test_it_opens_without_a_complaint(opened, name):
    driver = opened(name)
    assert script(driver, "document.querySelectorAll('svg.ladder').length") > 0
    assert script(driver, "typeof window.hacked") == "undefined"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["post-quantum", "eap", "few-lossy", "many", "hostile", "comparison", "prediction"])
def test_axe_finds_nothing_that_keeps_people_out(opened, name, scheme):
    """The rules of axe-core: names of regions and drawings, contrast, tables and so on.

    Dark and light pages differ in nothing but their colours, so that all other rules would find the same again.
    """
    options = {"runOnly": ["color-contrast"]} if scheme == "dark" else None
    violations = Axe().run(opened(name, scheme=scheme), options=options)["violations"]
    assert {rule["id"]: rule["nodes"][0]["html"] for rule in violations} == {}


@pytest.mark.parametrize("name", ["comparison", "prediction"])
def test_pages_without_a_ladder_open_too(opened, name):
    driver = opened(name)
    assert script(driver, "document.querySelectorAll('figure svg').length") > 0
    beyond = "[...document.querySelectorAll('main .scroll')].filter(s => s.scrollWidth > s.clientWidth).length"
    assert script(driver, beyond) == 0  # no table is cut on a screen


def test_predictions_are_shown_in_parts(opened):
    driver = opened("prediction")
    rows = "document.querySelectorAll('#predicted-table tbody tr').length"
    assert script(driver, rows) == 50
    for _ in range(2):
        click(driver, "#predicted-table-bar .forth")
    assert script(driver, "document.querySelector('#predicted-table-bar .where').textContent") == "101 to 150 of 150"


@pytest.mark.parametrize(("name", "messages"), [("post-quantum", 6), ("eap", 14)])
def test_the_ladder_has_its_messages(opened, name, messages):
    """7 frames in 6 messages, and 10 IKE messages with 4 of RADIUS: what tshark shows of these captures."""
    driver = opened(name)
    assert script(driver, "document.querySelectorAll('svg.ladder .rung').length") == messages


def test_each_handshake_has_its_ladder(opened):
    driver = opened("lossy")
    messages = read_captures(CAPTURES / "loss20-classic.pcap").messages
    for number in (1, 2, 25):
        script(driver, "location.hash = arguments[0]", f"handshake-{number}")
        shown = "[...document.querySelectorAll('section.handshake')].filter(s => !s.hidden)"
        wait_until(driver, f"{shown}.some(s => s.id === arguments[0])", f"handshake-{number}")  # the event comes later
        assert script(driver, f"{shown}.map(s => s.id)") == [f"handshake-{number}"]
        assert script(driver, "document.getElementById('chooser').value") == f"handshake-{number}"
        rungs = script(driver, f"{shown}[0].querySelectorAll('.rung').length")
        assert rungs == messages.filter(messages["handshake"] == number).height


def test_the_switch_to_true_time(opened):
    """Where arrows stand, as drawn, is in proportion to their times; back again they are as before."""
    driver = opened("post-quantum")
    middles = "[...document.querySelectorAll('.rung')].map(r => r.querySelector('path').getBoundingClientRect().y)"
    before = script(driver, middles)
    click(driver, "button[data-layout=true]")
    assert script(driver, "document.querySelector('button[data-layout=true]').ariaPressed") == "true"
    true = script(driver, middles)
    messages = read_captures(CAPTURES / "pq-mlkem768-psk.pcap").messages.sort("first_ns")["first_ns"].to_list()
    scale = (true[-1] - true[0]) / (messages[-1] - messages[0])
    assert true == pytest.approx([true[0] + (ns - messages[0]) * scale for ns in messages], abs=4)
    assert true != pytest.approx(before, abs=4)
    visible = "[...document.querySelectorAll('svg.ladder .even')].some(n => getComputedStyle(n).display !== 'none')"
    assert not script(driver, visible)
    click(driver, "button[data-layout=even]")
    assert script(driver, middles) == before


def test_tables_can_be_sorted(opened):
    driver = opened("lossy")
    times = read_captures(CAPTURES / "loss20-classic.pcap").handshakes["setup_ns"]
    shown = [f"{ns / 1e6:,.3f}" for ns in times.sort().to_list()]
    click(driver, "#handshake-table th:nth-child(3) button")
    assert column(driver, 3) == shown
    assert script(driver, "document.querySelector('#handshake-table th:nth-child(3)').ariaSort") == "ascending"
    click(driver, "#handshake-table th:nth-child(3) button")
    assert column(driver, 3) == shown[::-1]


def test_what_is_not_known_is_last(opened):
    driver = opened("many")
    place = script(
        driver,
        "[...document.querySelectorAll('#handshake-table th')].findIndex(h => h.textContent.startsWith('set-up'))",
    )
    for _ in range(2):
        click(driver, f"#handshake-table th:nth-child({place + 1}) button")
        assert "-" not in column(driver, place + 1)
    click(driver, "#handshake-table-bar .forth")
    click(driver, "#handshake-table-bar .forth")
    assert column(driver, place + 1)[-1] == "-"


def test_tables_have_pages_and_a_search(opened):
    driver = opened("many")
    where = "document.querySelector('#handshake-table-bar .where').textContent"
    assert script(driver, where) == "1 to 50 of 125"
    click(driver, "#handshake-table-bar .forth")
    assert column(driver, 1)[0] == "51"
    search(driver, "UNANSWERED")
    assert script(driver, where) == "1 to 25 of 25"
    assert column(driver, 1) == [str(number) for number in range(4, 126, 5)]


def test_a_search_leaves_the_order(opened):
    """Falling by number, then searched: the answers fall, and all of them again without the search."""
    driver = opened("many")
    click(driver, "#handshake-table th:nth-child(1) button")
    click(driver, "#handshake-table th:nth-child(1) button")
    search(driver, "unanswered")
    assert script(driver, "document.querySelector('#handshake-table th:nth-child(1)').ariaSort") == "descending"
    assert column(driver, 1) == [str(number) for number in range(124, 3, -5)]
    search(driver, "")
    assert column(driver, 1) == [str(number) for number in range(125, 75, -1)]


def test_a_number_with_words_behind_it_is_a_number(opened):
    """Bytes of messages, with how many frames they were in."""
    driver = opened("eap-tls")
    table = "[...document.querySelectorAll('table')].find(t => t.caption.textContent.startsWith('Exchanges'))"
    cells = f"[...{table}.tBodies[0].rows].map(r => r.cells[arguments[0]].textContent)"
    head = script(driver, f"[...{table}.tHead.rows[0].cells].map(c => c.textContent)")
    at = head.index("response")
    before = script(driver, cells, at)
    bytes_of = [int(text.split(" ")[0].replace(",", "")) for text in before]
    assert any(" in " in text for text in before)
    assert bytes_of != sorted(bytes_of)
    for way in (1, -1):
        script(driver, f"{table}.tHead.rows[0].cells[arguments[0]].firstChild.click()", at)
        result = [int(text.split(" ")[0].replace(",", "")) for text in script(driver, cells, at)]
        assert result == sorted(bytes_of)[::way]


def test_a_table_of_one_row_is_copied_as_well(opened):
    driver = opened("post-quantum")
    tables = (
        "[...document.querySelectorAll('table')].filter(t => t.tBodies[0].rows.length === 1)"
        ".map(t => [t.querySelectorAll('.copy').length, t.querySelectorAll('th button').length])"
    )
    result = script(driver, tables)
    assert result
    assert all(each == [1, 0] for each in result)  # one row has no order


def test_a_table_is_copied_whole_for_a_spreadsheet(opened):
    driver = opened("many")
    driver.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    # the text is there for two seconds only: the page itself waits for it, which a busy machine does not delay
    shown = driver.execute_async_script("""
        const copy = document.querySelector("#handshake-table .copy");
        const done = arguments[0];
        new MutationObserver(() => done(copy.textContent)).observe(copy, {childList: true, subtree: true});
        copy.click();
    """)
    assert shown == "Copied"
    copied = driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    lines = [line.split("\t") for line in copied.rstrip("\n").split("\n")]
    assert len(lines) == 126
    assert lines[0][0] == "#"
    assert all(len(line) == len(lines[0]) for line in lines)
    assert "," not in lines[3][lines[0].index("bytes")]


def luminance(driver, selector, what):
    colour = script(driver, f"getComputedStyle(document.querySelector(arguments[0])).{what}", selector)
    red, green, blue = (int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_dark_as_the_system_is_and_as_chosen(opened):
    driver = opened("post-quantum", scheme="dark")
    script(driver, "localStorage.clear()")
    driver.refresh()
    assert luminance(driver, "body", "backgroundColor") < 40
    assert luminance(driver, "body", "color") > 200
    assert luminance(driver, "svg.ladder .rung text", "fill") > 200
    assert luminance(driver, "figure svg text", "fill") > 150
    button = "document.getElementById('theme').textContent"
    assert script(driver, button) == "Colours: system"
    click(driver, "#theme")
    assert script(driver, button) == "Colours: light"
    assert luminance(driver, "body", "backgroundColor") > 240
    media(driver, scheme="light")
    click(driver, "#theme")
    assert luminance(driver, "body", "backgroundColor") < 40
    driver.refresh()  # and it is remembered
    assert luminance(driver, "body", "backgroundColor") < 40
    script(driver, "localStorage.clear()")


def test_all_rows_are_printed(opened):
    driver = opened("post-quantum", scheme="dark")
    media(driver, scheme="dark", kind="print")
    assert luminance(driver, "svg.ladder .rung text", "fill") < 20
    assert script(driver, "getComputedStyle(document.querySelector('nav')).display") == "none"
    assert (
        script(driver, "getComputedStyle(document.querySelector('button[data-layout]').parentNode.parentNode).display")
        == "none"
    )
    head = "[...document.querySelector('.sections table').tHead.rows[0].cells].map(cell => cell.innerText)"
    assert script(driver, head) == ["exchange", "ID", "slot", "method", "request", "response"]
    assert printed(driver).startswith(b"%PDF")
    ladder = "document.querySelector('svg.ladder').getBoundingClientRect().width"
    assert script(driver, ladder) < 182 / 25.4 * 96  # between the margins of a sheet


def printed(driver):
    return base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])


def sheets(driver):
    return len(re.findall(rb"/Type /Page\b", printed(driver)))


def test_no_sheet_has_headings_alone(opened):
    """Before a ladder as tall as a sheet: headings that stay with it take one sheet more.

    What else stands on the sheet is taken away and the ladder made that tall, so that neither the capture's path nor
    the browser's fonts decide where a sheet ends.
    """
    driver = opened("eap-tls")
    script(
        driver,
        "document.querySelectorAll('header, .cards, .figures, .notice').forEach(e => { e.style.display = 'none'; })",
    )
    script(driver, "document.querySelector('#handshake').insertAdjacentHTML('beforebegin', '<p>Before it.</p>')")
    script(driver, "document.querySelectorAll('svg.ladder').forEach(l => { l.style.height = '455mm'; })")  # zoomed .6
    loose = sheets(driver)
    headings = "document.querySelectorAll('#handshake, .handshake > h3')"
    script(driver, f"{headings}.forEach(h => {{ h.style.breakAfter = 'avoid'; }})")
    assert sheets(driver) == loose + 1


@pytest.mark.parametrize("name", ["post-quantum", "long", "eap"])
def test_on_a_phone_no_host_is_cut(opened, name):
    """Of two hosts the ladder is as wide as their boxes are, whatever their addresses; of three all of it is there."""
    driver = opened(name, width=390)
    right = "document.querySelector('svg.ladder').getBoundingClientRect().right"
    boxes = "[...document.querySelectorAll('svg.ladder > rect')].map(b => b.getBoundingClientRect().right)"
    beyond = script(driver, right) - max(script(driver, boxes))
    assert 0 <= beyond < (5 if name != "eap" else 800)
    beside = "[...document.querySelectorAll('svg.ladder .beside')].some(node => node.getClientRects().length)"
    assert script(driver, beside) == (name == "eap")
    shown = "[...document.querySelectorAll('svg.ladder .below')].filter(n => n.getClientRects().length)"
    sizes = script(driver, f"{shown}.map(n => n.textContent)")
    if name == "post-quantum":  # as in the frames, by tshark
        assert sizes == [
            *("354 bytes", "362 bytes", "1,406 bytes in 2 frames", "1,199 bytes", "313 bytes", "274 bytes"),
        ]
    frame = "document.querySelector('.drawing')"
    if name == "post-quantum":
        assert script(driver, f"{frame}.scrollWidth <= {frame}.clientWidth")
    opened(name, width=1280)
    width = "document.querySelector('svg.ladder').getBoundingClientRect().width"
    assert script(driver, width) == 1120


@pytest.mark.parametrize("name", ["post-quantum", "eap", "lossy", "many"])
@pytest.mark.parametrize("width", [360, 800])
def test_wide_content_scrolls_in_its_own_box(opened, name, width):
    """What is wider than the window scrolls in its own box."""
    driver = opened(name, width=width)
    assert script(driver, "document.documentElement.scrollWidth") <= width


def test_the_page_can_be_used_by_keyboard(opened):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    driver = opened("lossy")
    reached = []
    for _ in range(40):
        ActionChains(driver).send_keys(Keys.TAB).perform()
        reached.append(script(driver, "document.activeElement.textContent"))
        if reached[-1] == "set-up, ms":
            break
    assert reached[-1] == "set-up, ms"
    outline = script(driver, "getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    ActionChains(driver).send_keys(Keys.ENTER).perform()
    assert column(driver, 3)[0] == "3.749"  # the fastest, see the README


def test_marks_say_what_they_are(opened):
    driver = opened("lossy")
    script(
        driver,
        "document.querySelector('#figure-link-bytes [aria-label^=\"initiator\"]')"
        ".dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))",
    )
    hint = "document.getElementById('hint')"
    assert not script(driver, f"{hint}.hidden")
    assert script(driver, f"{hint}.textContent").startswith("initiator → responder, needed once: ")


def test_without_script_all_is_there(opened, chromium):
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened("lossy")
    finally:
        chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    visible = "[...document.querySelectorAll('section.handshake')].filter(s => s.offsetHeight).length"
    assert script(chromium, visible) == 25


def test_figure_files_where_their_font_is_not(chromium, tmp_path):
    """A wider font: what each text says stays within the drawing."""
    written = [path for path in write_report_figures(analysis([1, 2]), str(tmp_path)) if path.suffix == ".svg"]
    assert len(written) > 4
    for path in written:
        chromium.get(path.as_uri())
        outside = chromium.execute_script("""
            const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
            style.textContent = "text { font-family: monospace; letter-spacing: 2px }";
            document.documentElement.append(style);
            const all = document.documentElement.getBoundingClientRect();
            return [...document.querySelectorAll("text")].filter(text => {
                const box = text.getBoundingClientRect();
                return box.left < all.left - 1 || box.right > all.right + 1;
            }).map(text => text.textContent);
        """)
        assert outside == [], path.name


@pytest.mark.parametrize("figures", ["123,456,789", "9,999,999", "123,456.789"])
def test_nine_figures_are_not_broken_on_the_narrowest_phone(opened, figures):
    driver = opened("eap", width=320)
    heights = driver.execute_script(
        """
        return [...document.querySelectorAll(".cards dd.value")].map(one => {
            one.textContent = arguments[0];
            return one.getBoundingClientRect().height / parseFloat(getComputedStyle(one).lineHeight);
        });
        """,
        figures,
    )
    assert len(heights) > 3
    assert max(heights) < 1.5


@pytest.mark.parametrize("name", ["eap-tls", "post-quantum"])
def test_on_paper_no_table_lies_over_its_neighbour(opened, name):
    driver = opened(name, width=690)  # A4 within its margins
    media(driver, kind="print")
    beyond = script(
        driver,
        "[...document.querySelectorAll('.sections > section')].filter(s => s.getClientRects().length).flatMap(s => "
        "[...s.querySelectorAll('table')].map(t => t.getBoundingClientRect().right - s.getBoundingClientRect().right))",
    )
    media(driver)
    assert beyond
    assert max(beyond) < 1

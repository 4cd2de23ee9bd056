import json
import os
from pathlib import Path

import pytest

from tests.paths import CAPTURES
from tests.view.driven import browsed, drive

FIELDS = [
    "-eframe.time_epoch", "-eframe.len", "-eframe.cap_len", "-eframe.interface_id", "-eip.id", "-eudp.checksum",
    "-eisakmp.ispi", "-eisakmp.messageid", "-eradius.id",
]  # fmt: skip


def asked(tshark, capture, *words):
    done = tshark.run("-n", "-Tfields", *FIELDS, *words, capture=capture)
    assert done.status == 0, done.stderr
    return done.lines


async def save(driver, path: Path, *choose: str) -> str:
    await driver.press("s", *choose)
    return await save_as(driver, str(path))


async def save_as(driver, name: str) -> str:
    driver.app.screen.query_one("#path").value = name
    return words(await driver.press("enter"))


def words(screen: str) -> str:
    """What stands on the screen, however the box of the question breaks it."""
    return "".join(screen.replace("│", "").split())


@pytest.mark.parametrize(("name", "handshake"), [("loss20-classic.pcap", 3), ("lab/loss20.pcapng", 2)])
def test_a_handshake_is_saved_as_it_was(tshark, tmp_path, name, handshake):
    out = tmp_path / f"out{Path(name).suffix}"
    every = asked(tshark, CAPTURES / name)
    spis = list(dict.fromkeys(line.split("\t")[6] for line in every))

    async def script(driver):
        await driver.press(*["down"] * (handshake - 1))
        await save(driver, out)

    drive(browsed(name), script)
    result = asked(tshark, out)
    assert result == [line for line in every if line.split("\t")[6] == spis[handshake - 1]]
    assert result


def test_three_hosts_are_saved_with_their_links(tshark, tmp_path):
    out = tmp_path / "out.pcapng"

    async def script(driver):
        await driver.press("enter")
        await save(driver, out)

    drive(browsed("eap-md5-radius.pcapng"), script)
    assert asked(tshark, out) == asked(tshark, CAPTURES / "eap-md5-radius.pcapng", "-Yisakmp || radius")


def test_a_message_with_all_its_fragments(tshark, tmp_path):
    out = tmp_path / "out.pcap"

    async def script(driver):
        await driver.press("enter", "down", "down")
        await save(driver, out, "down")

    drive(browsed("pq-mlkem768-psk.pcap"), script)
    one = asked(tshark, CAPTURES / "pq-mlkem768-psk.pcap", "-Yisakmp.exchangetype == 43 && isakmp.flag_r == 0")
    assert asked(tshark, out) == one
    assert len(one) == 2


def test_what_was_chosen_and_what_is_shown(tmp_path):
    truth = json.loads((CAPTURES / "loss20-classic.truth.json").read_text())
    sent = sum(line[0] == "send" for line in truth["ini"] + truth["res"])

    async def script(driver):
        await save(driver, tmp_path / "all.pcap", "down")
        await driver.press("space", "space")
        assert "selected: 2 handshakes" in await driver.press("s")
        await driver.press("escape")
        await save(driver, tmp_path / "two.pcap")

    drive(browsed("loss20-classic.pcap"), script)
    assert (tmp_path / "all.pcap").read_bytes() == (CAPTURES / "loss20-classic.pcap").read_bytes()
    assert len(browsed("loss20-classic.pcap").frames(range(1, 26))) == sent
    again = browsed(str(tmp_path / "two.pcap"))
    assert again.analysis.handshakes["spi_i"].to_list() == ["6b932bc89a81e1f5", "a027485cf38c1f84"]


def test_a_pipe_is_not_written_to(tmp_path):
    """Nobody reads from it, so writing would wait for ever; and standard output is the screen."""
    pipe = tmp_path / "pipe.pcap"
    os.mkfifo(pipe)

    async def script(driver):
        assert "isadeviceorapipe:nameafile" in await save(driver, pipe)
        assert "typethenameofafile" in await save_as(driver, "-")
        await driver.press("escape")

    drive(browsed("psk-classic.pcap"), script, (120, 30))


@pytest.mark.parametrize(("name", "told"), [("out.pcap", ", as pcapng"), ("out.pcapng", ""), ("OUT.PCAPNG", "")])
def test_another_format_than_the_name_says_is_told(tmp_path, name, told):
    async def script(driver):
        await driver.press("enter")
        await save(driver, tmp_path / name)
        (_notification,) = driver.app._notifications
        assert _notification.message.startswith(f"{tmp_path / name}: ")
        assert _notification.message.endswith(f" packets{told}")

    drive(browsed("lab/loss20.pcapng"), script, (160, 30))


def test_nothing_is_lost_by_saving(tmp_path):
    there = tmp_path / "there.pcap"
    there.write_text("mine")
    source = tmp_path / "psk-classic.pcap"
    source.write_bytes((CAPTURES / "psk-classic.pcap").read_bytes())

    async def script(driver):
        assert "alreadyexists" in await save(driver, there)
        assert there.read_text() == "mine"
        await driver.press("enter")
        assert there.read_bytes() == source.read_bytes()
        for path, what in (
            (tmp_path, "isadirectory"),
            (tmp_path / "no" / "x.pcap", "cannotbewritten:Nosuchfile"),
            (source, "alreadyexists"),
        ):
            assert what in await save(driver, path)
            if path == source:
                assert "isalsotheoutput" in words(await driver.press("enter"))
            await driver.press("escape")

    drive(browsed(str(source)), script, (120, 30))
    assert source.read_bytes() == (CAPTURES / "psk-classic.pcap").read_bytes()

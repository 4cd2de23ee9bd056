import io
from dataclasses import replace

import polars as pl
import pytest

import ikeanalyze
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.core.terminal import TextStyler
from ikeanalyze.render.ladder import text as ladder_text
from ikeanalyze.render.report import selection
from tests.craft import MS, Handshake, Trace, hip
from tests.render.analysis_examples import analysis


def draw(number: int, encoding: str = "utf-8", **view) -> list[str]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    ladder_text.write_ladder(selection.select_handshake(analysis(range(1, 9)), number), out, RenderOptions(**view))
    return out.buffer.getvalue().decode(encoding).splitlines()


def test_a_line_per_message():
    assert sum("▶" in line or "◀" in line for line in draw(1)) == 8
    assert sum("▶" in line or "◀" in line for line in draw(2)) == 14


def test_special_messages_are_marked():
    text = "\n".join(draw(3))
    assert "retransmission 2, 1/2 fragments seen" in text
    assert text.count("extra round trip: INVALID_KE_PAYLOAD") == 1
    assert "after the set-up" not in text


def test_what_follows_the_set_up():
    lines = draw(1)
    rule = next(i for i, line in enumerate(lines) if "after the set-up" in line)
    assert [("INFORMATIONAL" in line) for line in lines[rule - 1 :]] == [False, False, True, True]


@pytest.mark.parametrize("cut", [0, 2, 4])
def test_a_capture_that_begins_after_the_set_up(tmp_path, cut):
    """The set-up takes four messages: what is left of them stands above the rule, two later ones below."""
    trace, handshake = Trace(), Handshake(1)
    trace.play([*handshake.setup(), *handshake.informational()])
    trace.drop(trace.packets[:cut])
    analysis = ikeanalyze.read(trace.write(tmp_path / "cut.pcap"))
    lines = [line for row in ladder_text.render_rows(analysis, TextStyler(io.StringIO(), 80)) for line in row.lines]
    (rule,) = [number for number, line in enumerate(lines) if "after the set-up" in line]
    arrows = [number for number, line in enumerate(lines) if "▶" in line or "◀" in line or ">" in line or "<" in line]
    assert [number < rule for number in arrows] == [True] * (4 - cut) + [False] * 2


@pytest.mark.parametrize("number", range(1, 9))
def test_plain_ascii(number):
    assert max(map(len, draw(number, "ascii"))) <= 80


@pytest.mark.parametrize("number", [2, 7])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_lifelines_are_straight(number, width):
    lines = [line for line in draw(number, width=width) if line.count("│") >= 2]
    places = {tuple(i for i, c in enumerate(line) if c in "│") for line in lines}
    assert len(places) == 1


def test_long_names_are_cut():
    a = selection.select_handshake(analysis(), 1)
    a = replace(a, messages=a.messages.with_columns(pl.lit("X" * 90).cast(pl.Categorical).alias("type")))
    out = io.StringIO()
    ladder_text.write_ladder(a, out, RenderOptions())
    assert max(map(len, out.getvalue().splitlines())) <= 80


def below(lines: list[str], arrow: str) -> str:
    """What stands below an arrow, up to the next one, as one line."""
    start = next(i for i, line in enumerate(lines) if arrow in line) + 1
    end = next((i for i, line in enumerate(lines[start:], start) if "▶" in line or "◀" in line), len(lines))
    return " ".join(" ".join(lines[start:end]).replace("│", " ").split())


def test_payloads_of_clear_and_of_decrypted_messages():
    lines = draw(6, width=120)
    assert below(lines, "IKE_SA_INIT 0 request").startswith("SA KE(ECP-384) No N(NAT_DETECTION_SOURCE_IP)")
    assert below(lines, "IKE_INTERMEDIATE 1 request") == "2/2 fragments seen, epoch 0 KE(ML-KEM-768)"
    assert below(lines, "IKE_AUTH 2 response") == (
        "epoch 1 IDr(10.2.0.2) AUTH(PSK) N(TS_UNACCEPTABLE) ── after the set-up ──"
    )
    assert below(lines, "CREATE_CHILD_SA 3 response") == "encrypted"
    assert "decrypted: 5 of 6 encrypted messages, epochs 0 to 1" in lines


def test_payloads_are_named_once():
    a = selection.select_handshake(analysis(), 3)
    names = pl.lit(["IDi(x)"])
    a = replace(a, messages=a.messages.with_columns(pl.when(pl.col("message_id") == 1).then(names).alias("payloads")))
    out = io.StringIO()
    ladder_text.write_ladder(a, out, RenderOptions())
    assert out.getvalue().count("IDi(x)") == 2, "one request in three transmissions, one response"


def test_eap_in_both_links():
    lines = draw(7, width=120)
    assert "AAA: 198.51.100.9, packets matched by EAP" in lines
    assert below(lines, "Access-Request 17") == "EAP as in IKE_AUTH 2 request"
    assert below(lines, "Access-Accept 18") == "EAP as in IKE_AUTH 3 response"
    assert below(lines, "IKE_AUTH 4 response").startswith("epoch 0, no ICV to check AUTH(PSK)")


def test_a_successor_says_what_it_replaces():
    assert "replaces the IKE SA of handshake 1" in draw(8)


def test_filled_breaks_between_payloads_and_where_a_name_allows():
    assert list(ladder_text.wrap_texts(["SA", "No", "N(NAT_DETECTION_SOURCE_IP)"], 20)) == [
        "SA No",
        "N(NAT_DETECTION_",
        "SOURCE_IP)",
    ]
    assert list(ladder_text.wrap_texts(["N(HASHES SHA2-256+SHA2-384)", "X" * 25], 20)) == [
        "N(HASHES",
        "SHA2-256+SHA2-384)",
        "X" * 20,
        "X" * 5,
    ]
    assert list(ladder_text.wrap_texts([], 20)) == []


@pytest.mark.parametrize("width", [60, 80, 110])
def test_a_long_list_of_payloads_stays_in_its_place(width):
    a = analysis([6])
    names = [f"V({'x' * n} {'long_name' * (n % 7)})" for n in range(0, 90, 3)] + ["\x1b[2J"]
    a = replace(a, messages=a.messages.with_columns(pl.lit(names).alias("payloads")))
    out = io.StringIO()
    ladder_text.write_ladder(a, out, RenderOptions(width=width))
    assert max(map(len, out.getvalue().splitlines())) <= width
    assert "\x1b" not in out.getvalue()


def test_a_ladder_of_hip_names_the_host_identity_tags(tmp_path):
    association = hip.Association(1, "DEX")
    trace = Trace()
    for place, one in enumerate([*association.setup(), *association.acknowledged()]):
        trace.ip(place * MS, association.ip(one))
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    whole = ikeanalyze.read(trace.write(tmp_path / "hip.pcap"), payloads=True)
    ladder_text.write_ladder(selection.select_handshake(whole, 1), out, RenderOptions(width=100))
    text = out.buffer.getvalue().decode()
    assert "HIP, HITs 2001:28:" in text
    assert "SPI" not in text.split("time, ms")[0]
    arrows = [line.split("|")[1].strip("<>- ") for line in text.splitlines() if "<" in line or ">" in line]
    assert arrows == ["I1", "R1", "I2", "R2", "UPDATE 1", "UPDATE 1"]
    assert "ENCRYPTED_KEY I_NONCE HOST_ID(ECDH)" in text

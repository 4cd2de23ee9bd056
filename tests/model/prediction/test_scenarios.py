from dataclasses import fields

import pytest

from ikeanalyze.model.prediction.link import LinkModel, LossBurst, validate_link
from ikeanalyze.model.prediction.scenarios import FOLDER, LinkScenarioError, list_scenarios, load_scenario, parse_rate


def test_those_that_come_with_it():
    assert "geostationary" in list_scenarios()
    known = {field.name for field in fields(LinkModel)}
    for name in list_scenarios():
        scenario = load_scenario(name)
        assert scenario.description
        assert scenario.source
        assert scenario.fields.keys() <= known
        assert validate_link(LinkModel(**{"rtt_ms": 100, **scenario.fields})).name == name


# the table of Faigl, Pellikka, Bokor and Gurtov: UE - gateway, gateway - AAA, ms
@pytest.mark.parametrize(
    ("place", "gateway", "aaa"), [("centralized", 30, 5), ("distributed", 15, 15), ("flat", 10, 30)]
)
def test_the_evolved_packet_core(place, gateway, aaa):
    for access, up, down in (("wifi", 54e6, 54e6), ("hsdpa", 384e3, 7.2e6)):
        result = load_scenario(f"epc-{place}-{access}").fields
        assert result["rtt_ms"] == 2 * gateway
        assert result["aaa_rtt_ms"] == 2 * aaa
        assert (result["rate_up"], result["rate_down"]) == (up, down)


def test_one_of_our_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'description = "x"\nrtt_ms = 50\nloss = 0.1\nrate_up = 9600\nmtu = 1280\ndrop_ip_fragments = true\n'
        "[burst]\nms = 100\nloss = 0.5\n"
    )
    assert LinkModel(**load_scenario(str(path)).fields) == LinkModel(
        50, 0.1, rate_up=9600, mtu=1280, drop_ip_fragments=True, burst=LossBurst(100, False, 0.5), name="mine"
    )
    path.write_text("[burst]\nframes = 3\n")
    assert load_scenario(str(path)).fields["burst"] == LossBurst(3, True)
    # a copy of one that comes with it is the same link
    path.write_bytes((FOLDER / "geostationary.toml").read_bytes())
    assert load_scenario(str(path)).fields == {**load_scenario("geostationary").fields, "name": "mine"}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"rtt = 3", "unknown key rtt; did you mean"),
        (b'rtt_ms = "3"', "rtt_ms must be a number"),
        (b"rtt_ms = nan", "rtt_ms must be a number"),
        (b"loss = true", "loss must be a number"),
        (b"mtu = 1280.5", "mtu must be an integer"),
        (b'rate_up = "fast"', "invalid rate 'fast'"),
        (b"drop_ip_fragments = 1", "true or false"),
        (b"description = 1", "description must be text"),
        (b"burst = 3", "burst must be a table"),
        (b"[burst]\nms = 1\nframes = 2", "either ms or frames"),
        (b"[burst]\nms = 1\nlos = 2", "unknown key burst.los; did you mean burst.loss"),
        (b"[burst]\nms = [1]", "burst.ms must be a number"),
        (b"rtt_ms =", "not TOML"),
        (b"\xff", "not TOML"),
        (b"#" * 1_050_000, "larger than 1,048,576 bytes"),
        (b"rtt_ms = 1" + b"0" * 5000, "not TOML: it has a number of thousands of digits"),
        (b"mtu = 1" + b"0" * 400, "mtu must be an integer"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, content, what):
    path = tmp_path / "s.toml"
    path.write_bytes(content)
    with pytest.raises(LinkScenarioError) as error:
        load_scenario(str(path))
    assert what in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("name", ["mars", "", "../links/umts", "a\0b"])
def test_unknown_scenarios_are_rejected(name):
    with pytest.raises(LinkScenarioError, match=r"neither epc-.*, umts nor a readable file"):
        load_scenario(name)


def test_rates_have_units_of_bits_per_second():
    texts = ("384k", "7.2M", "1 Gbit/s", "9600", "2mbps", "8Mbit")
    assert [parse_rate(text) for text in texts] == [384e3, 7.2e6, 1e9, 9600, 2e6, 8e6]
    for text in ("", "k", "-1", "1T", "1e3"):
        with pytest.raises(LinkScenarioError, match="invalid rate"):
            parse_rate(text)

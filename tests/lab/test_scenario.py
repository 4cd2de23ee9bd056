import pytest

from ikeanalyze.lab.scenario import KEYS, LabScenarioError, expand_cases, load_cases, parse_override
from tests.paths import ROOT

SSH = {"initiator": {"host": "a"}, "responder": {"host": "b"}}


def test_the_product_of_all_lists_is_run():
    result = expand_cases(
        {"link": {"rtt_ms": [1, 600], "loss_percent": [0, 5, 20]}, "then": ["ping", "delete"]}, "x.toml", "x"
    )
    points = [(case.settings.link.rtt_ms, case.settings.link.loss_percent) for case in result]
    assert points == [(1, 0), (1, 5), (1, 20), (600, 0), (600, 5), (600, 20)]
    assert len({case.name for case in result}) == 6
    assert result[0].settings.then == ("ping", "delete")


def test_keys_of_pairs_vary_together(tmp_path):
    (tmp_path / "x.toml").write_text(
        "link.rtt_ms = [1, 600]\ninitiator.auth = 'eap-tls'\n"
        "[[pairs]]\ninitiator.chain = 2\naaa.chain = 4\n[[pairs]]\naaa.chain = 2\ninitiator.chain = 4\n"
    )
    result = load_cases(tmp_path / "x.toml")
    points = [(c.settings.link.rtt_ms, c.settings.initiator.chain, c.settings.aaa.chain) for c in result]
    assert points == [(1, 2, 4), (1, 4, 2), (600, 2, 4), (600, 4, 2)]
    assert result[0].name == "x_rtt-ms-1_initiator-chain-2_aaa-chain-4"


def test_other_values_replace_those_of_the_file(tmp_path):
    (tmp_path / "x.toml").write_text(
        "link.rtt_ms = [1, 600]\n[[pairs]]\nresponder.stack = 'strongswan-5.9'\nike.fragment_size = 0\n"
        "[[pairs]]\nresponder.stack = 'strongswan-6.1'\nike.fragment_size = 1280\n"
    )
    overrides = [parse_override("responder.stack=libreswan"), parse_override("link.rtt_ms=40")]
    assert overrides == [("responder.stack", "libreswan"), ("link.rtt_ms", 40)]
    result = load_cases(tmp_path / "x.toml", dict(overrides))
    points = [(c.settings.link.rtt_ms, c.settings.responder.stack, c.settings.ike.fragment_size) for c in result]
    assert points == [(40, "libreswan", 0), (40, "libreswan", 1280)]


def test_tables_that_differ_only_in_a_replaced_key_are_one_case(tmp_path):
    (tmp_path / "x.toml").write_text("[[pairs]]\nike.fragment_size = 0\n[[pairs]]\nike.fragment_size = 1280\n")
    (case,) = load_cases(tmp_path / "x.toml", {"ike.fragment_size": 576})
    assert (case.name, case.settings.ike.fragment_size) == ("x", 576)


def test_a_list_as_the_other_value_is_a_dimension(tmp_path):
    (tmp_path / "x.toml").write_text("")
    result = load_cases(tmp_path / "x.toml", dict([parse_override("link.loss_percent=[0, 20]")]))
    assert [case.settings.link.loss_percent for case in result] == [0, 20]


@pytest.mark.parametrize(
    ("text", "said"),
    [("responder.stack", "expected KEY=VALUE"), ("responder.stak=x", "did you mean responder.stack")],
)
def test_an_invalid_other_value_is_refused(text, said):
    with pytest.raises(LabScenarioError, match=said):
        parse_override(text)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([], "not a list of tables"),
        ({"initiator": {"chain": 2}}, "not a list of tables"),
        ([{}], "not a list of tables"),
        ([{"initiator": {"chain": [2, 3]}}], "initiator.chain is a list"),
        ([{"initiator": {"chain": [2]}}], "initiator.chain is a list"),
        ([{"initiator": {"chain": 2}}, {"aaa": {"chain": 2}}], "the same keys, initiator.chain"),
        ([{"initiator": {"chain": 2}}, {"initiator": {"chain": 2}}], "twice"),
        ([{"initiator": {"chain": 9}}], "initiator.chain = 9 is not allowed"),
        ([{"initiator": {"chian": 2}}], "did you mean initiator.chain?"),
        ([{"link": {"rtt_ms": 2}}], "link.rtt_ms is given twice"),
    ],
)
def test_invalid_pairs_are_rejected(pairs, said):
    with pytest.raises(LabScenarioError) as error:
        expand_cases({"link": {"rtt_ms": 1}, "pairs": pairs}, "x.toml", "x")
    assert said in str(error.value)


def test_proposals_that_begin_alike_have_names_of_their_own():
    long = "aes256gcm16-prfsha384-ecp384-ke1_mlkem768-ke2_mlkem1024-ke3_mlkem512"
    result = expand_cases({"ike": {"proposals": [f"{long}-ke4_x25519", f"{long}-ke4_ecp256"]}}, "x.toml", "x")
    assert len({case.name for case in result}) == 2


def test_a_name_fits_into_a_file_system():
    long = [f"{cipher}-sha384-sha256-ecp384-ecp256-x25519-modp2048-modp3072" for cipher in ("aes128", "aes256")]
    ike = {"proposals": long, "responder_proposals": long, "esp_proposals": long}
    result = expand_cases({"ike": ike}, "x.toml", "x" * 80)
    assert len({case.name for case in result}) == len(result) == 8
    assert all(len(case.name) + len(".initiator.log.gz") <= 255 for case in result)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"initiator": {"host": "a"}}, ["x.toml", "initiator.host", "responder.host as well"]),
        ({"responder": {"address": "192.0.2.2"}}, ["x.toml", "responder.address needs responder.host"]),
        ({**SSH, "responder": {"host": "a"}}, ["x.toml", "the same machine"]),
        ({"initiator": {"host": "-oProxyCommand=x"}}, ["x.toml", "initiator.host", "user@address"]),
        ({**SSH, "link": {"rtt_ms": 5}}, ["x.toml", "link.rtt_ms needs an emulated link"]),
        ({**SSH, "link": {"nat": True}}, ["x.toml", "link.nat needs an emulated link"]),
        ({**SSH, "link": {"seed": 5}}, ["x.toml", "link.seed needs an emulated link"]),
        ({**SSH, "initiator": {"host": "a", "auth": "eap-tls"}}, ["x.toml", "eap-tls needs an AAA server"]),
        ({**SSH, "abandoned": 1}, ["x.toml", "abandoned is not possible with initiator.host"]),
        ({**SSH, "then": ["ping"]}, ["x.toml", "then: ping is not possible with initiator.host"]),
        ({"link": {"rtt": 5}}, ["x.toml", "link.rtt", "link.rtt_ms"]),
        ({"link.rtt_ms": 5, "link": {"rtt_ms": 50}}, ["x.toml", "link.rtt_ms", "twice"]),
        ({"link": {"loss_percent": 95}}, ["x.toml", "link.loss_percent = 95", "0 to 90"]),
        ({"iterations": True}, ["iterations", "integer"]),
        ({"iterations": []}, ["iterations", "empty"]),
        ({"ip_version": [4, 4]}, ["ip_version", "twice"]),
        ({"ip_version": 5}, ["ip_version", "one of 4, 6"]),
        ({"initiator": {"auth": "magic"}}, ["initiator.auth", "eap-tls"]),
        ({"initiator": {"auth": "ecdsa", "key_bits": 2048}}, ["initiator.key_bits", "256, 384, 521"]),
        ({"ike": {"proposals": "aes256 }"}}, ["ike.proposals", "strongSwan"]),
        ({"then": ["fly"]}, ["then", "rekey-ike"]),
        ({"ip_version": 6, "link": {"nat": True}}, ["link.nat", "4"]),
        ({"initiator": {"stack": "Racoon"}}, ["initiator.stack = 'Racoon'", "strongswan-5.9"]),
        ({"initiator": {"stack": "strongswan-"}}, ["initiator.stack"]),
        ({"ike": {"version": 3}}, ["ike.version = 3", "1 to 2"]),
        ({"ike": {"mode": "aggressive"}}, ["ike.mode", "ike.version = 1"]),
        ({"initiator": {"xauth": True}}, ["initiator.xauth", "ike.version = 1"]),
        ({"ike": {"version": 1}, "initiator": {"auth": "eap-md5"}}, ["eap-md5", "ike.version = 2"]),
        ({"ike": {"version": 1}, "responder": {"auth": "rsa"}}, ["responder.auth", "the same"]),
        (
            {"ike": {"version": 1, "proposals": "aes256-sha256-ecp256-ke1_mlkem768"}},
            ["ike.proposals", "additional"],
        ),
        ({"ike": {"version": 1}, "then": ["rekey-ike"]}, ["then: rekey-ike", "ike.version = 2"]),
        ({"ike": {"version": 1}, "abandoned": 3}, ["abandoned", "ike.version = 2"]),
        ({"ip_version": 6, "link": {"mtu": 1000}}, ["link.mtu", "1280"]),
        ({"initiator": {"auth": "rsa", "key_bits": 1024}}, ["initiator.key_bits = 1024", "2048, 3072"]),
        (
            {"responder": {"auth": "ecdsa", "authority_bits": 4096}},
            ["responder.authority_bits = 4096 is not allowed with ecdsa", "256, 384, 521"],
        ),
        ({"link": {"rtt_ms": float("nan")}}, ["link.rtt_ms", "0 to 10,000"]),
        ({"link": "slow"}, ["link", "link.rtt_ms"]),
        (
            {"link": {"loss_percent": 20, "burst_frames": 2, "burst_loss_percent": 20}},
            ["link.burst_loss_percent: a mean loss of 0.2 needs a higher loss in bursts than 0.2"],
        ),
        ({"aaa_link": {"loss_up_percent": 80, "burst_frames": 2}}, ["aaa_link.burst_frames", "at least 4 frames"]),
        ({"link": {"loss_percent": 5, "burst_frames": 0.5}}, ["link.burst_frames", "at least one frame"]),
        ({"link": {"seed": -1}}, ["link.seed = -1", "from 0 to 2,147,483,647"]),
        ({"link": {"loss_up_percent": "same"}}, ["link.loss_up_percent", "a number from 0 to 90"]),
        ({"iterations": {"a": 1}}, ["iterations.a", "iterations"]),
        ({"then": "ping"}, ["then = 'ping'", "a list"]),
        ({"then": [["ping"], "delete"]}, ["then = 'delete'", "a list"]),
        ({"initiator": {"auth": ["psk", ["rsa"]]}}, ["initiator.auth = ['rsa']", "one of"]),
        ({"ike": {"proposals": "same"}}, ["ike.proposals"]),
        ({"keep": True, "then": ["ping"]}, ["keep", "then"]),
        ({"keep": True, "responder": {"stack": "libreswan"}}, ["keep", "responder.stack = strongswan"]),
        ({"initiators": 2, "then": ["ping"]}, ["initiators", "then"]),
        ({"initiators": 2, "responder": {"stack": "libreswan"}}, ["initiators", "responder.stack = strongswan"]),
        ({"initiators": 2, "retry": "until-established"}, ["initiators", "retry"]),
        ({"timeout_s": list(range(1, 600))}, ["599 cases", "500"]),
    ],
)
def test_what_is_wrong_is_said_with_file_key_and_what_is_allowed(data, said):
    with pytest.raises(LabScenarioError) as error:
        expand_cases(data, "x.toml", "x")
    assert all(part in str(error.value) for part in said), error.value


def test_malformed_scenario_files_are_rejected(tmp_path):
    with pytest.raises(LabScenarioError, match="No such file"):
        load_cases(tmp_path / "no.toml")
    (tmp_path / "bad.toml").write_text("[[[")
    with pytest.raises(LabScenarioError, match=r"bad\.toml: not TOML"):
        load_cases(tmp_path / "bad.toml")
    (tmp_path / "endless.toml").symlink_to("/dev/zero")
    with pytest.raises(LabScenarioError, match=r"endless\.toml: larger than 1,048,576 bytes"):
        load_cases(tmp_path / "endless.toml")


def test_the_aaa_link_is_ipv4_whatever_the_other_is():
    (case,) = expand_cases({"ip_version": 6, "aaa_link": {"mtu": 1000}, "initiator": {"auth": "eap-md5"}}, "x", "x")
    assert case.settings.aaa_link.mtu == 1000


def test_ikev1_of_an_older_strongswan():
    assert expand_cases({"ike": {"version": 1}, "responder": {"stack": "strongswan-5.9"}}, "x", "x")


@pytest.mark.parametrize(
    "text",
    [
        f"iterations = {'9' * 5000}",
        f"iterations = 0x{'f' * 5000}",
        f"iterations = [[0x{'f' * 5000}]]",
        f"iterations = [[{'1, ' * 5000}1]]",
        "iterations = 2026-99-99",
        f"iterations = {'[' * 5000}",
        f"{'a.' * 5000}a = 1",
    ],
)
def test_a_file_of_absurd_toml_is_one_line(tmp_path, text):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(LabScenarioError, match=r"bad\.toml: ") as error:
        load_cases(tmp_path / "bad.toml")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def test_the_documentation_has_every_key_with_its_default_and_what_is_allowed():
    text = (ROOT / "docs" / "lab.md").read_text()
    rows = {
        cells[1].strip("` "): (cells[2].strip("` "), cells[4].strip())
        for line in text.splitlines()
        if len(cells := line.split("|")) == 6
    }
    for name, key in KEYS.items():
        if name.startswith("aaa_link."):
            name = name.removeprefix("aaa_")
        default = str(key.default).lower() if isinstance(key.default, bool) else key.default
        shown = "" if default in ((), None) else f"{default:g}" if isinstance(default, float) else str(default)
        assert rows[name] == (shown, key.allowed), name


def test_a_value_of_one_direction_replaces_that_of_both():
    link = {"rtt_ms": 100, "loss_percent": 5, "rate_up_kbps": 384, "rate_down_kbps": 7200, "loss_down_percent": 0}
    (case,) = expand_cases({"link": link | {"delay_up_ms": 80}}, "x", "x")
    up, down = (case.settings.link.get_direction(direction) for direction in ("up", "down"))
    assert (up.delay_ms, up.loss, up.rate_kbps) == (80, 0.05, 384)
    assert (down.delay_ms, down.loss, down.rate_kbps) == (50, 0, 7200)
    assert case.settings.link.max_delay_s == 0.08
    assert case.values["link.rate_up_kbps"] == 384
    assert case.values["link.delay_down_ms"] is None


def test_bursts_without_loss_are_none():
    cases = expand_cases({"link": {"loss_percent": [0, 20], "burst_frames": [0, 3]}}, "x", "x")
    assert [(case.settings.link.loses_frames, case.settings.link.burst is None) for case in cases] == [
        (False, True),
        (False, False),
        (True, True),
        (True, False),
    ]


def test_a_folder_is_no_scenario(tmp_path):
    with pytest.raises(LabScenarioError, match=r": is a directory; name a scenario in it$"):
        load_cases(tmp_path)

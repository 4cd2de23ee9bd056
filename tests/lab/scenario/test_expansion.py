import pytest

from ikeanalyze.lab.scenario.expansion import LabScenarioError, expand_cases, load_cases, parse_override


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
        ({"initiator": {"host": "-oProxyCommand=x"}}, ["x.toml", "initiator.host", "user@address"]),
        ({"link": {"rtt": 5}}, ["x.toml", "link.rtt", "link.rtt_ms"]),
        ({"link.rtt_ms": 5, "link": {"rtt_ms": 50}}, ["x.toml", "link.rtt_ms", "twice"]),
        ({"link": {"loss_percent": 95}}, ["x.toml", "link.loss_percent = 95", "0 to 90"]),
        ({"iterations": True}, ["iterations", "integer"]),
        ({"iterations": []}, ["iterations", "empty"]),
        ({"ip_version": [4, 4]}, ["ip_version", "twice"]),
        ({"ip_version": 5}, ["ip_version", "one of 4, 6"]),
        ({"initiator": {"auth": "magic"}}, ["initiator.auth", "eap-tls"]),
        ({"ike": {"proposals": "aes256 }"}}, ["ike.proposals", "strongSwan"]),
        ({"then": ["fly"]}, ["then", "rekey-ike"]),
        ({"initiator": {"stack": "Racoon"}}, ["initiator.stack = 'Racoon'", "strongswan-5.9"]),
        ({"initiator": {"stack": "strongswan-"}}, ["initiator.stack"]),
        ({"ike": {"version": 3}}, ["ike.version = 3", "1 to 2"]),
        ({"initiator": {"auth": "rsa", "key_bits": 1024}}, ["initiator.key_bits = 1024", "2048, 3072"]),
        ({"link": {"rtt_ms": float("nan")}}, ["link.rtt_ms", "0 to 10,000"]),
        ({"link": "slow"}, ["link", "link.rtt_ms"]),
        ({"link": {"seed": -1}}, ["link.seed = -1", "from 0 to 2,147,483,647"]),
        ({"link": {"loss_up_percent": "same"}}, ["link.loss_up_percent", "a number from 0 to 90"]),
        ({"iterations": {"a": 1}}, ["iterations.a", "iterations"]),
        ({"then": "ping"}, ["then = 'ping'", "a list"]),
        ({"then": [["ping"], "delete"]}, ["then = 'delete'", "a list"]),
        ({"initiator": {"auth": ["psk", ["rsa"]]}}, ["initiator.auth = ['rsa']", "one of"]),
        ({"ike": {"proposals": "same"}}, ["ike.proposals"]),
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


def test_a_folder_is_no_scenario(tmp_path):
    with pytest.raises(LabScenarioError, match=r": is a directory; name a scenario in it$"):
        load_cases(tmp_path)

import pytest

from ikeanalyze.lab.scenario.expansion import LabScenarioError, expand_cases

SSH = {"initiator": {"host": "a"}, "responder": {"host": "b"}}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"initiator": {"host": "a"}}, ["x.toml", "initiator.host", "responder.host as well"]),
        ({"responder": {"address": "192.0.2.2"}}, ["x.toml", "responder.address needs responder.host"]),
        ({**SSH, "responder": {"host": "a"}}, ["x.toml", "the same machine"]),
        ({**SSH, "link": {"rtt_ms": 5}}, ["x.toml", "link.rtt_ms needs an emulated link"]),
        ({**SSH, "link": {"nat": True}}, ["x.toml", "link.nat needs an emulated link"]),
        ({**SSH, "link": {"seed": 5}}, ["x.toml", "link.seed needs an emulated link"]),
        ({**SSH, "initiator": {"host": "a", "auth": "eap-tls"}}, ["x.toml", "eap-tls needs an AAA server"]),
        ({**SSH, "abandoned": 1}, ["x.toml", "abandoned is not possible with initiator.host"]),
        ({**SSH, "then": ["ping"]}, ["x.toml", "then: ping is not possible with initiator.host"]),
        ({"initiator": {"auth": "ecdsa", "key_bits": 2048}}, ["initiator.key_bits", "256, 384, 521"]),
        ({"ip_version": 6, "link": {"nat": True}}, ["link.nat", "4"]),
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
        (
            {"responder": {"auth": "ecdsa", "authority_bits": 4096}},
            ["responder.authority_bits = 4096 is not allowed with ecdsa", "256, 384, 521"],
        ),
        (
            {"link": {"loss_percent": 20, "burst_frames": 2, "burst_loss_percent": 20}},
            ["link.burst_loss_percent: a mean loss of 0.2 needs a higher loss in bursts than 0.2"],
        ),
        ({"aaa_link": {"loss_up_percent": 80, "burst_frames": 2}}, ["aaa_link.burst_frames", "at least 4 frames"]),
        ({"link": {"loss_percent": 5, "burst_frames": 0.5}}, ["link.burst_frames", "at least one frame"]),
        ({"keep": True, "then": ["ping"]}, ["keep", "then"]),
        ({"keep": True, "responder": {"stack": "libreswan"}}, ["keep", "responder.stack = strongswan"]),
        ({"initiators": 2, "then": ["ping"]}, ["initiators", "then"]),
        ({"initiators": 2, "responder": {"stack": "libreswan"}}, ["initiators", "responder.stack = strongswan"]),
        ({"initiators": 2, "retry": "until-established"}, ["initiators", "retry"]),
    ],
)
def test_values_that_contradict_each_other_are_refused_with_their_keys(data, said):
    with pytest.raises(LabScenarioError) as error:
        expand_cases(data, "x.toml", "x")
    assert all(part in str(error.value) for part in said), error.value


def test_the_aaa_link_is_ipv4_whatever_the_other_is():
    (case,) = expand_cases({"ip_version": 6, "aaa_link": {"mtu": 1000}, "initiator": {"auth": "eap-md5"}}, "x", "x")
    assert case.settings.aaa_link.mtu == 1000


def test_ikev1_of_an_older_strongswan():
    assert expand_cases({"ike": {"version": 1}, "responder": {"stack": "strongswan-5.9"}}, "x", "x")

from ikeanalyze.lab.scenario.expansion import expand_cases


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

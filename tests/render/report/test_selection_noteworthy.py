from ikeanalyze.render.report.selection import ALL, SelectedHandshake, select_noteworthy
from tests.render.analysis_examples import analysis


def test_a_few_are_all_shown():
    assert select_noteworthy(analysis([1, 2, 3]).handshakes) == [
        SelectedHandshake(1, ""),
        SelectedHandshake(2, ""),
        SelectedHandshake(3, ""),
    ]
    assert select_noteworthy(analysis([]).handshakes) == []


def test_of_many_those_that_tell_something():
    """Handshake 40: EAP (13 ms), 41: a lost response (967 ms), 42: unanswered, 43: failed; the others are alike."""
    chosen = select_noteworthy(analysis([1] * (ALL + 9) + [2, 3, 4, 5]).handshakes)
    why = {item.handshake: item.why for item in chosen}
    assert {1, 41, 42, 43} <= set(why)
    assert "fastest" in why[1]
    assert "first established" in why[1]
    assert "slowest" in why[41]
    assert "most sent again" in why[41] or "most sent again" in why[42]
    assert "first with an extra round trip" in why[41]
    assert why[42].endswith("first unanswered")
    assert why[43].startswith("first failed")
    assert len(chosen) < 12


def test_fewer_can_be_asked_for():
    assert len(select_noteworthy(analysis([1] * 9).handshakes, limit=5)) < 9

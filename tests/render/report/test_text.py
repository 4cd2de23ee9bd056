from ikeanalyze.render.report import text
from tests.render.analysis_examples import CAPTURE, analysis


def titles(a) -> list[str]:
    return [section.title for section in text.render_sections(a, every=False)]


def test_details_of_one_handshake():
    assert titles(analysis([2])) == [
        CAPTURE,
        "Handshake 1: completed in 13.000 ms",
        "Proposal",
        "Links",
        "Phases",
        "Exchanges",
        "Set-up time",
        "Transport",
    ]


def test_what_keys_add_to_one_handshake():
    before = titles(analysis([1]))
    assert [title for title in titles(analysis([6])) if title not in before] == [
        "Key exchanges",
        "Key exchanges after the set-up",
        "Certificates",
        "Bytes by payload",
    ]


def test_many_handshakes_and_none():
    assert titles(analysis([1, 2]))[1:] == ["2 handshakes, all with", "Handshakes", "Together"]
    assert titles(analysis([6, 7]))[-2:] == ["Together", "Bytes by payload"]
    assert titles(analysis([])) == [CAPTURE, "Handshakes"]

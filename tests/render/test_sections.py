from dataclasses import replace

from ikeanalyze.analysis.result import Warning  # noqa: A004
from ikeanalyze.render import sections
from tests.render.handmade import CAPTURE, analysis, summary


def titled(a, title, **how):
    return next(s for s in sections.sections(a, every=how.get("every", False)) if s.title.startswith(title))


def test_what_all_have_in_common_is_said_once():
    common = dict(titled(analysis([1, 1, 3]), "3 handshakes, all with").rows)
    assert common == {"protocol": "IKEv2", "initiator": "192.0.2.1", "responder": "192.0.2.2"}
    assert [c.name for c in titled(analysis([1, 1, 3]), "Handshakes").columns][1:3] == [
        "key exchange",
        "authentication",
    ]


def test_common_is_what_all_handshakes_have_not_those_shown():
    a = analysis([1] * 35 + [3])
    assert "key exchange" in [c.name for c in titled(a, "Handshakes").columns]


def test_details_of_one_handshake():
    titles = [s.title for s in sections.sections(analysis([2]), every=False)]
    assert titles == [
        CAPTURE,
        "Handshake 1: completed in 13.000 ms",
        "Proposal",
        "Links",
        "Phases",
        "Exchanges",
        "Set-up time",
        "Transport",
    ]
    assert len(titled(analysis([2]), "Links").rows) == 4


def test_a_guess_says_so():
    assert ("authentication", "initiator eap, EAP-MD5 (a guess: not decrypted)") in titled(
        analysis([2]), "Handshake"
    ).rows


def test_warnings_are_counted_per_capture():
    a = analysis([1], warnings=[Warning(CAPTURE, 1, "x"), Warning("other", 1, "x")])
    a = replace(a, captures=[*a.captures, summary("other"), summary("third")])
    assert ("warnings", "1") in titled(a, CAPTURE).rows
    assert not any(name == "warnings" for name, _ in titled(a, "third").rows)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.text import escape_peer_text, shorten_text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"gw.example", "gw.example"),
        ("müller".encode(), "müller"),
        (b"\xff\xfe", "\\xff\\xfe"),
        (b"a\x1b[31mb", "a\\x1b[31mb"),
        (b"a\nb\0", "a\\nb\\x00"),
        ("\u202eabc".encode(), "\\u202eabc"),
    ],
)
def test_peer_text_is_escaped(data, text):
    assert escape_peer_text(data) == text


@given(st.binary(max_size=200))
def test_nothing_moves_the_cursor(data):
    assert escape_peer_text(data).isprintable()


def test_long_text_is_shortened():
    assert shorten_text("x" * 64) == "x" * 64
    assert shorten_text("x" * 65) == "x" * 63 + "…"
    assert shorten_text("abcdef", 4) == "abc…"

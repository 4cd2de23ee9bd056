"""`import ikeanalyze` as somebody in a notebook uses it."""

import tempfile
import warnings
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pytest

import ikeanalyze

CAPTURES = Path(__file__).parents[1] / "captures"
PSK, LOSSY = CAPTURES / "psk-classic.pcap", CAPTURES / "loss20-classic.pcap"


@pytest.mark.parametrize("given", [PSK, str(PSK), [PSK], (str(PSK),), iter([PSK])])
def test_captures_are_given_by_path(given):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ikeanalyze.read(given).captures[0].packets == 4


@pytest.mark.parametrize("given", [CAPTURES / "psk-classic.keys.json", [str(CAPTURES / "psk-classic.keys.json")]])
def test_keys_are_given_by_path(given):
    assert ikeanalyze.read(PSK, keys=given).handshakes["outcome"].to_list() == ["established"]


@pytest.mark.parametrize("kind", [bytes, bytearray, BytesIO, memoryview])
def test_captures_and_keys_are_given_as_contents(kind):
    keys = CAPTURES / "psk-classic.keys.json"
    trace = ikeanalyze.read(kind(PSK.read_bytes()), keys=kind(keys.read_bytes()))
    assert not trace.skipped
    assert trace.handshakes.drop("capture").equals(ikeanalyze.read(PSK, keys=keys).handshakes.drop("capture"))


def test_open_files_are_read_from_their_position_and_have_their_names(tmp_path):
    path = tmp_path / "with-a-header"
    path.write_bytes(b"header" + PSK.read_bytes())
    with path.open("rb") as first, path.open("rb") as second:
        first.seek(6)
        second.seek(6)
        trace = ikeanalyze.read([first, LOSSY, second, PSK.read_bytes()])
    assert [capture.path for capture in trace.captures] == [str(path), str(LOSSY), f"{path} (3)", "<bytes>"]
    counts = dict(trace.handshakes["capture"].cast(str).value_counts().iter_rows())
    assert counts == {str(path): 1, str(LOSSY): 25, f"{path} (3)": 1, "<bytes>": 1}


def test_contents_that_cannot_be_read_are_warnings_without_the_contents():
    with pytest.warns(UserWarning, match="<bytes>: ") as reported:
        ikeanalyze.read([PSK, b"no capture"], keys=b"psk = very secret")
    assert len(reported) == 2
    assert not any("very" in str(item.message) for item in reported)


def test_stored_contents_are_removed(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ikeanalyze.read(PSK.read_bytes())
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_shows_the_handshakes_as_a_table():
    shown = ikeanalyze.read(CAPTURES / "invalid-ke.pcap")._repr_html_()
    assert shown.startswith("<p>&lt;Analysis, captures: 1, handshakes: 1,")
    assert all(
        text in shown for text in ("<table", "setup_ms", "retransmissions", "completed", ">&quot;ECP-384&quot;<")
    )


def test_what_cannot_be_read_is_a_warning(tmp_path):
    missing, broken, keys = tmp_path / "no.pcap", tmp_path / "broken.pcap", tmp_path / "no.keys"
    broken.write_bytes(b"something else")
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        trace = ikeanalyze.read([missing, PSK, broken], keys=keys)
    assert [str(item.message).partition(": ")[0] for item in reported] == [str(keys), str(missing), str(broken)]
    assert {item.filename for item in reported} == {__file__}  # it is the reader's line that is shown
    assert trace.handshakes.height == 1
    assert "handshakes: 1, exchanges: 2, messages: 4, frames: 4" in repr(trace)
    assert f"skipped: {missing} (no such file)" in repr(trace)


@pytest.mark.parametrize(
    ("captures", "options", "error", "what"),
    [
        ([], {}, ValueError, "no capture"),
        (PSK, {"ports": 70000}, ValueError, "port 70000"),
        (PSK, {"ports": [500, 0]}, ValueError, "port 0"),
        (PSK, {"vantage": "left"}, ValueError, "'left'"),
        (PSK, {"rtt_ms": -1}, ValueError, "rtt_ms -1"),
        (PSK, {"rtt_ms": float("nan")}, ValueError, "rtt_ms nan"),
        (PSK, {"ports": "500"}, TypeError, "integer"),
        (4, {}, TypeError, "a capture is a path, bytes or a binary file, not int"),
        (PSK, {"keys": [4]}, TypeError, "a file with keys is a path, bytes or a binary file, not int"),
        (StringIO("x"), {}, TypeError, "open for text: use mode 'rb'"),
    ],
)
def test_invalid_arguments_raise(captures, options, error, what):
    with pytest.raises(error, match=what):
        ikeanalyze.read(captures, **options)


@pytest.mark.parametrize("port", [4000, np.uint16(4000)])
def test_a_single_port_is_accepted(port):
    assert ikeanalyze.read(PSK, ports=port).handshakes.height == 1


def test_an_analysis_is_shown_in_one_line():
    """25 handshakes: the daemon's log of this capture has as many."""
    shown = repr(ikeanalyze.read(LOSSY))
    assert "handshakes: 25" in shown
    assert "\n" not in shown
    assert len(shown) < 200


def test_completion_offers_what_there_is():
    names = [name for name in dir(ikeanalyze) if not name.startswith("_")]
    assert names == ["Analysis", "read"]
    assert all(getattr(ikeanalyze, name).__doc__ for name in names)


def test_types_are_for_others_too():
    assert (Path(ikeanalyze.__file__).parent / "py.typed").exists()  # PEP 561

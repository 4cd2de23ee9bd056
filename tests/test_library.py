"""`import ikeanalyze` as somebody in a notebook uses it."""

import warnings
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
        (b"x", {}, TypeError, "a capture is named by its path, and bytes is none"),
        (4, {}, TypeError, "a capture is named by its path, and int is none"),
        (PSK, {"keys": [b"x"]}, TypeError, "a file with keys is named by its path, and bytes is none"),
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

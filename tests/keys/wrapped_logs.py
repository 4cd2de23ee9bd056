"""Logs of a daemon as container engines, syslog and journalctl write them."""

import json
import re
from collections.abc import Callable

#: What a daemon writes before its text: charon's `time_format`, libreswan's time.
_TIME = re.compile(rb"(?:\d{10}(?:\.\d+)? |\d{4}-\d\d-\d\dT\S+ |[A-Z][a-z]{2} +\d+ [\d:.]+: )")


def _time(number: int) -> bytes:
    return b"2026-11-21T12:%02d:%02d.%09dZ" % (number // 60 % 60, number % 60, number)


def _bare(line: bytes) -> bytes:
    return _TIME.sub(b"", line, count=1)


def _docker(line: bytes, number: int, end: str = "\n") -> bytes:
    """An entry of the driver json-file. Go's encoder escapes <, > and &, and replaces what is not UTF-8."""
    text = json.dumps({"log": line.decode(errors="replace") + end, "stream": "stderr", "time": _time(number).decode()})
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").encode()


def _colour(line: bytes) -> bytes:
    """As `grep --color` and `ccze` do it."""
    words = re.sub(rb"secret|ikev2", lambda match: b"\x1b[01;31m\x1b[K" + match[0] + b"\x1b[m\x1b[K", line)
    return re.sub(rb"^(\d\d)\[(\w+)\]", lambda match: b"\x1b[36m%b\x1b[0m[\x1b[33m%b\x1b[0m]" % match.groups(), words)


_LINES: dict[str, Callable[[bytes, int], bytes]] = {
    "docker, json-file": _docker,
    "docker, terminal": lambda line, number: _docker(_bare(line), number, "\r\n"),
    "docker compose": lambda line, _: b"strongswan-1  | " + _bare(line),
    "docker compose, colours": lambda line, _: b"\x1b[36mstrongswan-1  | \x1b[0m" + _bare(line),
    "docker compose -t": lambda line, number: b"strongswan-1  | " + _time(number) + b" " + _bare(line),
    "kubectl --timestamps": lambda line, number: _time(number) + b" " + _bare(line),
    "kubectl --prefix": lambda line, _: b"[pod/strongswan-0/charon] " + _bare(line),
    "CRI": lambda line, number: _time(number) + b" stderr F " + _bare(line),
    "RFC 5424": lambda line, number: b"<30>1 " + _time(number) + b" host charon 812 - - " + _bare(line),
    "RFC 3164": lambda line, _: b"<30>Nov 21 12:00:00 host charon[812]: " + _bare(line),
    "journalctl -o short-monotonic": lambda line, _: b"[ 1234.567890] host charon[812]: " + _bare(line),
    "collector": lambda line, _: json.dumps({"line": line.decode(errors="replace"), "labels": {"app": "x"}}).encode(),
    "colours": lambda line, _: _colour(_bare(line)),
    "end of line erased": lambda line, _: _bare(line) + b"\x1b[K",
    "grep -n": lambda line, number: b"charon.log:%d:%b" % (number, line),
}


def export_journal(entries: list[bytes]) -> bytes:
    """Entries of `journalctl -o json --all` in the format of `-o export`.

    See https://systemd.io/JOURNAL_EXPORT_FORMATS/: what has control characters other than tabs, or is not UTF-8, has
    its length before it.
    """
    out = []
    for number, entry in enumerate(entries):
        fields = json.loads(entry)
        out.append(fields.pop("__CURSOR", f"s={number}").join(("__CURSOR=", "\n")).encode())
        for name, value in fields.items():
            data = bytes(value) if isinstance(value, list) else value.encode()
            if isinstance(value, list) or re.search(rb"[\x00-\x08\x0a-\x1f]", data):
                out += [name.encode(), b"\n", len(data).to_bytes(8, "little"), data, b"\n"]
            else:
                out += [name.encode(), b"=", data, b"\n"]
        out.append(b"\n")
    return b"".join(out)


def _wrap(name: str) -> Callable[[list[bytes]], bytes]:
    return lambda lines: b"".join(_LINES[name](line, number) + b"\n" for number, line in enumerate(lines, 1))


#: What makes a file of the lines of a log.
WRAPPED: dict[str, Callable[[list[bytes]], bytes]] = {name: _wrap(name) for name in _LINES}

"""Run tshark with the plugin in its personal plugin folder, and parse its output."""

import re
from functools import cache

from tests.paths import CAPTURES, ROOT

PLUGIN = ROOT / "dissectors"
RECORDED = sorted(path.name for path in CAPTURES.glob("*.pcap*"))

COLUMNS = (
    "frame.number", "ikex.handshake", "ikex.exchange", "ikex.sender", "ikex.kind", "ikex.time", "ikex.request_in",
    "ikex.response_in", "ikex.response_time", "ikex.attempt", "ikex.transmission", "ikex.retransmission_of",
    "ikex.fragment", "ikex.fragments", "ikex.fragment.missing", "ikex.ip_fragments", "ikex.part_of", "ikex.duplicate_of",
    "ikex.bytes.initiator", "ikex.bytes.responder", "ikex.extra_round_trip", "ikex.outcome", "_ws.expert.message",
)  # fmt: skip

BOOLEANS = {"ikex.verified", "ikex.ke.length_ok", "ikex.ke.modulus_ok", "ikex.ke.negotiated"}

#: Names of exchange types, which tshark prints as numbers (RFC 2408, 3.1; RFC 2409; IANA, IKEv2 exchange types).
EXCHANGES = {
    "2": "Main Mode", "4": "Aggressive Mode", "5": "Informational", "6": "Transaction", "32": "Quick Mode",
    "34": "IKE_SA_INIT", "35": "IKE_AUTH", "36": "CREATE_CHILD_SA", "37": "INFORMATIONAL", "38": "IKE_SESSION_RESUME",
    "43": "IKE_INTERMEDIATE", "44": "IKE_FOLLOWUP_KE",
}  # fmt: skip
#: Fields of times, which tshark prints in seconds.
TIMES = {"ikex.time", "ikex.response_time"}

#: Texts of errors of Lua and of the plugin, which no output may contain.
ERRORS = ("Lua Error", "_ws.lua.error", "internal error", "stack traceback", "Lua: ")


def run_plugin(tshark, capture, *arguments, keys=None, config=None, options=()):
    """Output of tshark with the plugin; `keys`: content of a key file."""
    command = ["-n", *(word for option in options for word in ("-o", option))]
    if keys is not None:
        command += ["-o", "ikex.keys:keys"]
    files = {} if keys is None else {"keys": keys}
    done = tshark.run(*command, *arguments, capture=capture, plugins=PLUGIN, files=files, config=config)
    assert done.status == 0, done.stderr
    errors = [line for line in (done.stdout + done.stderr).splitlines() if any(text in line for text in ERRORS)]
    assert not errors
    return done


def fields(tshark, capture, *names, only="ikex", separator=",", **how):
    """Values of fields: a list for each frame that matches the filter `only`; `separator` joins several values.

    With two passes, as in the window: fields that depend on later packets are filled in. Exchange types are names,
    times are milliseconds.
    """
    columns = [word for name in names for word in ("-e", name)]
    done = run_plugin(tshark, capture, "-2", "-Y", only, "-Tfields", "-E", f"aggregator={separator}", *columns, **how)
    rows = [line.split("\t") for line in done.lines]
    return [
        [
            separator.join(_to_text(name, value) for value in values.split(separator))
            for name, values in zip(names, row, strict=True)
        ]
        for row in rows
    ]


def _to_text(name, value):
    if name in BOOLEANS:
        return {"1": "True", "0": "False"}.get(value, value)  # as newer versions print it
    if name in TIMES and value:
        return f"{float(value) * 1000:.15g}"
    return EXCHANGES.get(value, value) if name == "ikex.exchange" else value


def tree(tshark, capture, **how):
    """The plugin's part of the packet details, with a line that names the frame; times in milliseconds."""
    kept, inside = [], False
    for line in run_plugin(tshark, capture, "-2", "-Y", "ikex", "-O", "ikex", **how).lines:
        if line.startswith("Frame "):
            kept.append(line.split(":")[0])
        if not line.startswith(" "):
            inside = line.startswith("[IKE analysis")
        elif line.startswith("    Internet Security"):  # the tree of a decrypted message
            inside = False
        if inside and not line.strip().startswith("[Decryption: no keys; set"):
            kept.append(re.sub(r"(-?[\d.]+) (\w*)seconds\b", _to_milliseconds, line))
    return "\n".join(kept) + "\n"


def _to_milliseconds(time):
    """Versions differ in the unit that they show."""
    factor = {"": 1000, "milli": 1, "micro": 0.001, "nano": 0.000001}[time[2]]
    return f"{float(time[1]) * factor:.3f} ms"


def findings(tshark, capture, **how):
    """Frame and text of each expert info of the plugin, in order."""
    names = ("frame.number", "_ws.expert.message")
    pairs = []
    for frame, texts in fields(tshark, capture, *names, only="ikex && _ws.expert", separator="|", **how):
        pairs.extend((int(frame), text) for text in texts.split("|"))
    return pairs


@cache
def recorded_frames(tshark, name):
    """COLUMNS of each frame of a recorded capture."""
    return fields(tshark, CAPTURES / name, *COLUMNS)


@cache
def recorded_statistics(tshark, name):
    """Lines of `-z ikex,handshakes` and of `-z ikex,exchanges` of a recorded capture."""
    done = run_plugin(tshark, CAPTURES / name, "-q", "-z", "ikex,handshakes", "-z", "ikex,exchanges")
    lines = [line.rstrip() for line in done.lines if line.strip()]
    border = lines.index("IKE handshakes: set-up messages from the initiator and from the responder")
    # tshark prints the last statistics first
    return lines[border:], lines[:border]

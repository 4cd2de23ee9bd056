"""Every capture in captures/ against its entry in the manifest; lab captures also against both daemons' logs."""

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6ExtHdrFragment
from scapy.packet import Raw
from scapy.utils import PcapReader

from ikeanalyze.keys.detect import read_keys
from ikeanalyze.lab.scenario.expansion import load_cases
from ikeanalyze.lab.scenario.settings import KEYS
from tests.lab.agreement import check, read_received
from tests.paths import CAPTURES

ENTRIES = json.loads((CAPTURES / "manifest.json").read_text())["captures"]
LAB = [entry for entry in ENTRIES if entry["path"].startswith(("lab/", "faults/"))]
MARKER = bytes(4)


def sizes(path: Path) -> Counter:
    """Of the IKE messages and fragments in a capture, as scapy reads it; without the non-ESP marker."""
    counter = Counter()
    streams = {}
    with PcapReader(str(path)) as packets:
        for packet in packets:
            if TCP in packet and isinstance(packet[TCP].payload, Raw):
                streams[packet[IP].src] = streams.get(packet[IP].src, b"") + packet[TCP].load
            fragment = packet.getlayer(IPv6ExtHdrFragment)
            first = packet[IP].frag == 0 if IP in packet else fragment is None or fragment.offset == 0
            if not first or UDP not in packet:
                continue
            udp = packet[UDP]
            payload = bytes(udp.payload)
            if {udp.sport, udp.dport} & {500}:
                counter[udp.len - 8] += 1
            elif {udp.sport, udp.dport} & {4500} and payload[:4] == MARKER:
                counter[udp.len - 8 - len(MARKER)] += 1
    for stream in streams.values():
        counter.update(framed_sizes(stream.removeprefix(b"IKETCP")))
    return counter


def framed_sizes(stream: bytes) -> Iterator[int]:
    """Of the IKE messages in a TCP stream whose segments came in order (RFC 9329, section 3.1)."""
    while stream:
        length = int.from_bytes(stream[:2])
        if stream[2:6] == MARKER:
            yield length - 2 - len(MARKER)
        stream = stream[length:]


def logged(entry: dict) -> dict[str, list[int]]:
    """Bytes of each datagram that the daemons' logs say was sent, by side."""
    truth = json.loads((CAPTURES / entry["truth"]).read_text())
    if "expected" in truth:
        received = (CAPTURES / entry["truth"]).parent / truth["files"]["logs"]["responder"]
        return {
            role: read_received(received) if truth["expected"][role] is None else truth["expected"][role]["sizes"]
            for role in ("initiator", "responder")
        }
    return {
        role: [event[5] for event in truth[short] if event[0] == "send"]
        for role, short in (("initiator", "ini"), ("responder", "res"))
    }


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["path"])
def test_a_capture_has_what_the_logs_say_was_sent(entry):
    sent = logged(entry)
    assert entry["expected"] == {
        role: {"datagrams": len(bytes_), "bytes": sum(bytes_)} for role, bytes_ in sent.items()
    }
    wanted, seen = Counter(sent["initiator"] + sent["responder"]), sizes(CAPTURES / entry["path"])
    assert seen
    match entry["seen"]:
        case "all":
            assert seen == wanted
        case "all, twice":
            assert seen == wanted + wanted
        case "until its end":  # without what ends the IKE SA
            assert seen <= wanted
            assert (wanted - seen).total() <= 2
        case "not what was lost before":
            assert seen < wanted
            assert Counter(sent["initiator"]) <= seen
        case other:
            pytest.fail(f"what is {other!r}?")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["path"])
def test_an_entry_says_how_when_and_by_whom(entry):
    with PcapReader(str(CAPTURES / entry["path"])) as packets:
        began = dt.datetime.fromtimestamp(float(next(iter(packets)).time), dt.UTC)
    assert began.date().isoformat() == entry["date"]
    assert entry["licence"] == "GPL-2.0-or-later"
    assert {"initiator", "responder"} <= set(entry["stacks"])
    assert entry["what"]
    assert entry["taken_on"] in {"initiator", "responder", "router", "NAT"}
    assert entry["made_by"].startswith("by hand") or (CAPTURES / entry["made_by"]).is_file()
    for name in entry["keys"]:
        keys = read_keys(str(CAPTURES / name))
        assert keys.key_sets or keys.phase1
        assert not keys.warnings
    for name in entry["logs"]:
        assert (CAPTURES / name).stat().st_size


@pytest.mark.parametrize("entry", LAB, ids=lambda entry: entry["path"])
def test_a_recording_agrees_with_its_manifest(entry):
    manifest = check(CAPTURES / entry["truth"])
    stacks = {role: manifest["machine"][role] for role in ("initiator", "responder", "aaa")}
    assert {role: stack for role, stack in stacks.items() if stack} == entry["stacks"]
    assert manifest["machine"]["date"] == entry["date"]
    cases = {case.name: case for case in load_cases(CAPTURES / entry["made_by"])}
    # a key that came later has its default
    defaults = {name: key.default for name, key in KEYS.items()}
    recorded = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in (defaults | manifest["scenario"]).items()
    }
    assert dict(cases[manifest["name"]].values) == recorded


def test_everything_has_an_entry_and_all_is_small():
    result = {path.relative_to(CAPTURES).as_posix() for path in CAPTURES.rglob("*.pcap*")}
    assert result == {entry["path"] for entry in ENTRIES}
    assert len(result) == len(ENTRIES)
    beside = {"manifest.json", "README.md", "faults/faults.toml"}
    for entry in ENTRIES:
        beside |= {entry["path"], *entry["keys"], *entry["logs"], entry["truth"], entry["made_by"]}
    files = {path for path in CAPTURES.rglob("*") if path.is_file()}
    assert {path.relative_to(CAPTURES).as_posix() for path in files} <= beside
    scenarios = {path.relative_to(CAPTURES).as_posix() for path in CAPTURES.glob("**/scenarios/*")}
    assert scenarios == {entry["made_by"] for entry in LAB}
    assert sum(path.stat().st_size for path in files) < 5 << 20

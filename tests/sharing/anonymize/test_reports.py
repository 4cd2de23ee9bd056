"""The report of an anonymised capture has the numbers of the original, but for addresses and names."""

import json
import re

import pytest

from ikeanalyze.render.report.document import build_report
from tests.analysis.wrapped_captures import write_wrapped
from tests.craft.tunnel import ALL
from tests.paths import CAPTURES, LAB_CAPTURES
from tests.sharing.anonymize.copies import find_keys, make_copy
from tests.sharing.reports import RECORDED, analyse, document_of, find_differences, list_ike_sas

KEYED = [path for path in RECORDED if find_keys(path) and "ikev1" not in path.stem]
#: What is dropped from the recorded captures, as tshark names it: ARP, and ICMP that asks routers and neighbours.
DROPPED = {"not IP", "ICMP other than errors"}


def blank_names(value):
    """A document without addresses and names: 'IDi(gw.example)' becomes 'IDi'."""
    if isinstance(value, dict):
        hidden = {"address", "a", "b", "frame", "name", "tunnel", *(("frames",) if "confidence" in value else ())}
        return {key: blank_names(item) for key, item in value.items() if key not in hidden}
    if isinstance(value, list):
        return [blank_names(item) for item in value]
    if isinstance(value, str):
        value = re.sub(r'"[^"]*"', '""', value)  # identities in a diagnosis
        return re.sub(r"^(IDi|IDr|ID|TSi|TSr|CP|CERT|EAP|N)\b.*", r"\1", value)
    return value


def read_report(path, **options):
    """The report of a capture without names, its warnings, and its packets by category."""
    analysis = analyse(path, **options)
    document = json.loads(json.dumps(build_report(analysis), default=str))
    warnings = [warning.message for warning in analysis.warnings]
    return blank_names(list_ike_sas(document)), warnings, document["captures"][0]["accounting"]


def compare(before, after, **options):
    """The differences between the reports of two captures."""
    return list(find_differences(read_report(before, **options)[:2], read_report(after, **options)[:2]))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_an_anonymised_capture_has_the_same_report_without_keys(path, tmp_path):
    out = tmp_path / "out.pcapng"
    result = make_copy(path, out)
    before, after = read_report(path), read_report(out)
    assert list(find_differences(before[:2], after[:2])) == []
    assert set(result.dropped) <= DROPPED
    counts = [
        {name: count for name, count in report[2].items() if name not in ("icmp", "other")}
        for report in (before, after)
    ]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("path", KEYED, ids=lambda path: path.stem)
def test_with_keys_the_same_keys_decrypt_the_copy(path, tmp_path):
    out, keys = tmp_path / "out.pcapng", find_keys(path)
    result = make_copy(path, out, keys)
    assert compare(path, out, keys=tuple(keys), payloads=True) == []
    assert result.encrypted["kept"] == result.encrypted["overwritten"] == 0


def test_with_keys_contents_of_ikev1_are_overwritten(tmp_path):
    path, out = LAB_CAPTURES / "ikev1_mode-main.pcapng", tmp_path / "out.pcapng"
    result = make_copy(path, out, find_keys(path))
    assert compare(path, out) == []
    assert (result.encrypted["overwritten"], result.encrypted["kept"]) == (7, 0)


def test_both_sides_of_a_nat_are_still_one_handshake(tmp_path):
    """The capture has each packet before and after the NAT, which the report finds out by the NAT detection hashes."""
    path, out = CAPTURES / "nat-any.pcap", tmp_path / "out.pcapng"
    make_copy(path, out)
    assert [row["nat"] for row in document_of(out)["handshakes"]] == [
        row["nat"] for row in document_of(path)["handshakes"]
    ]


@pytest.mark.parametrize("name", ALL)
def test_tunnels_and_link_layers_are_kept_or_dropped_whole(name, tmp_path):
    wrapped = write_wrapped(tmp_path / "wrapped.pcap", LAB_CAPTURES / "mlkem768-psk.pcapng", ALL[name])
    out = tmp_path / "out.pcapng"
    result = make_copy(wrapped, out)
    assert result.written in (0, result.packets)
    assert result.written + sum(result.dropped.values()) == result.packets
    if result.written:
        assert compare(wrapped, out) == []
        tunnels = [[row["tunnel"] for row in document_of(path)["handshakes"]] for path in (wrapped, out)]
        kinds = [[tunnel and re.sub(r"[\d.:a-f]{7,}", "", tunnel) for tunnel in names] for names in tunnels]
        assert kinds[0] == kinds[1]

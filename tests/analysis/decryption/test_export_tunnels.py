"""Messages in tunnels are decrypted in the report, and their frames are copied as they are."""

import dpkt
import pytest

from ikeanalyze.analysis.decryption.export import plan_decryption_edits
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.capture.write.rewrite import rewrite_capture
from tests.analysis.wrapped_captures import write_wrapped
from tests.craft.tunnel import ALL
from tests.paths import CAPTURES

RECORDED, KEYS = CAPTURES / "pq-mlkem768-psk.pcap", CAPTURES / "pq-mlkem768-psk.keys.json"


def packets_of(path):
    with path.open("rb") as file:
        return [data for _, data in dpkt.pcap.UniversalReader(file)]


def decrypt(folder, name):
    """A decrypted copy, its result and edits, and the path of the source."""
    source, copy = write_wrapped(folder / "wrapped.pcap", RECORDED, ALL[name]), folder / "copy.pcapng"
    analysis = read_captures([source], ReadOptions(keys=[KEYS], cleartext=True))
    assert analysis.messages["decrypted"].sum() == 4
    planned = plan_decryption_edits(analysis.frames, analysis.cleartexts)
    return copy, rewrite_capture(str(source), str(copy), planned.edits), planned, source


@pytest.mark.parametrize("name", [name for name, encapsulation in ALL.items() if encapsulation.tunnel])
def test_frames_in_tunnels_are_copied(name, tmp_path):
    copy, result, planned, source = decrypt(tmp_path, name)
    assert (planned.edits, planned.messages, planned.in_tunnels) == ({}, 0, 4)
    assert (result.replaced, result.removed, result.warnings) == (0, 0, [])
    assert packets_of(copy) == packets_of(source)


@pytest.mark.parametrize("name", ["802.11", "radiotap", "prism", "avs", "ppi"])
def test_frames_of_802_11_are_left_unchanged(name, tmp_path):
    copy, result, planned, source = decrypt(tmp_path, name)
    assert planned.messages == 4
    assert (result.replaced, result.removed, result.unchanged) == (0, 0, len(planned.edits))
    assert packets_of(copy) == packets_of(source)


@pytest.mark.parametrize(
    "name",
    ["nflog", "nflog, big-endian", "enc", "pflog", "cisco hdlc", "frame relay", "firewire", "infiniband", "pktap"],
)
def test_frames_of_other_link_layers_are_decrypted(name, tmp_path):
    copy, result, _, _ = decrypt(tmp_path, name)
    assert (result.replaced, result.unchanged) == (4, 0)
    analysis = read_captures([copy])
    assert analysis.captures[0].accounting["ike"] == analysis.captures[0].packets - 1
    (warning,) = analysis.warnings
    assert "not encrypted, as in a decrypted copy" in warning.message


@pytest.mark.turns
@pytest.mark.parametrize("name", ["nflog", "enc", "pflog", "cisco hdlc", "frame relay", "pktap"])
def test_tshark_reads_what_was_decrypted(tshark, name, tmp_path):
    copy, *_ = decrypt(tmp_path, name)
    done = tshark.run("-n", "-Yisakmp.auth.data || isakmp.auth.method", "-Tfields", "-eisakmp.messageid", capture=copy)
    assert done.status == 0, done.stderr
    assert done.lines == ["0x00000002", "0x00000002"]

import json
from pathlib import Path

import pytest

from ikeanalyze.plugin import manifest
from ikeanalyze.plugin.manifest import NAME, InstallManifest, compute_digest, encode_manifest
from ikeanalyze.plugin.wireshark_folders import WiresharkFolders

FOLDERS = WiresharkFolders(Path("/p"), Path("/s/profiles"), told=False)


def test_the_digest_is_sha256():
    # FIPS 180-2, B.1
    assert compute_digest(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_written_manifest_is_read_again(tmp_path):
    folders = WiresharkFolders(tmp_path, Path("/s/profiles"), told=False)
    whole = InstallManifest("1.2", folders, {"plugins/ikex.lua": "00", "profiles/IKE/x": "11"}, [Path("/s")])
    (tmp_path / NAME).write_bytes(encode_manifest(whole))
    assert manifest.read_manifest(tmp_path) == whole


def test_paths_in_the_manifest_are_below_the_folders_of_wireshark():
    install_manifest = InstallManifest("1", FOLDERS, {})
    assert install_manifest.path("plugins/ikex/names.lua") == Path("/p/ikex/names.lua")
    assert install_manifest.path("profiles/IKE/preferences") == Path("/s/profiles/IKE/preferences")


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "ikeanalyze.plugin/2"},
        {"files": []},
        {"files": {"plugins/../../.bashrc": "00"}},
        {"files": {"/etc/passwd": "00"}},
        {"files": {"plugins": "00"}},
        {"files": {"elsewhere/x": "00"}},
        {"files": {"": "00"}},
        {"files": {"plugins/x": 1}},
        {"profiles": None},
        {"version": 1},
    ],
)
def test_a_manifest_that_leads_elsewhere_is_none(tmp_path, change):
    document = json.loads(encode_manifest(InstallManifest("1", FOLDERS, {"plugins/x": "00"})))
    (tmp_path / NAME).write_text(json.dumps(document))
    assert manifest.read_manifest(tmp_path) is not None
    (tmp_path / NAME).write_text(json.dumps(document | change))
    assert manifest.read_manifest(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"{", b"[" * 100_000])
def test_a_damaged_manifest_is_none(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    assert manifest.read_manifest(tmp_path) is None


def test_a_missing_manifest_is_none(tmp_path):
    assert manifest.read_manifest(tmp_path / "nowhere") is None

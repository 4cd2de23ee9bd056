import os
from pathlib import Path

import pytest

from ikeanalyze.dataset.batch.discovery import find_captures, get_capture_stem


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (
        "runs/a.pcap",
        "runs/b.PCAPNG",
        "runs/deep/er/c.pcapng.gz",
        "runs/deep/d.cap",
        "runs/deep/e.pcap12",
        "runs/deep/f.pcap.zst",
        "runs/deep/notes.txt",
        "runs/deep/a.keys.json",
        "runs/.hidden/x.pcap",
        "runs/.y.pcap",
        "other.bin",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * len(name))
    return tmp_path


def names(*paths, out="out"):
    captures = find_captures(paths, Path(out))
    return [capture.name for capture in captures.captures], captures.problems


ALL = [
    "runs/a.pcap",
    "runs/b.PCAPNG",
    "runs/deep/d.cap",
    "runs/deep/e.pcap12",
    "runs/deep/er/c.pcapng.gz",
    "runs/deep/f.pcap.zst",
]


def test_a_folder_with_all_below_it(here):
    assert names("runs") == (ALL, [])
    assert names("./runs/") == (ALL, [])


def test_a_file_is_taken_whatever_its_name(here):
    assert names("other.bin", "runs/.y.pcap") == (["other.bin", "runs/.y.pcap"], [])


def test_patterns_are_expanded(here):
    assert names("runs/*.pcap") == (["runs/a.pcap"], [])
    assert names("runs/**/*.pcap*") == (["runs/a.pcap", *ALL[3:]], [])
    assert names("run?") == (ALL, [])
    assert names("runs/*.none") == ([], ["runs/*.none: no file matches this pattern"])


def test_a_name_that_looks_like_a_pattern(here):
    (here / "x[1].pcap").write_bytes(b"x")
    assert names("x[1].pcap") == (["x[1].pcap"], [])


def test_each_capture_is_found_once(here):
    result, problems = names("runs", "runs/deep", str(here / "runs/a.pcap"), "runs/../runs/a.pcap")
    assert (result, problems) == (ALL, [])


def test_patterns_without_a_match_are_reported(here):
    (here / "empty").mkdir()
    result, problems = names("none.pcap", "empty", "runs/a.pcap")
    assert result == ["runs/a.pcap"]
    assert problems == [
        "none.pcap: no such file or folder",
        "empty: no capture in this folder (*.pcap, *.pcapng, *.cap, *.ntar)",
    ]


def test_pipes_are_skipped(here):
    os.mkfifo("pipe.pcap")
    assert names("pipe.pcap") == ([], ["pipe.pcap: not a regular file, but a batch may read captures more than once"])


def test_links_to_folders_are_followed_once(here):
    os.symlink("../runs", "runs/deep/loop")
    os.mkdir("links")
    os.symlink("../runs/deep/er", "links/one")
    os.symlink("nowhere", "links/broken.pcap")
    result, problems = names("links")
    assert (result, problems) == (
        ["links/one/c.pcapng.gz"],
        ["links/broken.pcap: broken symbolic link"],
    )
    result, _ = names("runs")
    assert [os.path.basename(name) for name in result].count("d.cap") == 1


def test_a_link_to_a_capture_that_is_found_is_not_another_one(here):
    os.symlink("b.PCAPNG", "runs/a-latest.pcap")  # before it, by name
    os.symlink("../other.bin", "runs/z.pcap")
    assert names("runs") == ([*ALL, "runs/z.pcap"], [])
    assert names("runs", "other.bin") == (["other.bin", *ALL], [])
    assert names("runs/a-latest.pcap") == (["runs/a-latest.pcap"], [])
    os.symlink("../other.bin", "runs/y.pcap")
    assert names("runs") == ([*ALL, "runs/y.pcap"], [])
    os.link("runs/a.pcap", "runs/copy.pcap")
    assert "runs/copy.pcap" in names("runs")[0]


def test_the_same_below_a_folder_that_is_a_link(here):
    os.symlink("runs", "today")
    os.symlink("a.pcap", "runs/0.pcap")
    assert names("today") == ([name.replace("runs", "today") for name in ALL], [])
    assert names("today", "runs") == (ALL, [])


def test_a_link_to_the_folder_that_was_given(here):
    os.symlink(".", "runs/again")
    os.symlink("deep", "runs/a-link")  # before the folder, by name
    assert names("runs") == (ALL, [])


def test_a_folder_that_cannot_be_read(here):
    """As another user, since the administrator reads everything."""
    if os.geteuid():
        pytest.skip("changes its user for that")
    for path in (here, here / "runs", here / "runs/deep"):
        path.chmod(0o755)
    (here / "runs/deep/er").chmod(0o700)
    os.seteuid(65534)
    try:
        result, problems = names("runs")
    finally:
        os.seteuid(0)
    assert (result, problems) == (
        [name for name in ALL if "/er/" not in name],
        ["runs/deep/er: cannot be read (Permission denied)"],
    )


def test_a_capture_that_goes_while_we_look(here, monkeypatch):
    """Between the list of names and the look at one of them."""
    walk = os.walk

    def slow(*args, **options):
        for root, folders, files in walk(*args, **options):
            if "a.pcap" in files:
                os.unlink("runs/a.pcap")
            yield root, folders, files

    monkeypatch.setattr(os, "walk", slow)
    assert names("runs") == (ALL[1:], [])


def test_a_link_that_leads_nowhere_but_to_itself(here):
    os.symlink("self.pcap", "runs/self.pcap")
    assert names("runs") == (ALL, ["runs/self.pcap: cannot be read (Too many levels of symbolic links)"])


def test_a_link_to_what_is_not_there(here):
    os.symlink("/nowhere/x.pcap", "runs/x.pcap")
    os.symlink("/nowhere/notes", "runs/notes")
    assert names("runs") == (ALL, ["runs/x.pcap: broken symbolic link"])


def test_folders_that_are_given_are_kept_for_the_manifest(here):
    assert find_captures(["runs", "other.bin", "run*"], Path("out")).folders == [str(here / "runs")] * 2


def test_the_dataset_is_left_out(here):
    (here / "runs/out").mkdir()
    (here / "runs/out/z.pcap").write_bytes(b"x")
    assert names("runs", out="runs/out") == (ALL, [])


def test_size_and_path(here):
    (capture,) = find_captures(["runs/a.pcap"], Path("out")).captures
    assert (capture.path, capture.bytes) == (str(here / "runs/a.pcap"), len("runs/a.pcap"))
    assert capture.mtime_ns == os.stat("runs/a.pcap").st_mtime_ns


@pytest.mark.parametrize(
    ("name", "stem"),
    [("a.pcap", "a"), ("a.b.pcapng.gz", "a.b"), ("x.pcap3", "x"), ("dump.bin", "dump"), ("plain", "plain")],
)
def test_the_stem_of_a_capture_has_no_ending_of_captures(name, stem):
    assert get_capture_stem(name) == stem

import json

import pytest

from ikeanalyze.lab import LabError
from ikeanalyze.lab.campaign.plan import plan_cases
from ikeanalyze.lab.scenario.expansion import expand_cases


def write_part(out, stem, numbers, *, name="x", warm_ups=(), **scenario):
    """A manifest as the lab writes it, as far as it is read here."""
    handshakes = [{"number": number, "warm_up": True} for number in warm_ups]
    handshakes += [{"number": number} for number in numbers]
    document = {"schema": "ikeanalyze.lab/1", "name": name, "scenario": scenario, "handshakes": handshakes}
    (out / f"{stem}.manifest.json").write_text(json.dumps(document))
    for suffix in ("pcapng", "initiator.log.gz"):
        (out / f"{stem}.{suffix}").write_text("recorded")


def plan(out, *, resume=True, **data):
    (case,) = expand_cases(data, "x.toml", "x")
    return plan_cases([case], out, resume=resume)[0]


def test_an_empty_directory_lacks_everything(tmp_path):
    planned = plan(tmp_path, iterations=3)
    assert (list(planned.missing), planned.recordings) == ([1, 2, 3], [])
    assert planned.open_part().manifest.name == "x.manifest.json"
    assert planned.open_part().manifest.name == "x.part2.manifest.json"


def test_a_complete_case_is_kept(tmp_path):
    write_part(tmp_path, "x", [1, 2, 3])
    planned = plan(tmp_path, iterations=3)
    assert (list(planned.missing), planned.recordings) == ([], [tmp_path / "x.manifest.json"])


def test_the_parts_of_a_case_share_its_numbers(tmp_path):
    write_part(tmp_path, "x", [1, 4])
    write_part(tmp_path, "x.part10", [6, 2])
    planned = plan(tmp_path, iterations=7)
    assert list(planned.missing) == [3, 5, 7]
    assert planned.open_part().stem == "x.part11"


def test_warm_up_handshakes_are_not_counted(tmp_path):
    write_part(tmp_path, "x", [1], warm_ups=[1, 2, 3])
    assert list(plan(tmp_path, iterations=3).missing) == [2, 3]


def test_another_scenario_that_is_named_like_a_part_is_left_alone(tmp_path):
    write_part(tmp_path, "x", [1])
    write_part(tmp_path, "x.part2", [2], name="x.part2")
    assert list(plan(tmp_path, iterations=2).missing) == [2]
    plan(tmp_path, resume=False).open_part()
    assert (tmp_path / "x.part2.pcapng").exists()


def test_a_new_run_replaces_all_parts(tmp_path):
    write_part(tmp_path, "x", [1])
    write_part(tmp_path, "x.part2", [2])
    plan(tmp_path, resume=False, iterations=2).open_part()
    assert not list(tmp_path.glob("x.part2*"))


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        ({"link.loss_percent": 5.0}, r"link\.loss_percent was 5\.0 and is 0\.0"),
        ({"then": ["ping"]}, r'then was \["ping"\] and is \[\]'),
        ({"link.colour": "red"}, r"unknown key link\.colour"),
    ],
)
def test_other_settings_are_refused(tmp_path, recorded, said):
    write_part(tmp_path, "x", [1], **recorded)
    with pytest.raises(LabError, match=rf"x\.manifest\.json: recorded with .*{said}.*choose another directory"):
        plan(tmp_path, iterations=2)


def test_more_iterations_continue_a_case(tmp_path):
    write_part(tmp_path, "x", [1, 2], **{"iterations": 2, "link.loss_percent": 5.0, "then": ["ping"]})
    planned = plan(tmp_path, iterations=4, link={"loss_percent": 5}, then=["ping"])
    assert list(planned.missing) == [3, 4]


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, '{"schema": "ikeanalyze.lab/1"}'])
def test_a_file_that_is_not_a_manifest_is_not_replaced(tmp_path, text):
    (tmp_path / "x.manifest.json").write_text(text)
    with pytest.raises(LabError, match=r"x\.manifest\.json: not a manifest of the lab"):
        plan(tmp_path)


def test_what_a_killed_run_wrote_before_its_manifest_is_removed(tmp_path):
    write_part(tmp_path, "x", [1])
    for name in ("x.part2.pcapng", "x.part2.initiator.log.gz", "x.manifest.json.tmp", "x_more.pcapng"):
        (tmp_path / name).touch()
    plan(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"x.manifest.json", "x.pcapng", "x.initiator.log.gz", "x_more.pcapng"}

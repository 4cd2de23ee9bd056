"""Predictions of a report: `ikeanalyze predict` on the recorded cases that `claims.toml` selects."""

import json
import shutil

import polars as pl
import pytest

from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import CasePrediction
from ikeanalyze.papers.predictions import make_prediction_table
from tests.paths import CAPTURES


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Recordings of the lab in the layout of `paper run`: the scenario `methods` with three cases."""
    folder = tmp_path_factory.mktemp("recordings") / "methods"
    folder.mkdir()
    for name in ("psk", "ecdsa", "eap-aka"):
        for path in (CAPTURES / "lab").glob(f"{name}.*"):
            shutil.copy(path, folder)
    return folder.parent


def predict(recordings, options: str, **case) -> pl.DataFrame:
    keys = {name.replace("__", "."): value for name, value in case.items()}
    return make_prediction_table([CasePrediction(id="p", experiment="methods", case=keys, options=options)], recordings)


def test_the_rows_are_those_of_predict(recordings):
    table = predict(recordings, "--rtt 10 --loss 0,0.5 --runs 50", link__loss_percent=0, initiator__auth="psk")
    assert table["loss"].to_list() == [0, 0.5]
    assert set(table["prediction"]) == {"p"}
    assert set(table["experiment"]) == {"methods"}
    assert set(table["capture"]) == {"methods/psk.pcapng"}  # as in the other tables, not as on this machine
    # the sum of frame.len of its four messages, by tshark
    assert table["bytes_mean"][0] == table["bytes_once"][0] == 314 + 322 + 318 + 270
    assert table["bytes_mean"][1] > table["bytes_mean"][0]
    assert "burst_mean" not in table.columns  # without any value


def test_without_a_case_all_are_predicted(recordings):
    table = predict(recordings, "--rtt 0 --runs 1")
    assert sorted(table["capture"]) == ["methods/eap-aka.pcapng", "methods/ecdsa.pcapng", "methods/psk.pcapng"]


def test_of_a_case_in_parts_the_one_with_most_handshakes_is_predicted(recordings, tmp_path):
    folder = tmp_path / "methods"
    shutil.copytree(recordings / "methods", folder)
    manifest = json.loads((folder / "psk.manifest.json").read_bytes())
    manifest["handshakes"] = manifest["handshakes"] * 2
    manifest["files"]["capture"] = "psk.part2.pcapng"
    (folder / "psk.part2.manifest.json").write_text(json.dumps(manifest))
    shutil.copy(folder / "psk.pcapng", folder / "psk.part2.pcapng")
    table = predict(tmp_path, "--rtt 0 --runs 1", initiator__auth="psk")
    assert table["capture"].to_list() == ["methods/psk.part2.pcapng"]


def test_set_up_takes_the_round_trips_to_gateway_and_aaa_server(recordings):
    """EAP-AKA: 10 messages are 5 round trips of 60 ms, and 6 RADIUS packets 3 of 10 ms (centralized), or 20 and 60."""
    options = "--link epc-centralized-wifi --link epc-flat-wifi --budget 50,300 --runs 100"
    centralized, flat = predict(recordings, options, initiator__auth="eap-aka").to_dicts()
    assert (centralized["scenario"], flat["scenario"]) == ("epc-centralized-wifi", "epc-flat-wifi")
    # the same computation; each byte takes as long on both
    assert centralized["setup_ms_mean"] - flat["setup_ms_mean"] == pytest.approx((300 + 30) - (100 + 180), abs=0.1)
    assert centralized["within_300_ms"] == 0  # 330 ms are more than 300


def test_a_post_quantum_signature_adds_the_bytes_of_fips_204(recordings):
    names = ("ml-dsa-44", "ml-dsa-65")
    tables = [predict(recordings, f"--rtt 0 --runs 1 --signature {name}", initiator__auth="ecdsa") for name in names]
    small, large = (table["largest_message_bytes"].item() for table in tables)
    # a side sends one certificate (a key, a signature) and AUTH (a signature): FIPS 204, table 2
    assert large - small == (1952 - 1312) + 2 * (3309 - 2420)


@pytest.mark.parametrize(
    ("options", "case", "problem"),
    [
        ("--rtt 0", {"initiator__auth": "rsa"}, "prediction p: .*methods: no recording has the values of its case"),
        ("--rat 0", {"initiator__auth": "psk"}, "prediction p: .*No such option.*--rat"),
        ("--link epc-round", {"initiator__auth": "psk"}, "prediction p: .*epc-round"),
        (
            "--rtt 0 --signature ml-dsa-44",
            {"initiator__auth": "psk"},
            "prediction p: .*no side authenticates with a signature",
        ),
    ],
)
def test_a_prediction_that_cannot_be_made(recordings, options, case, problem):
    with pytest.raises(PaperError, match=problem):
        predict(recordings, options, **case)


def test_no_specifications_are_no_rows(recordings):
    assert make_prediction_table([], recordings).is_empty()

"""The file `claims.toml`: invalid ones are refused in one line that names the key."""

import pytest

from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import load_claims
from tests.papers.examples import CLAIMS


def test_a_file_is_read(tmp_path):
    (tmp_path / "claims.toml").write_text(CLAIMS)
    file = load_claims(tmp_path / "claims.toml")
    assert [quantity.id for quantity in file.all_quantities] == ["rsa-bytes", "psk-bytes", "ratio"]
    assert file.claims[0].value == 4000


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('kind = "exact"', 'kind = "about"', r"claims\[0\].kind must be one of exact, ratio, order, lost"),
        ('kind = "exact"', 'kind = "lost"', r"claims\[0\]: a claim has a value unless its kind is lost"),
        ('id = "psk-bytes"', 'id = "rsa-bytes"', "the id rsa-bytes is used more than once"),
        ('tested_by = ["psk-bytes"]', 'tested_by = ["x"]', "rsa-bytes: no claim or quantity has the id x"),
        ("{ratio}", "{ratios}", "answer: no claim or quantity has the id ratios"),
        ('why = "PSK takes {psk-bytes}."', "", "why is missing"),
        ("tolerance = 10", "tolerance = -1", r"claims\[0\].tolerance must be a number of at least 0"),
        ("tolerance = 10", "tolerence = 10", r"unknown key claims\[0\].tolerence; did you mean claims\[0\].tolerance"),
        ("tolerance = 10", 'formula = "esp-size"', r"claims\[0\]: sql and formula exclude each other"),
        ("sql = \"SELECT bytes AS value FROM handshakes WHERE experiment = 'rsa'\"", "", "without sql and formula"),
        ('figure = "bytes"', 'figure = "times"', "figure: no figure has the id times"),
    ],
)
def test_an_invalid_file_is_refused(tmp_path, old, new, problem):
    assert old in CLAIMS
    path = tmp_path / "claims.toml"
    path.write_text(CLAIMS.replace(old, new, 1))
    with pytest.raises(PaperError, match=problem) as caught:
        load_claims(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)

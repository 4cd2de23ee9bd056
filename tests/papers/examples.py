"""A report with made-up claims about made-up handshakes, whose numbers are easy to compute by hand."""

from pathlib import Path

import polars as pl

CLAIMS = """
title = "Made up"
source = "Nobody: Nothing"
question = "How many bytes?"
answer = "RSA takes {rsa-bytes}, {ratio} times as many as PSK."
figure = "bytes"
[[claims]]
id = "rsa-bytes"
item = "Bytes with RSA"
place = "Table 1"
unit = "bytes"
kind = "exact"
value = 4000
tolerance = 10
sql = "SELECT bytes AS value FROM handshakes WHERE experiment = 'rsa'"
expect = "reproduced within"
why = "PSK takes {psk-bytes}."
tested_by = ["psk-bytes"]
[[quantities]]
id = "psk-bytes"
item = "Bytes with PSK"
unit = "bytes"
sql = "SELECT bytes AS value FROM handshakes WHERE experiment = 'psk'"
[[quantities]]
id = "ratio"
item = "Ratio"
sql = "SELECT bytes AS value, experiment = 'psk' AS baseline FROM handshakes"
[[tables]]
title = "Bytes"
by = ["experiment"]
sql = "SELECT experiment, bytes FROM handshakes"
[[figures]]
id = "bytes"
kind = "intervals"
title = "Bytes"
caption = "Bytes of handshakes."
x_title = "bytes"
sql = "SELECT experiment AS label, bytes AS value FROM handshakes"
"""


def write_report(reports: Path, claims: str = CLAIMS) -> Path:
    """Write a report 900 into a folder of reports, without pages; return its folder."""
    folder = reports / "900-made-up"
    (folder / "data").mkdir(parents=True)
    (folder / "claims.toml").write_text(claims)
    (folder / "question.md").write_text("How many bytes?\n")
    write_handshakes(folder, rsa=[4000, 4200, 4400], psk=[1000, 1050, 1100])
    return folder


def write_handshakes(folder: Path, **values: list[int]) -> None:
    """Write the table of handshakes: bytes by experiment."""
    rows = [{"experiment": name, "bytes": value} for name, numbers in values.items() for value in numbers]
    pl.DataFrame(rows).write_parquet(folder / "data" / "handshakes.parquet")

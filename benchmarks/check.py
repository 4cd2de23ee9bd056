"""Compare the tables of a report with the contents of a generated capture: python -m benchmarks.check CAPTURE DIRECTORY

`ikeanalyze report CAPTURE --format parquet -o DIRECTORY` writes the tables. Prints the differences as JSON.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.files import get_truth_path


def found(directory: Path) -> dict[str, Any]:
    """The counts of the expected results, computed from the tables."""
    frames = pl.scan_parquet(directory / "frames.parquet").filter(pl.col("protocol") == "IKEv2")
    messages = pl.scan_parquet(directory / "messages.parquet").filter(pl.col("protocol") == "IKEv2")
    handshakes = pl.scan_parquet(directory / "handshakes.parquet")
    captures = pl.read_parquet(directory / "captures.parquet")
    sums = [pl.len().alias("messages"), pl.col("frames").sum(), pl.col("bytes").sum()]
    all_frames = frames.select(pl.len(), pl.col("bytes").cast(pl.UInt64).sum()).collect().row(0)
    all_messages, again = (
        part.select(sums).collect().row(0, named=True)
        for part in (messages, messages.filter(pl.col("transmission") > 1))
    )
    phases = messages.group_by(pl.col("type").cast(pl.String)).agg(sums).collect()
    outcomes = handshakes.group_by(pl.col("outcome").cast(pl.String)).len().collect()
    return {
        "packets": captures["packets"].sum(),
        "bytes": captures["bytes"].sum(),
        "handshakes": handshakes.select(pl.len()).collect().item(),
        "handshakes completed": dict(outcomes.iter_rows()).get("completed", 0),
        "ike": {"messages": all_messages["messages"], "frames": all_frames[0], "bytes": all_frames[1]},
        "messages' frames": all_messages["frames"],
        "messages' bytes": all_messages["bytes"],
        "retransmitted": again,
        "phases": {row.pop("type"): row for row in sorted(phases.iter_rows(named=True), key=lambda row: row["type"])},
        "esp": {
            "packets": captures["esp_packets"].sum(),
            "bytes": captures["esp_bytes"].sum(),
        },
        "nat_keepalive": {
            "packets": captures["nat_keepalive_packets"].sum(),
            "bytes": captures["nat_keepalive_bytes"].sum(),
        },
    }


def differences(truth: dict[str, Any], directory: Path) -> dict[str, dict[str, Any]]:
    """The expected and the actual number by the name of the count."""
    wanted = {
        **truth,
        "handshakes completed": truth["handshakes"],
        "messages' frames": truth["ike"]["frames"],
        "messages' bytes": truth["ike"]["bytes"],
    }
    result = {}
    for name, count in found(directory).items():
        if count != wanted[name]:
            result[name] = {"right": wanted[name], "found": count}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check", description=__doc__)
    parser.add_argument("capture", type=Path)
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    result = differences(json.loads(get_truth_path(options.capture).read_text()), options.directory)
    print(json.dumps(result, indent=2))
    sys.exit(1 if result else 0)


if __name__ == "__main__":
    main()

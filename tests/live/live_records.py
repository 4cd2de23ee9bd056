"""Records of handshakes as `live` and `report` write them, from captures that are read at once."""

import io
import json
from collections.abc import Iterable
from pathlib import Path

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.capture.reader import open_capture
from ikeanalyze.live.engine import LiveCounts, LiveEngine
from ikeanalyze.live.rules import EndingRules
from ikeanalyze.render.report.document import write_json_lines

SECOND = 10**9
RULES = EndingRules()


def read_live(path: Path, rules: EndingRules = RULES, *, chunk: int = 1 << 20, keys=None, **options):
    """The records in the order in which they are written, each with the time of the capture, and the counts."""
    records: list[tuple[int, dict]] = []
    options = ReadOptions(lab_manifests=False, **options)
    with open_capture(path, chunk=chunk) as reader:

        def write(analysis) -> None:
            out = io.StringIO()
            write_json_lines(analysis, out)
            records.extend((engine.counts.packets, json.loads(line)) for line in out.getvalue().splitlines())

        engine = LiveEngine(str(path), reader.interfaces, write, options, rules, keys)
        for batch in reader.iterate_batches():
            engine.add(batch)
        engine.finish()
    counts: LiveCounts = engine.counts
    return records, counts


def read_report(path: Path, **options) -> list[dict]:
    """The records of a report."""
    out = io.StringIO()
    write_json_lines(read_captures(path, ReadOptions(lab_manifests=False, **options)), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def without_id(records: Iterable[dict]) -> dict[tuple, dict]:
    """The records by what names them in both, without their ids."""
    return {
        (record["spi_i"], record["initiator"]["address"], record["start_time"]): {
            key: value for key, value in record.items() if key != "id"
        }
        for record in records
    }

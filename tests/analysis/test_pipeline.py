import subprocess
import sys

from ikeanalyze.analysis.pipeline import join_tables
from tests.analysis.analyse_captures import analyse_files
from tests.craft import SECOND, Handshake, Trace


def test_no_captures_give_empty_tables():
    tables = join_tables([])
    assert [len(table) for table in (tables.frames, tables.messages, tables.exchanges, tables.handshakes)] == [0] * 4


def test_ids_go_on_from_capture_to_capture(tmp_path):
    traces = []
    for first in (0, 10):
        trace = Trace()
        for number in range(3):
            trace.play(Handshake(first + number).setup(), at=number * SECOND)
        traces.append(trace.pcap())
    analysis = analyse_files(tmp_path, *traces)
    assert analysis.handshakes["handshake"].to_list() == [1, 2, 3, 4, 5, 6]
    assert analysis.messages["message"].to_list() == list(range(len(analysis.messages)))
    assert analysis.exchanges["exchange"].to_list() == list(range(len(analysis.exchanges)))


def test_polars_is_not_loaded_before_the_capture_is_read():
    code = "import sys, ikeanalyze.analysis.read; print('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"

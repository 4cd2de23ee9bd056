"""Keys that a daemon writes to its log while the capture goes on."""

import gzip
from dataclasses import replace

import numpy as np
import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.capture.reader import open_capture
from ikeanalyze.keys.detect import KeyFileError
from ikeanalyze.live import growing_keys
from ikeanalyze.live.engine import LiveEngine
from ikeanalyze.live.growing_keys import GrowingKeys
from ikeanalyze.live.rules import EndingRules
from tests.craft import Handshake, Trace
from tests.live.live_records import SECOND, read_live, read_report, without_id
from tests.paths import CAPTURES, LAB_CAPTURES

CAPTURE = CAPTURES / "psk-classic.pcap"
LOG = CAPTURES / "psk-classic.charon.log.gz"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(growing_keys, "_PAUSE", 0)
    monkeypatch.setattr(growing_keys, "_MAX_SHARE", 1e9)


def test_keys_that_come_after_the_start_decrypt(tmp_path):
    log = gzip.decompress(LOG.read_bytes())
    path = tmp_path / "charon.log"
    path.write_bytes(log[:500])
    problems = []
    keys = GrowingKeys([str(path)], problems.append)
    assert len(problems) == 1
    ended = []
    with open_capture(CAPTURE) as reader:
        engine = LiveEngine("x", reader.interfaces, ended.append, ReadOptions(), EndingRules(), keys)
        (batch,) = reader.iterate_batches()
        engine.add(batch)
        path.write_bytes(log)
        engine.advance(int(batch.time_ns[-1]) + 12 * SECOND)
    (analysis,) = ended
    assert analysis.handshakes["outcome"].to_list() == ["established"]
    assert read_report(CAPTURE, keys=[str(LOG)])[0]["outcome"] == "established"


def test_only_the_keys_of_the_ike_sas_are_selected():
    keys = GrowingKeys([str(LAB_CAPTURES / "loss20.keys.json")], pytest.fail)
    spis = [int.from_bytes(keys.spi_i, "big") for keys in keys.files[0].key_sets]
    chosen = keys.select(np.array(spis[:1], np.uint64))
    assert {keys.spi_i for keys in chosen.sets} == {spis[0].to_bytes(8, "big")}


def test_ike_sas_without_keys_are_not_decrypted():
    """A record tells that it is not decrypted, as a report with the keys of other IKE SAs does."""
    keys = GrowingKeys([str(LOG)], pytest.fail)
    capture = CAPTURES / "loss20-classic.pcap"
    records = [record for _, record in read_live(capture, keys=keys)[0]]
    assert without_id(records) == without_id(read_report(capture, keys=[str(LOG)]))
    assert not records[0]["exchanges"][0]["decrypted"]


def test_keys_are_kept_while_a_log_is_rotated(tmp_path):
    path = tmp_path / "charon.log"
    path.write_bytes(gzip.decompress(LOG.read_bytes()))
    keys = GrowingKeys([str(path)], pytest.fail)
    before = replace(keys.files[0])
    path.write_bytes(b"")
    keys.select(np.zeros(0, np.uint64))
    assert keys.files == [before]
    path.unlink()
    keys.select(np.zeros(0, np.uint64))
    assert keys.files == [before]


def test_a_file_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(KeyFileError):
        GrowingKeys([str(tmp_path / "no.log")], pytest.fail)


def test_messages_of_ike_sas_that_have_ended_are_not_kept(tmp_path):
    """With keys, the bytes of encrypted messages are in memory."""
    trace, handshake = Trace(), Handshake(1)
    trace.play(handshake.setup())
    for number in range(1, 500):
        trace.play(handshake.informational(size=1000), at=number * 20 * SECOND)
    keys = GrowingKeys([str(LOG)], pytest.fail)
    with open_capture(trace.write(tmp_path / "capture.pcap")) as reader:
        engine = LiveEngine("x", reader.interfaces, lambda _: None, ReadOptions(), EndingRules(), keys)
        for batch in reader.iterate_batches():
            engine.add(batch)
    assert engine.counts.late_frames > 990
    assert sum(len(data) for data in engine._window.storage.messages.encrypted.values()) < 5000

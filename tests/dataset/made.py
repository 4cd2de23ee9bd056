"""Captures for datasets, and datasets for comparing: what is in them byte by byte."""

import hashlib
import json
from concurrent.futures import Future
from pathlib import Path

from ikeanalyze.dataset.batch import groups
from ikeanalyze.dataset.batch.run import BatchOptions, BatchSummary, run_batch
from ikeanalyze.dataset.batch.task import run_task
from ikeanalyze.dataset.labels import parse_pattern
from tests.craft.handshake import Handshake
from tests.craft.packet import MS
from tests.craft.trace import Trace

TABLES = ("captures", "handshakes", "exchanges", "messages")
#: Messages of each handshake made here: IKE_SA_INIT and IKE_AUTH, a request and a response each.
MESSAGES = 4


def capture(seed: int, rtt: int = 20 * MS, handshakes: int = 1) -> bytes:
    """A pcap file with handshakes of their own SPIs and contents, always between the same hosts."""
    trace = Trace()
    for number in range(handshakes):
        trace.play(Handshake(1000 * seed + number).setup(auth=(1, 1)), at=1000 * MS * number, rtt=rtt)
    return trace.pcap()


def runs(folder: Path, count: int) -> Path:
    """`count` captures as a testbed leaves them: folder/config/lossN/NN.pcap."""
    for number in range(count):
        config, loss = ("psk", "eap")[number % 2], (0, 5, 20)[number % 3]
        path = folder / config / f"loss{loss}" / f"{number:04}.pcap"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(capture(number, (20 + loss) * MS))
    return folder


class Here:
    """Does tasks at once, in this process."""

    width = 1

    def __init__(self) -> None:
        self.tasks = []

    def submit(self, task):
        self.tasks.append(task)
        future = Future()
        try:
            future.set_result(run_task(task))
        except Exception as error:
            future.set_exception(error)
        return future

    def is_worker_loss(self, error):
        return False

    def get_stall_reason(self):
        return None

    def bytes_read(self):
        return 0

    def close(self):
        pass


class Told(list):
    """Lines for the user."""

    def __call__(self, line):
        self.append(line)


def batch(dataset, *paths, workers=None, say=None, label=None, **options) -> BatchSummary:
    """A batch in this process."""
    patterns = None if label is None else [parse_pattern(text) for text in label]
    batch_options = BatchOptions([str(path) for path in paths], Path(dataset), patterns=patterns, **options)
    here = Here() if workers is None else workers
    return run_batch(batch_options, lambda _: here, None, print if say is None else say)


def small_groups(monkeypatch, count: int = 3) -> None:
    """Have few captures in a shard, so that few captures make several."""
    monkeypatch.setattr(groups, "_MAX_CAPTURES", count)


def files(dataset: Path) -> dict[str, str]:
    """Digests of all files of a dataset by their names below it; nothing else may lie there."""
    result = {
        str(path.relative_to(dataset)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in dataset.rglob("*")
        if path.is_file()
    }
    result.pop("lock")
    return result


def tables(dataset: Path) -> dict[str, str]:
    """The same, of the tables alone."""
    return {name: digest for name, digest in files(dataset).items() if name != "manifest.json"}


def manifest(dataset: Path) -> dict:
    """The manifest as a reader of JSON has it."""
    return json.loads((dataset / "manifest.json").read_text())


def entries(dataset: Path) -> dict[str, dict]:
    """What it says of each capture."""
    return {item["capture"]: item for shard in manifest(dataset)["shards"] for item in shard["captures"]}

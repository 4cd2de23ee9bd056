"""Reads predictions (`ikeanalyze predict --format json`), and maps columns that describe a link to their values."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec

from ikeanalyze.dataset.compare import CompareError
from ikeanalyze.dataset.compare.columns import Value

SCHEMA: Final = "ikeanalyze.prediction/1"

_MAX_BYTES: Final = 256 << 20
_Number = Annotated[float, msgspec.Meta(ge=0, le=1e100)]


class PredictedDistribution(msgspec.Struct, frozen=True):
    """The distribution of a quantity over the simulated handshakes that succeed."""

    mean: _Number
    deviation: _Number
    median: _Number
    p95: _Number
    p99: _Number


class PredictedLink(msgspec.Struct, frozen=True):
    """The link of a prediction."""

    rtt_ms: _Number
    loss: _Number  # share
    jitter_ms: _Number = 0
    rate_up: _Number | None = None  # bit/s; None: unlimited
    rate_down: _Number | None = None
    mtu: int | None = None  # None: as recorded
    drop_ip_fragments: bool = False


class PredictedPolicy(msgspec.Struct, frozen=True):
    """The retransmission policy of a prediction."""

    name: str


class PredictedCase(msgspec.Struct, frozen=True):
    """One prediction of a file; keys that are not used here are ignored."""

    capture: str
    handshake: int
    link: PredictedLink
    transport: str
    policy: PredictedPolicy
    runs: Annotated[int, msgspec.Meta(ge=1)]
    setup_ms: PredictedDistribution | None  # None: no simulated handshake succeeds
    bytes: PredictedDistribution | None
    messages: PredictedDistribution | None
    frames: PredictedDistribution | None
    fragment_size: int | None = None  # None: as recorded


class PredictionFile(msgspec.Struct, frozen=True):
    """A JSON document of `ikeanalyze predict`."""

    schema: str
    predictions: list[PredictedCase]


def _get_rate(case: PredictedCase) -> Value:
    """kbit/s of both directions, 0: unlimited; text if they differ."""
    up, down = (0.0 if rate is None else rate / 1000 for rate in (case.link.rate_up, case.link.rate_down))
    return up if up == down else f"{up:.12g}/{down:.12g}"


#: Columns that describe a link, with or without the prefix `link_` or `ike_`, and their value in a prediction; None: as
#: in the capture, which fits every value.
LINK_COLUMNS: Final[Mapping[str, Callable[[PredictedCase], Value]]] = {
    "loss": lambda case: case.link.loss * 100,
    "loss_percent": lambda case: case.link.loss * 100,
    "rtt": lambda case: case.link.rtt_ms,
    "rtt_ms": lambda case: case.link.rtt_ms,
    "jitter_ms": lambda case: case.link.jitter_ms,
    "rate_kbps": _get_rate,
    "mtu": lambda case: case.link.mtu,
    "drop_ip_fragments": lambda case: case.link.drop_ip_fragments,
    "fragment_size": lambda case: case.fragment_size,
    "transport": lambda case: case.transport,
}


def find_link_column(name: str) -> Callable[[PredictedCase], Value] | None:
    """The function that gives the value of this column in a prediction; None: it does not describe a link."""
    return LINK_COLUMNS.get(name.removeprefix("link_").removeprefix("ike_"))


def read_predictions(path: str) -> list[PredictedCase]:
    """The predictions in a file.

    Raises:
        CompareError: it cannot be read, or is not a JSON document of `ikeanalyze predict`.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise CompareError(f"{path}: {error.strerror or error}") from None
    try:
        if len(content) > _MAX_BYTES:
            raise msgspec.DecodeError(f"larger than {_MAX_BYTES >> 20} MiB")
        document = msgspec.json.decode(content, type=PredictionFile)
        if document.schema != SCHEMA:
            raise msgspec.ValidationError(f"schema is not {SCHEMA}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CompareError(
            f"{path}: not a prediction ({error}). `ikeanalyze predict --format json` makes one"
        ) from None
    return document.predictions

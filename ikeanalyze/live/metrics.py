"""Metrics of a live capture for Prometheus, on a port of loopback.

Counters count since the start of the program. No label has values from packets other than names that are known, so
that senders of packets cannot make the number of metrics grow.
"""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.live.engine import LiveCounts

_LOOPBACK: Final = "127.0.0.1"
#: Seconds: set-up times range from milliseconds in a laboratory to minutes of retransmissions.
_SETUP_BUCKETS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


class MetricsError(Exception):
    """The metrics cannot be served: one line for the user."""


class LiveMetrics:
    """The metrics, and the server that answers requests for them in a thread; a context manager that stops it."""

    def __init__(self, port: int) -> None:
        """Serve metrics; port 0 is any free one.

        Raises:
            MetricsError: the port cannot be used.
        """
        # otherwise each counter has another metric with the time of its start
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        self._handshakes = Counter(
            "ikeanalyze_handshakes", "Handshakes that have ended.", ("protocol", "outcome"), registry=registry
        )
        self._setup = Histogram(
            "ikeanalyze_setup_seconds", "Set-up time of handshakes.", registry=registry, buckets=_SETUP_BUCKETS
        )
        self._messages = Counter("ikeanalyze_messages", "Messages of the set-up of handshakes.", registry=registry)
        self._bytes = Counter("ikeanalyze_bytes", "Bytes of the frames of the set-up of handshakes.", registry=registry)
        self._retransmitted = Counter(
            "ikeanalyze_retransmitted_messages", "Messages of the set-up that were sent again.", registry=registry
        )
        self._diagnoses = Counter(
            "ikeanalyze_diagnosed_handshakes", "Handshakes by the code of a diagnosis.", ("code",), registry=registry
        )
        self._capture = _CaptureMetrics()
        registry.register(self._capture)
        try:
            self._server, self._thread = start_http_server(port, _LOOPBACK, registry)
        except OSError as error:
            raise MetricsError(f"port {port} of {_LOOPBACK}: {error.strerror or error}") from None

    @property
    def address(self) -> str:
        """Where the metrics are."""
        return f"http://{_LOOPBACK}:{self._server.server_port}/metrics"

    def watch(self, count: Callable[[], LiveCounts]) -> None:
        """Show these counts too; they are computed for each request."""
        self._capture.count = count

    def add(self, analysis: Analysis) -> None:
        """Count handshakes that have ended."""
        table = analysis.handshakes
        for protocol, outcome, count in table.group_by("protocol", "outcome").len().iter_rows():
            self._handshakes.labels(str(protocol), str(outcome)).inc(count)
        codes = table["diagnosis"].drop_nulls().explode().drop_nulls().struct.field("code")
        for code, count in codes.value_counts().iter_rows():
            self._diagnoses.labels(code).inc(count)
        for setup_ns in table["setup_ns"].drop_nulls().to_list():
            self._setup.observe(setup_ns / 1e9)
        for counter, names in (
            (self._messages, ("initiator_messages", "responder_messages")),
            (self._bytes, ("initiator_bytes", "responder_bytes")),
            (self._retransmitted, ("retransmitted_messages",)),
        ):
            counter.inc(sum(int(table[name].sum()) for name in names))

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _CaptureMetrics(Collector):
    """What the engine has seen and keeps."""

    def __init__(self) -> None:
        self.count: Callable[[], LiveCounts] | None = None

    def collect(self) -> Iterator[Metric]:
        """The metrics at the time of a request."""
        if self.count is None:
            return
        counts = self.count()
        packets = CounterMetricFamily("ikeanalyze_packets", "Packets that were read.", labels=("kind",))
        for kind, number in counts.accounting.items():
            packets.add_metric((kind,), number)
        yield packets
        yield GaugeMetricFamily("ikeanalyze_open_ike_sas", "IKE SAs that have not ended.", counts.open)
        yield GaugeMetricFamily("ikeanalyze_kept_frames", "Frames of IKE SAs that have not ended.", counts.frames)
        yield CounterMetricFamily(
            "ikeanalyze_late_frames", "Frames of IKE SAs that had ended before.", counts.late_frames
        )
        yield CounterMetricFamily("ikeanalyze_rekeyed_ike_sas", "IKE SAs that replaced another one.", counts.rekeyed)
        if counts.last_ns is not None:
            time = "Time of the last packet, in seconds since 1970."
            yield GaugeMetricFamily("ikeanalyze_last_packet_time_seconds", time, counts.last_ns / 1e9)

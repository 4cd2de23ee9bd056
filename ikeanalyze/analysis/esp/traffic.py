"""Summarises the ESP traffic of a capture: packets, bytes, sizes, sequence numbers and rate of each SA.

An SA is a sender, a receiver and an SPI: one direction (RFC 4303, section 2.1). Sequence numbers are checked as a
receiver does (section 3.4.3), with a window: a number at least `WINDOW` below the highest is *late* and not checked
further. A number that occurred before is *repeated* (a replay, or a duplicate of the capture), a number below the
highest is *out of order*, and a new highest number that is not the next one is a *jump*. *Missing* numbers are those
between the lowest and the highest that did not arrive in time.

A packet carries the lower half of an extended sequence number (section 2.2.1). Only extended numbers continue after
2^32 - 1, so if a number close to 0 follows one close to 2^32, its upper half is one more, as a receiver infers it
(appendix A2.2).

Memory grows with the number of SAs, not with the number of packets.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from ikeanalyze.capture.decode.classify import Encapsulation
from ikeanalyze.capture.decode.ip import format_address_code
from ikeanalyze.capture.esp import MAX_ESP_SAS, Block, EspCapture, EspPacketFilter
from ikeanalyze.capture.esp import read_esp as read_packets
from ikeanalyze.keys.key_set import EspKey

if TYPE_CHECKING:
    from ikeanalyze.analysis.esp.decrypt import EspPayloadStats

#: Size of the window in sequence numbers. Receivers have at least 32, by default 64.
WINDOW: Final = 1024

#: A number less than this above 0 that follows one less than this below 2^32 continues the extended sequence.
_NEAR_END: Final = 1 << 24
_CYCLE: Final = 1 << 32

#: Upper bounds in bytes of the classes of the size histogram.
SIZE_BOUNDS: Final = (*range(64, 1537, 64), 2048, 4096, 9216, 65535)

#: Rates are counted in intervals; when this number is exceeded, two intervals become one.
_MAX_INTERVALS: Final = 200
_FIRST_WIDTH_NS: Final = 1_000_000

_KEY: Final = ("source", "destination", "spi")
_ENCAPSULATIONS: Final = {Encapsulation.IP: "ip", Encapsulation.UDP_4500: "udp-4500", Encapsulation.UDP: "udp"}
_CHECKS: Final = ("repeated", "late", "out_of_order", "jumps")
_SUMS: Final = ("packets", "frames", "bytes", "esp_bytes", "unsized", "distinct", *_CHECKS)


@dataclass(frozen=True, slots=True)
class RateInterval:
    """Traffic within an interval of time."""

    start_ns: int  # since 1970-01-01 UTC
    packets: int
    bytes: int  # of frames


@dataclass(frozen=True, slots=True)
class EspSa:
    """One ESP SA in the capture."""

    source: str
    destination: str
    spi: int
    encapsulation: str  # of the first packet: "ip", "udp-4500" or "udp" (another port)
    packets: int  # ESP packets
    frames: int  # more than packets if IP fragmented them
    bytes: int  # of frames, link header included
    esp_bytes: int  # from SPI to ICV
    unsized: int  # packets not in `esp_bytes`, because an IP fragment is missing
    first_ns: int
    last_ns: int
    lowest: int  # sequence number; extended if the numbers continue after 2^32 - 1
    highest: int
    missing: int
    jumps: int
    repeated: int
    late: int
    out_of_order: int
    histogram: tuple[tuple[int, int], ...]  # upper bound of a class (`SIZE_BOUNDS`), packets; without empty classes
    rate: tuple[RateInterval, ...]  # without empty intervals
    payload_stats: "EspPayloadStats | None"  # of decrypted packets; None: no key for this SA

    @property
    def mean_bps(self) -> float | None:
        """Bits of frames per second from the first packet to the last; None: all at the same time."""
        span = self.last_ns - self.first_ns
        return 8e9 * self.bytes / span if span > 0 else None


@dataclass(frozen=True, slots=True)
class EspTraffic:
    """The ESP traffic of a capture."""

    path: str
    capture: EspCapture
    sas: Sequence[EspSa]  # in the order of their first packets
    interval_ns: int  # length of the intervals of `rate`
    beyond: int = 0  # ESP packets of SAs beyond `MAX_ESP_SAS`, which are not in `sas`
    unusable_keys: Sequence[str] = ()  # origin and reason, one line each


def read_esp_traffic(
    path: str,
    ports: Collection[int] = (),
    progress: Callable[[int, int | None], None] | None = None,
    keys: Sequence[EspKey] = (),
) -> EspTraffic:
    """Read the ESP packets of a capture; "-" is standard input. `ports`: as in `capture.frames.read_frames`.

    With `keys`, the packets of their SAs are decrypted.

    Raises:
        CaptureError: the capture cannot be read.
    """
    table = _EspSaTable()
    if not keys:
        capture = read_packets(path, table.add, ports, progress)
        return EspTraffic(path, capture, table.sas(capture.addresses, {}), table.width, table.beyond)
    # here, because ciphers are needed only with keys
    from ikeanalyze.analysis.esp.decrypt import EspPacketDecryptor, collect_key_spis

    decryptor = EspPacketDecryptor(keys)
    capture = read_packets(path, table.add, ports, progress, EspPacketFilter(collect_key_spis(keys), decryptor.add))
    sas = table.sas(capture.addresses, decryptor.stats)
    unusable = [*decryptor.unusable, *decryptor.find_misplaced_keys(capture.addresses)]
    return EspTraffic(path, capture, sas, table.width, table.beyond, unusable)


class _EspSaTable:
    """Totals of all SAs so far; `sa` numbers them from 0."""

    def __init__(self) -> None:
        self.width = _FIRST_WIDTH_NS
        self.beyond = 0
        self._keys: pl.DataFrame | None = None  # _KEY to sa
        self._sums: pl.DataFrame | None = None  # one row per SA
        self._seen: pl.DataFrame | None = None  # sa, sequence: the numbers within the window
        self._sizes: pl.DataFrame | None = None  # sa, bound, packets
        self._rates: pl.DataFrame | None = None  # sa, interval, packets, bytes

    def add(self, block: Block) -> None:
        """Count a block of packets."""
        packets = self._number_sas(pl.DataFrame(block))
        self.beyond += len(block["spi"]) - packets.height
        if not packets.height:
            return
        packets = self._check_sequence(packets)
        self._add_sums(packets)
        self._add_sizes(packets)
        self._add_rates(packets)

    def sas(self, ipv6: Sequence[bytes], payloads: "Mapping[tuple[int, int, int], EspPayloadStats]") -> list[EspSa]:
        """All SAs; `payloads` by source, destination and SPI."""
        if self._keys is None or self._sums is None or self._sizes is None or self._rates is None:
            return []
        sizes = _group_by_sa(self._sizes.sort("bound"), "bound", "packets")
        rates = _group_by_sa(self._rates.sort("interval"), "interval", "packets", "bytes")
        return [
            EspSa(
                source=format_address_code(row["source"], ipv6),
                destination=format_address_code(row["destination"], ipv6),
                spi=row["spi"],
                encapsulation=_ENCAPSULATIONS[row["encapsulation"]],
                **{name: row[name] for name in _SUMS if name != "distinct"},
                **{name: row[name] for name in ("first_ns", "last_ns", "lowest", "highest")},
                missing=row["highest"] - row["lowest"] + 1 - row["distinct"],
                histogram=tuple((bound, count) for bound, count in sizes.get(row["sa"], ())),
                rate=tuple(RateInterval(n * self.width, count, size) for n, count, size in rates[row["sa"]]),
                payload_stats=payloads.get((row["source"], row["destination"], row["spi"])),
            )
            for row in self._keys.join(self._sums, on="sa").sort("sa").iter_rows(named=True)
        ]

    def _number_sas(self, packets: pl.DataFrame) -> pl.DataFrame:
        """Add the number of the SA to the packets; packets of SAs beyond the maximum are left out."""
        if self._keys is None:
            self._keys = packets.clear().select(*_KEY, "encapsulation", pl.lit(0, pl.UInt32).alias("sa"))
        firsts = packets.unique(_KEY, keep="first", maintain_order=True)
        new = firsts.join(self._keys, on=_KEY, how="anti", maintain_order="left")
        new = new.head(MAX_ESP_SAS - self._keys.height)
        if new.height:
            first = self._keys.height
            numbers = pl.int_range(first, first + new.height, dtype=pl.UInt32, eager=True).alias("sa")
            self._keys = self._keys.vstack(new.select(*_KEY, "encapsulation").with_columns(numbers))
        known = self._keys.drop("encapsulation")
        return packets.with_columns(pl.col("sequence").cast(pl.Int64)).join(
            known, on=_KEY, how="inner", maintain_order="left"
        )

    def _check_sequence(self, packets: pl.DataFrame) -> pl.DataFrame:
        """Add the results of the checks of sequence numbers: late, repeated, out of order, jump."""
        if self._sums is None:
            packets = packets.with_columns(highest=pl.lit(None, pl.Int64))
        else:
            packets = packets.join(self._sums.select("sa", "highest"), on="sa", how="left", maintain_order="left")
        packets = _extend_sequence_numbers(packets)
        before = pl.max_horizontal(pl.col("sequence").cum_max().shift(1).over("sa"), "highest")
        packets = packets.with_columns(before=before)
        late = (pl.col("sequence") <= pl.col("before") - WINDOW).fill_null(False)
        packets = packets.with_columns(late=late)
        # sequence numbers of a capture fit into 40 bits
        place = pl.col("sa").cast(pl.UInt64) * 2**40 + pl.col("sequence").cast(pl.UInt64)
        timely = packets.filter(~pl.col("late"))
        places = timely.select(place.alias("place")).to_series()
        if self._seen is None:
            seen = places.clear()
        else:
            seen = self._seen.select(place.alias("place")).to_series()
        fresh = pl.concat([seen, places]).is_first_distinct()[len(seen) :]
        behind = pl.col("sequence") < pl.col("before")
        timely = timely.with_columns(fresh=fresh).with_columns(
            repeated=~pl.col("fresh"),
            out_of_order=(pl.col("fresh") & behind).fill_null(False),
            jumps=(pl.col("sequence") > pl.col("before") + 1).fill_null(False),
        )
        self._update_window(timely.filter("fresh"))
        return pl.concat([timely, packets.filter("late")], how="diagonal")

    def _update_window(self, fresh: pl.DataFrame) -> None:
        numbers = fresh.select("sa", "sequence")
        if self._seen is not None:
            numbers = self._seen.vstack(numbers)
        self._seen = numbers.filter(pl.col("sequence") > pl.col("sequence").max().over("sa") - WINDOW)

    def _add_sums(self, packets: pl.DataFrame) -> None:
        timely = pl.col("sequence").filter(~pl.col("late"))
        sums = packets.group_by("sa").agg(
            pl.len().cast(pl.Int64).alias("packets"),
            *(pl.col(name).cast(pl.Int64).sum() for name in ("frames", "bytes", "esp_bytes")),
            (pl.col("esp_bytes") == 0).cast(pl.Int64).sum().alias("unsized"),
            pl.col("fresh").cast(pl.Int64).sum().alias("distinct"),
            *(pl.col(name).cast(pl.Int64).sum() for name in _CHECKS),
            pl.col("time_ns").min().alias("first_ns"),
            pl.col("time_ns").max().alias("last_ns"),
            timely.min().alias("lowest"),
            timely.max().alias("highest"),
        )
        if self._sums is not None:
            sums = (
                self._sums.vstack(sums)
                .group_by("sa")
                .agg(
                    *(pl.col(name).sum() for name in _SUMS),
                    *(pl.col(name).min() for name in ("first_ns", "lowest")),
                    *(pl.col(name).max() for name in ("last_ns", "highest")),
                )
            ).select(sums.columns)
        self._sums = sums

    def _add_sizes(self, packets: pl.DataFrame) -> None:
        bounds = pl.Series(SIZE_BOUNDS, dtype=pl.Int64)
        sized = packets.filter(pl.col("esp_bytes") > 0)
        place = bounds.search_sorted(sized["esp_bytes"].clip(0, SIZE_BOUNDS[-1]), side="left")
        sizes = sized.select("sa", bound=bounds.gather(place)).group_by("sa", "bound").agg(packets=pl.len())
        if self._sizes is not None:
            sizes = self._sizes.vstack(sizes).group_by("sa", "bound").agg(pl.col("packets").sum())
        self._sizes = sizes

    def _add_rates(self, packets: pl.DataFrame) -> None:
        interval = pl.col("time_ns") // self.width
        counts = (pl.col("packets").sum(), pl.col("bytes").sum())
        rates = packets.group_by("sa", interval=interval).agg(packets=pl.len(), bytes=pl.col("bytes").sum())
        if self._rates is not None:
            rates = self._rates.vstack(rates).group_by("sa", "interval").agg(*counts)
        low, high = rates["interval"].min(), rates["interval"].max()
        assert isinstance(low, int)
        assert isinstance(high, int)
        while high - low >= _MAX_INTERVALS:
            low, high, self.width = low // 2, high // 2, self.width * 2
            rates = rates.group_by("sa", pl.col("interval") // 2).agg(*counts)
        self._rates = rates


def _extend_sequence_numbers(packets: pl.DataFrame) -> pl.DataFrame:
    """Extend sequence numbers that continue after 2^32 - 1; `highest` is that of earlier blocks."""
    sequence = pl.col("sequence")
    near = (sequence >= _CYCLE - _NEAR_END) | (pl.col("highest") >= _CYCLE - _NEAR_END)
    # few SAs get so far; only their packets are processed one by one
    rows = packets.select(near.fill_null(False).any().over("sa")).to_series().arg_true()
    if not len(rows):
        return packets
    numbers = packets["sequence"].to_numpy().copy()
    known: dict[int, int] = {}
    for row, sa, highest in zip(rows, packets["sa"].gather(rows), packets["highest"].gather(rows), strict=True):
        low = int(numbers[row])
        before = known.get(sa, low if highest is None else highest)
        upper, place = divmod(before, _CYCLE)
        if place >= _CYCLE - _NEAR_END and low < _NEAR_END:
            upper += 1
        elif place < _NEAR_END and low >= _CYCLE - _NEAR_END and upper:
            upper -= 1
        numbers[row] = number = upper * _CYCLE + low
        known[sa] = max(before, number)
    return packets.with_columns(sequence=pl.Series(numbers, dtype=pl.Int64))


def _group_by_sa(table: pl.DataFrame, *columns: str) -> dict[int, list[tuple[int, ...]]]:
    """The rows of each SA."""
    rows: dict[int, list[tuple[int, ...]]] = {}
    for sa, *values in table.select("sa", *columns).iter_rows():
        rows.setdefault(sa, []).append(tuple(values))
    return rows

"""The compiled core; its source is core/. Import it through `ikeanalyze.core`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.exchanges.answers import AnsweredTransmissions
from ikeanalyze.analysis.exchanges.capture_point import NetworkPath
from ikeanalyze.analysis.exchanges.exchanges import ExchangeColumns
from ikeanalyze.analysis.messages.association import SaAssociation
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.capture.arrays import (
    BoolArray,
    Int32Array,
    Int64Array,
    UInt8Array,
    UInt16Array,
    UInt32Array,
    UInt64Array,
)

INTERFACE: int

def copy_ranges(target: UInt8Array, at: int, source: UInt8Array, begin: Int64Array, end: Int64Array) -> None:
    """Copy the bytes from `begin` to `end` of `source`, for each pair, to consecutive places of `target` from `at` on.

    Raises:
        ValueError: a range is outside of its buffer, or `begin` and `end` have different lengths.
        TypeError: `target` is not writable, or is `source`.
    """

def walk_pcap(
    buffer: UInt8Array,
    start: int,
    end: int,
    *,
    big_endian: bool,
    lengths_swapped: bool,
    lengths_unordered: bool,
    header_size: int,
    fraction_ns: int,
    usual: int,
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, int] | None:
    """Offset, captured length, length and time of the complete records in buffer[start:end], and where they end.

    None if a record is empty or longer than `usual`, which Python must check.
    """

def find_packet_blocks(
    buffer: UInt8Array, start: int, end: int, big_endian: bool, numbered: bool
) -> tuple[Int64Array, int]:
    """The positions of the packet blocks in buffer[start:end] of a pcapng file before the next block that Python must
    decode, and that block's position.
    """

def reads_link_type(link_type: int) -> bool:
    """Whether the core reads packets of a link layer, a LINKTYPE_ number, at all."""

class PlainScan:
    """Rows of the frames table, and what else the packets were."""

    @property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns of the frames with a message, and their `row`, `begin`, `end` and `clear`."""

    @property
    def packets(self) -> Int64Array:
        """Packets by category."""

    @property
    def wire_bytes(self) -> Int64Array:
        """Bytes on the wire by category."""

    @property
    def ipv6(self) -> list[bytes]:
        """IPv6 addresses of the codes in the columns."""

    @property
    def rest(self) -> Int64Array:
        """Indexes of the packets that are handed back."""

def scan_packets(
    ports: Sequence[int],
    link_types: Sequence[int],
    first: int,
    buffer: UInt8Array,
    offset: Int64Array,
    captured: Int64Array,
    length: Int64Array,
    time_ns: Int64Array,
    interface: UInt32Array,
) -> PlainScan:
    """Find the messages in packets without tunnels, IP fragments and the like.

    `ports` are UDP and TCP ports on which IKE is expected in addition to 500 and 4500, `link_types` those of the
    interfaces. `first` is the number of the first packet, and the arrays after it are those of a RecordBatch.

    Raises:
        ValueError: the columns have different lengths.
    """

class PcapPart:
    """The contents of a part of a pcap file."""

    @property
    def plain(self) -> PlainScan:
        """The plain packets; `row`, `begin`, `end`, `clear` and `interface` are empty."""

    @property
    def clear(self) -> tuple[UInt32Array, Int64Array, Int64Array, UInt8Array]:
        """The rows of the messages that can be read without keys, where each begins and ends in their bytes, and these
        bytes, with PADDING zeros.
        """

    @property
    def encrypted(self) -> tuple[UInt32Array, Int64Array, Int64Array, UInt8Array]:
        """The same of the encrypted messages that were asked for."""

    @property
    def readings(
        self,
    ) -> tuple[UInt32Array, Int64Array, Int64Array, Int64Array, npt.NDArray[np.int8], npt.NDArray[np.int8]]:
        """The rows of the IKE_SA_INIT messages that were read, which `clear` does not have: the offset of each in the
        file, its bytes, its form, and whether sender and receiver differ, as in `InitMessages`.
        """

    @property
    def rest(self) -> tuple[UInt8Array, Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]:
        """A buffer, and offset, captured length, length, time and position in the part of the packets handed back."""

    @property
    def packets(self) -> int: ...
    @property
    def bytes(self) -> int:
        """Bytes on the wire."""

    @property
    def truncated(self) -> int:
        """Packets that were not captured completely."""

    @property
    def first_ns(self) -> int:
        """The earliest time; undefined without packets."""

    @property
    def last_ns(self) -> int:
        """The latest time; undefined without packets."""

    @property
    def stop(self) -> int:
        """File offset of the first record that was not read."""

class PcapReader:
    """Reads a pcap file.

    `identity` is device and inode of the file; another file that has its path is not read. `spis` are as in
    `MessageStore`, `ports` and `link_type` as in `scan_packets`. `read_inits`: read IKE_SA_INIT messages; at most 64
    forms of each length. Takes the reading that `begin_reading` has begun, if it is of this file and in this way.
    """

    def __init__(
        self,
        path: str,
        identity: tuple[int, int],
        spis: set[int] | None,
        ports: Sequence[int],
        link_type: int,
        read_inits: bool,
        *,
        big_endian: bool,
        lengths_swapped: bool,
        lengths_unordered: bool,
        header_size: int,
        fraction_ns: int,
        usual: int,
    ) -> None: ...
    @property
    def has_begun(self) -> bool:
        """Whether another thread has begun to read the file for the first call of `read`."""

    @property
    def position(self) -> int:
        """The file offset up to which all records have been read; another thread can ask for it."""

    @property
    def rows(self) -> int:
        """The rows that a thread has found which reads."""

    def stop(self) -> None:
        """Let a thread that reads return soon."""

    def list_samples(self) -> list[bytes]:
        """A message of each form, by number."""

    def read(self, bounds: tuple[int, int], first: int, threads: int, block: int, rest: int) -> PcapPart:
        """Read the records that begin between two offsets of the file; at the first one, a record begins.

        Several threads read blocks of `block` bytes. `first` is the number of the first packet. Ends before a record
        that is incomplete or that Python must check, and when more than `rest` bytes of packets are handed back.
        """

def begin_reading(path: str, threads: int, block: int, rest: int, unconfirmed: int) -> bool:
    """Begin to read a pcap file in another thread, as a `PcapReader` without SPIs and ports that reads IKE_SA_INIT.

    One thread reads `unconfirmed` bytes and waits until `read` of such a reader is called with the whole file, 1 and
    the same `rest`; then `threads` read. The reading that has begun before, if nobody has taken it, is discarded.

    Returns whether it is the file of a version and link layer that the core reads.
    """

def discard_reading() -> None:
    """End the reading that has begun, unless a reader has taken it."""

class ParquetTable:
    """A Parquet file that is being written, with the schema of the empty file `template`, in groups of rows.

    Raises:
        ValueError: the template is not a Parquet file, or a row group has no rows.
        OSError: the file cannot be created.
    """

    def __init__(self, path: str, template: bytes, rows: int, row_group: int) -> None: ...
    def write(
        self,
        columns: Sequence[
            tuple[
                str,
                Sequence[
                    tuple[
                        npt.NDArray[Any] | str | None,
                        npt.NDArray[Any] | None,
                        tuple[str, Int64Array] | None,
                        tuple[UInt8Array, UInt8Array] | None,
                    ]
                ],
            ]
        ],
        order: Int32Array | None,
    ) -> None:
        """Write some columns, each with its name and its leaves in the schema.

        A leaf has its values (a text: that of all rows; None: no row has a value), which of them are known (None: all),
        and the texts in which the values are places, of 8 or 32 bits (None: the values are numbers): one after another,
        with the byte where each ends. Of 64 bits, the places are codes of an AddressBook, and the texts are its IPv6
        addresses. 64-bit numbers without texts in a column of texts are written as 16 hexadecimal digits. An array of
        32-bit numbers may be one number repeated without memory. A column in lists has the known values alone, and
        definition and repetition levels.

        `order` is the row of the columns that each row of the table is, except of columns in lists, whose rows are
        those of the table; None: all are.

        Raises:
            ValueError: the columns differ in length, or are not those of the schema, or `order` has other rows.
            OSError: the file cannot be written.
        """

    def finish(self) -> None:
        """Complete the file.

        Raises:
            ValueError: it lacks columns, or is complete.
            OSError: the file cannot be written.
        """

def repeat_levels(
    definition: UInt8Array, repetition: UInt8Array, has_values: bool, place: Int64Array
) -> tuple[UInt8Array, UInt8Array, UInt32Array]:
    """Repeat the levels of lists, of which each row has that at its place; `has_values`: the leaf has some.

    Returns the definition and repetition levels of all rows, and which of the values of the leaf each value is.

    Raises:
        ValueError: a place is outside of the lists, or the levels are not those of lists.
    """

def find_distinct(values: UInt64Array) -> tuple[UInt64Array, UInt32Array]:
    """The different values, in the order in which they first appear, and which of them each value is. (k,), (n,)"""

def find_distinct_bodies(
    heap: UInt8Array, begin: Int64Array, end: Int64Array, number: UInt64Array
) -> tuple[Int64Array, UInt32Array]:
    """The rows of the first of bodies with equal numbers and bytes, and which of those each body is. (k,), (n,)

    Raises:
        ValueError: the columns differ in length, or a body is outside of the heap.
    """

def order_times(times: Int64Array) -> Int32Array:
    """The rows in order of their times, earlier rows first where these are equal. (n,)"""

def find_candidates(
    digest: UInt64Array, time_ns: Int64Array, ttl: UInt8Array, interface: UInt32Array
) -> tuple[int, Int64Array]:
    """How many frames repeat the content of another; and the rows of those that may be sightings of the same frame.

    The latter are all frames of such a content, in order of time. (k,)
    """

def find_first_rows(handshake: Int32Array, count: int) -> Int64Array:
    """The row of the first datagram of each of so many handshakes; 0 without one. (handshakes,)

    Raises:
        ValueError: a datagram is of no handshake.
    """

def infer_capture_sides(handshake: Int32Array, from_initiator: BoolArray, ttl: UInt8Array, count: int) -> UInt8Array:
    """The side on which each of so many handshakes was captured, by the TTLs (see `capture_point`). (handshakes,)

    Raises:
        ValueError: the columns have different lengths, or a datagram is of no handshake.
    """

def find_responders_on_port(association: SaAssociation, source_port: UInt16Array, port: int, count: int) -> BoolArray:
    """Whether the responder of each of so many handshakes sent something from this port. (handshakes,)

    Raises:
        ValueError: the columns have different lengths, or a datagram is of no handshake.
    """

def summarise_datagrams(datagrams: Datagrams, association: SaAssociation, count: int) -> dict[str, Any]:
    """The columns of `datagram_summary.DatagramSummary` by name, of so many handshakes.

    Raises:
        ValueError: the columns have different lengths, or a datagram is of no handshake.
    """

def group_by_spi(key: UInt64Array, datagrams: Datagrams) -> tuple[Int32Array, BoolArray]:
    """Group datagrams by `key`: initiator SPIs, or numbers that also differ by capture and tunnel.

    Returns the group of each datagram, numbered in order of the first datagrams, and whether each group may contain
    several IKE SAs. (datagrams,), (groups,)
    """

def find_contradicted_flags(datagrams: Datagrams, handshake: Int32Array, count: int) -> Int64Array:
    """The rows of datagrams whose flag of the initiator contradicts the addresses (see `association`). (k,)

    Raises:
        ValueError: the columns have different lengths, or a datagram is of none of so many handshakes.
    """

def classify_slot(
    time_ns: Int64Array,
    fragment: UInt16Array,
    total: UInt16Array,
    digest: UInt64Array,
    arrived: BoolArray,
    ikev1: bool,
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """Body, transmission and first copy of each datagram of one slot, in order of time. (n,) each"""

def group_messages(
    slot: Int64Array,
    datagrams: Datagrams,
    association: SaAssociation,
    initiator_asked: BoolArray,
    response: BoolArray,
    ikev1: BoolArray,
    arrived: BoolArray | None,
    several: bool,
) -> dict[str, Any]:
    """The columns of `MessageColumns` by name, and `of_datagram`: the row of the message of each datagram.

    `body` and `ip_fragments` are empty where all are 0. `arrived`: which datagrams have all their IP fragments, None:
    all. `several`: some datagrams have several frames.
    """

def fit_form(heap: UInt8Array, begin: Int64Array, sample: bytes, low: Int64Array, high: Int64Array) -> BoolArray:
    """Whether each message in the heap has the bytes of the sample in the ranges from `low` to `high`. (messages,)

    Raises:
        ValueError: a message or a range is outside of its buffer.
    """

def compare_nat_hashes(
    heap: UInt8Array, begin: Int64Array, places: Int64Array, address: UInt64Array, port: UInt16Array, ipv6: bytes
) -> npt.NDArray[np.int8]:
    """Whether the end of each message in the heap differs from all its NAT detection hashes at `places`: 1 or 0.

    `address` are codes without numbers of captures; `ipv6` are the addresses that they stand for, one after another.

    Raises:
        ValueError: a message, hash or address is outside of its buffer.
    """

def pair_exchanges(messages: MessageColumns, attempt: Int32Array) -> dict[str, Any]:
    """The columns of `ExchangeColumns` but `set_up` by name, and `of_message`: the row of the exchange of each message.

    `attempt` is that of each message.
    """

def end_in_order(
    messages: MessageColumns, exchange_of_message: Int32Array, exchange_columns: ExchangeColumns
) -> dict[str, Int64Array]:
    """The columns of `ExchangeEndings` but `uncertain` by name, by the order of the transmissions.

    Raises:
        ValueError: a message is of no exchange, or an exchange has no messages.
    """

def sum_volumes(messages: MessageColumns, set_up: BoolArray, count: int) -> dict[str, Any]:
    """What the messages of each of `count` handshakes add up to, by name. (handshakes,) each

    `set_up`: whether each message sets up its IKE SA.

    Raises:
        ValueError: a message is of no handshake.
    """

def sum_phases(
    messages: MessageColumns, set_up: BoolArray, count: int
) -> tuple[Int64Array, UInt32Array, UInt32Array, UInt64Array, Int64Array]:
    """The exchange types of the set-up of each of `count` handshakes, in order of handshake and time.

    Returns the type (the protocol in the high bits), messages, frames and bytes of each, (phases,); and how many each
    handshake has, (handshakes,).

    Raises:
        ValueError: the messages are not in order of handshake.
    """

def measure_host_pairs(
    exchange_columns: ExchangeColumns,
    end_ns: Int64Array,
    messages: MessageColumns,
    exchange_of_message: Int32Array,
    initiator: UInt64Array,
    responder: UInt64Array,
) -> dict[str, Any]:
    """What the exchanges show about the paths between hosts, by name (see `answers`).

    `end_ns`: when each exchange ended, by the order of its transmissions; `initiator` and `responder`: address codes of
    the hosts of each handshake.

    Returns:
        `following`, the row of the initiator's next exchange in the same handshake, or -1, and `continues`, whether it
        follows at once and sets up the IKE SA, (exchanges,) each; `pair`, the number of the pair of hosts,
        (handshakes,); `round_trip_ns`, 0: unknown, and `possibly_long`, whether the round trip may take longer than the
        retransmission timer, (pairs,) each.

    Raises:
        ValueError: the columns have different lengths, an exchange is of no handshake, or a message of no exchange.
    """

def collect_evidence(
    exchange_columns: ExchangeColumns,
    unprotected: BoolArray,
    unreceived: BoolArray,
    asked_in_clear: BoolArray,
    undone: BoolArray,
) -> dict[str, BoolArray]:
    """The columns of `outcome.Evidence` that the exchanges show, by name, of handshakes without RADIUS.

    `unprotected`, `unreceived`, `asked_in_clear`: whose responses do not count, whose responses the initiator cannot
    have received if they are its last ones, and whose requests do not count, (exchanges,) each; `undone`: whose
    decrypted payloads show that the set-up had not ended, (handshakes,).

    Raises:
        ValueError: the columns have different lengths, or an exchange is of no handshake.
    """

def find_last_times(
    exchange_columns: ExchangeColumns, exchange_of_message: Int32Array, last_ns: Int64Array, count: int
) -> Int64Array:
    """The greatest `last_ns` of the messages of the set-up of each of `count` handshakes, or UNKNOWN. (handshakes,)

    Raises:
        ValueError: the columns have different lengths, a message is of no exchange, or an exchange of no handshake.
    """

def sum_auth_exchanges(exchange_columns: ExchangeColumns, count: int) -> dict[str, Int64Array]:
    """The number of IKE_AUTH exchanges of each of `count` handshakes, and their `request_messages`, `request_bytes`,
    `response_messages` and `response_bytes`. (handshakes,) each

    Raises:
        ValueError: the columns have different lengths, or an exchange is of no handshake.
    """

def divide_set_up_times(
    exchanges: ExchangeColumns,
    answers: AnsweredTransmissions,
    complete: BoolArray,
    initiator: UInt64Array,
    responder: UInt64Array,
    path: NetworkPath,
) -> dict[str, Int64Array]:
    """The columns of `timing.TimeBreakdown` by name, of handshakes without RADIUS.

    `complete`: which handshakes are in the capture from the first request to the last response; `initiator` and
    `responder` are address codes of their hosts. (handshakes,) each

    Raises:
        ValueError: the columns have different lengths, or an exchange is of no handshake.
    """

def decrypt_handshakes(
    heap: UInt8Array,
    columns: dict[str, npt.NDArray[Any]],
    ends: Int64Array,
    keys: tuple[UInt8Array, Int64Array, Int64Array],
    encryption: npt.NDArray[np.uint16],
    integrity: npt.NDArray[np.uint16],
    key_ends: Int64Array,
    threads: int,
    decrypted_heap: UInt8Array,
) -> dict[str, Any]:
    """Decrypt the messages of handshakes with the key sets that name their IKE SAs (see `bulk_decryption`).

    Args:
        heap: bytes of the encrypted messages.
        columns: `begin`, `size`, `slot`, `body`, `number`, `total`, `from_initiator` of their datagrams.
        ends: where the datagrams of each handshake end.
        keys: a heap of keys, and offset and size of SK_ei, SK_er, SK_ai and SK_ar of each key set.
        encryption: transform ID of each key set.
        integrity: transform ID of each key set; 0: none.
        key_ends: where the key sets of each handshake end.
        threads: how many decrypt at most.
        decrypted_heap: gets the IKE header and plaintext of each message; as many bytes as the datagrams suffice.

    Returns:
        `handled`, `message_ends`, `undecrypted_ends` of each handshake; `last`, `position`, `first`, `part_ends` of
        each message, and `begin`, `size` of its bytes in the heap; `parts`, `undecrypted`: positions of datagrams.

    Raises:
        ValueError: the columns differ in length.
    """

def walk_chains(
    heap: UInt8Array, begin: Int64Array, end: Int64Array, first: UInt8Array, wanted: BoolArray, most: int
) -> dict[str, Any]:
    """Walk the chains of payloads of messages in the heap (see `payloads.columns`). (messages,) each

    `begin`, `end`: offsets of the chain. `first`: type of its first payload. `wanted`: messages whose chain is walked.
    A chain of more than `most` payloads counts as incomplete.

    Returns:
        `message`, `type`, `critical`, `begin`, `size` of each payload of a complete chain; `ends`, where its payloads
        end, and `complete` of each message.

    Raises:
        ValueError: the columns differ in length.
    """

def number_prefixes(
    payloads: tuple[UInt8Array, UInt8Array, BoolArray, Int64Array, Int64Array],
    answers: BoolArray,
    suspicious: Int64Array,
    prefix: npt.NDArray[np.int8],
    is_opaque: BoolArray,
    notify: int,
    auth: tuple[int, int],
) -> tuple[UInt64Array, BoolArray]:
    """Number payloads by their first bytes (see `payloads.forms`). (payloads,) each

    Args:
        payloads: heap with the bodies; type, critical flag, offset and size of the body of each.
        answers: whether the message is a response.
        suspicious: rows, in ascending order, whose whole body belongs to the form.
        prefix: bytes of the body that belong to the form, by type of the payload; negative: all. (256,)
        is_opaque: whether the data of a notify of a type only count. (65536,)
        notify: the type of notify payloads.
        auth: the type of AUTH payloads, and the authentication method whose data begin with an algorithm.

    Returns:
        the number of each payload, and whether its form also depends on bytes that the number lacks.

    Raises:
        ValueError: the columns differ in length.
    """

#: A line of a log that matters; see `find_log_lines`.
FoundLine = tuple[int, int, int, int, bool, tuple[int, bytes, bool | None] | None]

def find_log_lines(
    block: bytes, start: int, labels: Sequence[bytes], messages: Sequence[tuple[bytes, Sequence[bytes]]]
) -> list[FoundLine]:
    """Find the lines of a log that matter in `block` from `start` on, where a line begins.

    `labels`: those of the dumps; `messages`: how other messages of charon begin, and phrases of which they have one,
    if there are any.

    Returns for each line its start, the beginning of the text after charon's prefix, its end, and how many lines are
    before it; whether it is a message; and of a whole dump the index of the label, the bytes, and whether its further
    lines are indented (None: it has none).
    """

"""Groups payloads by form, so that each form is parsed, checked and described once.

The payloads of a testbed, and those of one gateway, mostly differ only in nonces, keys, hashes and signatures. Payloads
whose other bytes are the same have the same *form*: the same description, the same sizes and the same findings. Which
bytes belong to the form depends on the type; for a type that is not listed here, all do.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.analysis.decryption.payloads.columns import PayloadColumns
from ikeanalyze.analysis.grouping import find_distinct, find_distinct_bodies
from ikeanalyze.capture.arrays import (
    BoolArray,
    Int64Array,
    UInt8Array,
    UInt64Array,
    read_struct_array,
    read_uint32_be,
    sort_distinct,
)
from ikeanalyze.wire.ikev2.checks import check_payload
from ikeanalyze.wire.ikev2.describe import describe_payload
from ikeanalyze.wire.ikev2.key_exchange import ML_KEM_MODULUS, ML_KEM_PARAMETER_SETS, ML_KEM_SEED_BYTES
from ikeanalyze.wire.ikev2.payload_size import PayloadSize, measure_payload
from ikeanalyze.wire.ikev2.proposals import PROPOSAL
from ikeanalyze.wire.registries.ikev2 import AuthMethod, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

#: Bytes at the beginning of the body that belong to the form, of types whose other bytes only count.
_PREFIX: Final = {PayloadType.KE: 4, PayloadType.NONCE: 0, PayloadType.CERTREQ: 1, PayloadType.AUTH: 1}
#: Notifies whose data only count: their prefix has the protocol, the size of the SPI and the type.
_OPAQUE_NOTIFIES: Final = (
    NotifyType.NAT_DETECTION_SOURCE_IP,
    NotifyType.NAT_DETECTION_DESTINATION_IP,
    NotifyType.COOKIE,
)
_NOTIFY_PREFIX: Final = 4
#: `_PREFIX` by type; -1: the whole body belongs to the form.
_PREFIX_OF_TYPE: Final = np.full(256, -1, np.int8)
_PREFIX_OF_TYPE[list(_PREFIX)] = list(_PREFIX.values())
#: Whether a notify of a type is one of `_OPAQUE_NOTIFIES`.
_IS_OPAQUE_NOTIFY: Final = np.zeros(1 << 16, np.bool_)
_IS_OPAQUE_NOTIFY[list(_OPAQUE_NOTIFIES)] = True
#: Masks of a number of four bytes for its first 0, 1, 2, 3 and 4 bytes.
_MASKS: Final = np.array([0, 0xFF000000, 0xFFFF0000, 0xFFFFFF00, 0xFFFFFFFF], np.uint32)
#: Types of which the outcome, the key exchanges and the certificates of a handshake depend on more than the size.
_DECISIVE: Final = frozenset(
    {PayloadType.SA, PayloadType.KE, PayloadType.CERT, PayloadType.AUTH, PayloadType.NOTIFY, PayloadType.EAP}
)
#: Bytes of key exchange data that are checked at once, so few that they stay in the processor's cache.
_BATCH_BYTES: Final = 1 << 20


class PayloadForm(Struct, frozen=True):
    """What all payloads of a form have in common."""

    text: str  # description
    size: PayloadSize
    has_findings: bool


class FormColumns(Struct, frozen=True):
    """The form of each payload."""

    forms: list[PayloadForm]
    form: Int64Array  # index into `forms`. (payloads,)
    kind: Int64Array  # equal only if no fact of the handshake depends on how the payloads differ. (payloads,)


def find_forms(payloads: PayloadColumns, response: BoolArray) -> FormColumns:
    """Find the form of each payload; `response`: whether each decoded message is a response. (messages,)"""
    answers = response[payloads.message]
    numbers, whole = _number_prefixes(payloads, answers)
    form = np.zeros(len(payloads), np.int64)
    short, long = np.flatnonzero(~whole), np.flatnonzero(whole)
    _, place = find_distinct(numbers[short])
    form[short] = place
    count = int(place.max()) + 1 if len(place) else 0
    form[long] = _number_bodies(payloads, long, numbers, count)
    first = _find_first_rows(form)
    kinds = _number_kinds(payloads, first)
    forms = [_describe_form(payloads, row, response=bool(answers[row])) for row in first.tolist()]
    return FormColumns(forms, form, kinds[form])


def _number_prefixes(payloads: PayloadColumns, answers: BoolArray) -> tuple[UInt64Array, BoolArray]:
    """A number for each payload, and whether its form also depends on bytes that the number lacks. (payloads,) each

    The number contains the type, the critical flag, whether the message is a response, the size of the body, and the
    bytes of the body that belong to the form, at most four.
    """
    kind, size, heap, begin = payloads.type, payloads.size, payloads.heap, payloads.begin
    suspicious = _find_suspicious_keys(payloads, answers)
    if core.compiled is not None:
        return core.compiled.number_prefixes(
            (heap, kind, payloads.critical, begin, size),
            answers,
            np.sort(suspicious),
            _PREFIX_OF_TYPE,
            _IS_OPAQUE_NOTIFY,
            int(PayloadType.NOTIFY),
            (int(PayloadType.AUTH), int(AuthMethod.DIGITAL_SIGNATURE)),
        )
    head = read_uint32_be(heap, begin)
    prefix = _PREFIX_OF_TYPE[kind]
    # the data of this method begin with an algorithm
    auths = np.flatnonzero(kind == PayloadType.AUTH)
    prefix[auths[head[auths] >> np.uint32(24) == int(AuthMethod.DIGITAL_SIGNATURE)]] = -1
    notifies = np.flatnonzero((kind == PayloadType.NOTIFY) & (size >= _NOTIFY_PREFIX))
    prefix[notifies[_IS_OPAQUE_NOTIFY[head[notifies] & np.uint32(0xFFFF)]]] = _NOTIFY_PREFIX
    prefix[size <= _NOTIFY_PREFIX] = _NOTIFY_PREFIX
    prefix[suspicious] = -1
    head &= _MASKS[np.minimum(np.maximum(prefix, 0), size)]
    # type (8 bits), critical flag, response flag, size (22 bits), bytes of the body (32 bits)
    number = kind.astype(np.uint64)
    for value, bits in ((payloads.critical, 1), (answers, 1), (size.view(np.uint64), 22), (head, 32)):
        number <<= np.uint64(bits)
        number |= value
    return number, prefix < 0


def _find_suspicious_keys(payloads: PayloadColumns, answers: BoolArray) -> Int64Array:
    """Rows of the KE payloads whose data may be invalid, although their size is right."""
    rows = np.flatnonzero((payloads.type == PayloadType.KE) & (payloads.size > _PREFIX[PayloadType.KE]))
    suspicious: list[Int64Array] = [rows[:0]]
    method = read_uint32_be(payloads.heap, payloads.begin[rows]) >> np.uint32(16)
    is_key = ~answers[rows] & np.isin(method, list(ML_KEM_PARAMETER_SETS))
    sizes = payloads.size[rows]
    keys = {parameters.encapsulation_key for parameters in ML_KEM_PARAMETER_SETS.values()}
    for size in sort_distinct(sizes).tolist():
        data_size = size - _PREFIX[PayloadType.KE]
        layout = np.dtype([("data", "u1", data_size)])
        same = np.flatnonzero(sizes == size)
        step = max(_BATCH_BYTES // data_size, 1)
        for low in range(0, len(same), step):
            batch = same[low : low + step]
            at = payloads.begin[rows[batch]] + _PREFIX[PayloadType.KE]
            data: UInt8Array = read_struct_array(payloads.heap, at, layout)["data"]
            invalid = np.asarray(~data.any(axis=1), np.bool_)
            if data_size in keys and is_key[batch].any():
                invalid |= is_key[batch] & _find_invalid_encapsulation_keys(data)
            suspicious.append(rows[batch[invalid]])
    return np.concatenate(suspicious)


def _find_invalid_encapsulation_keys(data: UInt8Array) -> BoolArray:
    """Which encapsulation keys fail the modulus check of FIPS 203, section 7.2 (see `key_exchange`). (keys,)"""
    coded = data[:, :-ML_KEM_SEED_BYTES].astype(np.uint16).reshape(len(data), -1, 3)
    # three bytes hold two coefficients, the lower bits first
    low, middle, high = coded[:, :, 0], coded[:, :, 1], coded[:, :, 2]
    invalid = ((low | (middle & 0x0F) << 8) >= ML_KEM_MODULUS) | ((middle >> 4 | high << 4) >= ML_KEM_MODULUS)
    return np.asarray(invalid.any(axis=1), np.bool_)


def _number_bodies(payloads: PayloadColumns, rows: Int64Array, numbers: UInt64Array, count: int) -> Int64Array:
    """Number the forms of payloads whose whole body belongs to the form, from `count` on. (rows,)"""
    places: dict[tuple[int, bytes], int] = {}
    with_spis: dict[tuple[int, bytes], int] = {}  # SA payloads as they are
    heap = payloads.heap.data
    begin, end = payloads.begin[rows], payloads.begin[rows] + _count_form_bytes(payloads, rows)
    columns: tuple[npt.NDArray[Any], ...] = (numbers[rows], begin, end, payloads.type[rows] == PayloadType.SA)
    # only the first of equal bodies is parsed
    first, equal = find_distinct_bodies(payloads.heap, begin, end, columns[0])
    columns = tuple(column[first] for column in columns)
    forms = np.empty(len(columns[0]), np.int64)
    for row, (number, low, high, is_sa) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        key = number, heap[low:high].tobytes()
        if is_sa:
            place = with_spis.get(key)
            if place is None:
                hidden = number, _hide_spis(key[1])
                place = with_spis[key] = places.setdefault(hidden, len(places))
        else:
            place = places.setdefault(key, len(places))
        forms[row] = count + place
    return forms[equal]


def _hide_spis(body: bytes) -> bytes:
    """An SA payload with zeros in place of the SPIs of its proposals; only a rekeying depends on them."""
    hidden, at = bytearray(body), 0
    while at + PROPOSAL.size <= len(hidden):
        _, length, _, _, spi_size, _ = PROPOSAL.unpack_from(hidden, at)
        spi = at + PROPOSAL.size
        if length < PROPOSAL.size + spi_size or at + length > len(hidden):
            break  # malformed
        hidden[spi : spi + spi_size] = bytes(spi_size)
        at += length
    return bytes(hidden)


def _count_form_bytes(payloads: PayloadColumns, rows: Int64Array) -> Int64Array:
    """Bytes at the beginning of the body that belong to the form: all, but of a digital signature the algorithm."""
    count = payloads.size[rows].copy()
    signed = np.flatnonzero(payloads.type[rows] == PayloadType.AUTH)
    if len(signed):
        # method, three reserved bytes, length of the algorithm (RFC 7427, section 3)
        algorithm = payloads.heap[payloads.begin[rows[signed]] + 4].astype(np.int64)
        count[signed] = np.minimum(count[signed], 5 + algorithm)
    return count


def _find_first_rows(form: Int64Array) -> Int64Array:
    """The first payload of each form. (forms,)"""
    first = np.zeros(int(form.max()) + 1 if len(form) else 0, np.int64)
    first[form[::-1]] = np.arange(len(form))[::-1]
    return first


def _number_kinds(payloads: PayloadColumns, first: Int64Array) -> Int64Array:
    """Number the forms so that those have the same number that only differ in bytes that no other fact depends on."""
    places: dict[tuple[int, int, int], int] = {}
    kinds = (
        (kind, size, form if kind in _DECISIVE else -1)
        for form, (kind, size) in enumerate(
            zip(payloads.type[first].tolist(), payloads.size[first].tolist(), strict=True)
        )
    )
    return np.array([places.setdefault(kind, len(places)) for kind in kinds], np.int64)


def _describe_form(payloads: PayloadColumns, row: int, *, response: bool) -> PayloadForm:
    payload = payloads.get_payload(row)
    checked = check_payload(payload, response=response)
    return PayloadForm(describe_payload(payload, checked.body), measure_payload(payload), bool(checked.findings))

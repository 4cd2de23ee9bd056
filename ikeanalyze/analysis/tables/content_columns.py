"""Builds the columns of the tables that come from decoded messages."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.analysis.grouping import expand_ranges, find_distinct_bodies
from ikeanalyze.analysis.handshakes.contents.handshake_contents import CaptureContents, SharedValues
from ikeanalyze.analysis.handshakes.contents.key_exchanges import KeyExchangeRow
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.analysis.tables import layouts
from ikeanalyze.analysis.tables.column_types import ListType
from ikeanalyze.analysis.tables.columns import (
    FlatListColumn,
    SharedListColumn,
    StructColumn,
    make_column,
    select_rows,
    share_values,
)
from ikeanalyze.capture.arrays import Int32Array, Int64Array, UInt32Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.ikev2.describe import describe_payloads
from ikeanalyze.wire.ikev2.key_exchange import get_key_exchange_name
from ikeanalyze.wire.x509.certificates import ParsedCertificate


def build_message_content_columns(
    ike: MessageColumns, extra: int, ids: UInt32Array, capture_contents: CaptureContents
) -> dict[str, Any]:
    """Columns of the messages table: IKE and HIP, then `extra` RADIUS packets; `ids` are the ids of all rows."""
    contents, columns = capture_contents.contents, capture_contents.columns
    count = len(ike)
    not_radius = np.zeros(extra, np.bool_)
    index = np.concatenate([contents.of_message, np.full(extra, -1)])
    decrypted = np.concatenate([contents.decrypted, not_radius])
    epochs = np.append(columns.epoch, -1)[index]
    verified = np.append(columns.verified, False)[index]
    names = _build_payload_names(capture_contents)
    lists = [*names.lists, None]
    place = np.append(names.place, len(names.lists))[index]
    for row, parameters in capture_contents.parameters.items():
        place[row] = len(lists)
        lists.append(parameters)
    same = np.full(count + extra, -1)
    for pair in capture_contents.same_eap:
        same[pair.message], same[count + pair.datagram] = ids[count + pair.datagram], ids[pair.message]
    return {
        "decrypted": (decrypted, np.concatenate([contents.encrypted, not_radius])),
        "epoch": (epochs, epochs >= 0),
        "verified": (verified, decrypted),
        "payloads": SharedListColumn(lists, place),
        "same_eap": (same, same >= 0),
    }


def build_exchange_content_columns(
    count: int, exchange_of_message: Int32Array, contents: CaptureContents
) -> dict[str, Any]:
    """Columns of the exchanges table: the epoch, and whether all encrypted messages were decrypted."""
    encrypted = np.bincount(exchange_of_message[contents.contents.encrypted], minlength=count)
    decrypted = np.bincount(exchange_of_message[contents.contents.decrypted], minlength=count)
    epochs = np.full(count, -1)
    columns = contents.columns
    known = columns.epoch >= 0
    epochs[columns.exchange[known]] = columns.epoch[known]
    return {"epoch": (epochs, epochs >= 0), "decrypted": (encrypted == decrypted, encrypted > 0)}


def build_handshake_content_columns(
    count: int,
    contents: CaptureContents,
    replaces: Mapping[int, int],
    handshake_ids: Int64Array,
    exchange_ids: Int64Array,
) -> dict[str, Any]:
    """Columns of the handshakes table that come from decoded messages.

    Args:
        count: of handshakes.
        contents: of the messages.
        replaces: the row of the handshake whose IKE SA each one replaced, by row.
        handshake_ids: of rows. (handshakes,)
        exchange_ids: of rows. (exchanges,)
    """
    before = np.full(count, -1)
    before[list(replaces.keys())] = list(replaces.values())
    facts = contents.facts

    def spread(name: str, shared: SharedValues[Any], values: list[Any]) -> Any:
        """One value for each handshake, of which each distinct one is converted once."""
        place = np.full(count, len(values))
        place[shared.handshakes] = shared.place
        return share_values([*values, None], place, layouts.HANDSHAKES[name])

    sizes = [
        [{"payload": part, "bytes": size} for part, size in parts.items()] for parts in contents.payload_bytes.distinct
    ]
    certificates = [[_make_certificate_row(*entry) for entry in value.certificates] for value in facts.distinct]
    return {
        "replaces": (handshake_ids[before], before >= 0),
        "child_error": spread("child_error", facts, [value.proof.child_error for value in facts.distinct]),
        "payload_bytes": spread("payload_bytes", contents.payload_bytes, sizes),
        "key_exchanges": _build_key_exchanges(count, contents, exchange_ids),
        "certificates": spread("certificates", facts, certificates),
    }


def _build_key_exchanges(count: int, contents: CaptureContents, exchange_ids: Int64Array) -> FlatListColumn:
    """The key exchanges of each handshake, with the ids of their exchanges."""
    facts, kind = contents.facts, layouts.HANDSHAKES["key_exchanges"]
    assert isinstance(kind, ListType)
    rows = [row for value in facts.distinct for row in value.key_exchanges]
    lengths = np.array([len(value.key_exchanges) for value in facts.distinct], np.int64)
    index = facts.place
    # each row of a handshake is one of the distinct rows, with another exchange
    chosen = expand_ranges((np.cumsum(lengths) - lengths)[index], lengths[index])
    offset = np.array([row.exchange for row in rows], np.int64)
    distinct = make_column([_key_exchange(row) for row in rows], kind.inner)
    fields = {name: select_rows(value, chosen) for name, value in distinct.fields.items()}
    fields["exchange"] = exchange_ids[np.repeat(contents.first_exchange, lengths[index]) + offset[chosen]]
    length = np.full(count, -1)
    length[facts.handshakes] = lengths[index]
    return FlatListColumn(StructColumn(fields), length)


def _build_payload_names(contents: CaptureContents) -> SharedListColumn:
    """The short descriptions of the payloads of each decoded message. (messages,)"""
    payloads, forms = contents.columns.payloads, contents.forms
    irregular = np.flatnonzero(~payloads.regular)
    lists = [list_payload_names(contents.contents.all[number]) for number in irregular.tolist()]
    lengths = np.diff(payloads.starts)
    lengths[irregular] = [len(names) for names in lists]
    names = [*(form.text for form in forms.forms), *(name for names in lists for name in names)]
    name = np.empty(int(lengths.sum()), np.int64)
    is_regular = np.repeat(payloads.regular, lengths)
    name[is_regular] = forms.form
    name[~is_regular] = np.arange(len(forms.forms), len(names))
    ends = np.cumsum(lengths)
    # most messages have the same payloads as others
    begin, width = ends - lengths, name.itemsize
    nothing = np.zeros(len(lengths), np.uint64)
    first, place = find_distinct_bodies(name.view(np.uint8), width * begin, width * ends, nothing)
    bounds = zip(begin[first].tolist(), ends[first].tolist(), strict=True)
    return SharedListColumn([[names[number] for number in name[low:high].tolist()] for low, high in bounds], place)


def list_payload_names(content: DecodedMessage) -> list[str]:
    """A short description of each payload of a message."""
    if content.protocol == Protocol.IKEV1:
        # few captures have IKEv1
        from ikeanalyze.wire.ikev1.describe import describe_ikev1_payloads

        return describe_ikev1_payloads(content.payloads)
    return describe_payloads(content.payloads)


def _key_exchange(row: KeyExchangeRow) -> dict[str, Any]:
    """One key exchange, with the position of its exchange in the handshake in place of the exchange's id."""
    request, response = row.request, row.response
    return {
        "exchange": row.exchange,
        "purpose": row.purpose,
        "slot": row.slot,
        "method": get_key_exchange_name(row.method),
        "id": row.method,
        "linked_to": row.linked_to,
        "request": request and request.name,
        "request_bytes": request and request.bytes,
        "response": response and response.name,
        "response_bytes": response and response.bytes,
        "findings": [text for part in (request, response) if part is not None for text in part.findings],
    }


def _make_certificate_row(sent_by_initiator: bool, view: ParsedCertificate) -> dict[str, Any]:
    x509 = view.x509
    return {
        "side": "initiator" if sent_by_initiator else "responder",
        "name": view.name,
        "key": view.key and view.key.name,
        "signature": x509 and x509.signature.name,
        "bytes": view.size,
        "key_bytes": x509 and x509.key_bytes,
        "signature_bytes": x509 and x509.signature_bytes,
        "other_bytes": x509 and x509.other_bytes,
    }
